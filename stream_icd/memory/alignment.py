"""A window and the memory before it, with rows for the same nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream_icd.arrays import Ids, Labels
from stream_icd.bp.level_graph import LevelGraph, finest_level
from stream_icd.bp.posterior import NOBODY, Posterior
from stream_icd.graphs.weights import comparable
from stream_icd.memory.evidence import rearranged
from stream_icd.memory.memory import Hypothesis, Memory
from stream_icd.node_ids import common_type, places


@dataclass(frozen=True, slots=True, eq=False)
class Aligned:
    """A window and the memory before it.

    rows: nodes of the window, ascending.
    window: its edges, `(n_nodes, n_nodes)`; level: the same with weights that are comparable.
    memory: of all nodes, of the window and of the memory; a new node has no community.
    """

    rows: Ids
    window: csr_array
    level: LevelGraph
    memory: Memory


def aligned(
    memory: Memory, nodes: pa.Array, at: Ids, window: csr_array, exponent: float
) -> Aligned | None:
    """Return the memory with the nodes of a window added; None if their ids are of other types.

    at: the place of each of its nodes in the memory, `(n,)`; -1 for new ones.
    exponent: of the weights (`graphs.weights.comparable`).
    """
    if memory.nodes.equals(nodes):
        return beside(at, window, memory, exponent)
    import pyarrow.compute as pc  # a tenth of a subscriber's start

    kind = common_type(memory.nodes, nodes)
    if kind is None and pa.types.is_integer(memory.nodes.type) and pa.types.is_integer(nodes.type):
        kind, memory = nodes.type, _in_both_types(memory)
        at = places(nodes, memory.nodes)
    if kind is None:
        return None
    is_new, n_known = at < 0, memory.n_nodes
    both = pa.concat_arrays([memory.nodes.cast(kind), nodes.filter(pa.array(is_new)).cast(kind)])
    order = pc.sort_indices(both).to_numpy().astype(np.int64)
    rows, place = np.where(is_new, n_known - 1 + np.cumsum(is_new), at), np.empty_like(order)
    place[order] = np.arange(len(order))
    of_window = np.full(len(order), NOBODY, np.int64)
    rows = place[rows]
    of_window[rows] = np.arange(len(rows))
    wider = _with_rows(memory, both.take(pa.array(order)), np.where(order < n_known, order, NOBODY))
    return beside(rows, rearranged(window, of_window), wider, exponent)


def beside(rows: Ids, window: csr_array, memory: Memory, exponent: float) -> Aligned:
    """Return a window and a memory that have rows for the same nodes."""
    return Aligned(rows, window, finest_level(comparable(window, exponent)), memory)


def _in_both_types(memory: Memory) -> Memory:
    """Return the memory of the nodes whose ids int64 and uint64 both hold."""
    signed = memory.nodes.cast(pa.int64(), safe=False).to_numpy()
    return of_nodes(memory, np.flatnonzero(signed >= 0))


def of_nodes(memory: Memory, rows: Ids) -> Memory:
    """Return the memory of some of the nodes."""
    if len(rows) == memory.n_nodes:
        return memory
    return _with_rows(memory, memory.nodes.take(pa.array(rows)), rows)


def _with_rows(memory: Memory, nodes: pa.Array, at: Ids) -> Memory:
    """Return the memory of these nodes; `at` is the row of each so far, ascending, -1 for none."""
    labels = np.append(memory.present.known.likeliest, NOBODY)[at]
    changed = _changed(
        memory, lambda known: known.rearranged(at), lambda graph: rearranged(graph, at)
    )
    seen = np.append(memory.seen, False)[at]
    return _renumbered(replace(changed, nodes=nodes, seen=seen), labels)


def without(memory: Memory, ended: NDArray[np.bool_]) -> Memory:
    """Return the memory without some communities of the present hypothesis, `(K,)`.

    Their nodes count as new; so they do in trials.
    """
    labels = memory.present.known.likeliest
    gone = np.append(ended, False)[labels]  # [-1] is NOBODY's
    kept = _changed(memory, lambda known: known.without(gone), lambda graph: graph)
    return _renumbered(kept, labels)


def _changed(
    memory: Memory,
    of_known: Callable[[Posterior], Posterior],
    of_graph: Callable[[csr_array], csr_array],
) -> Memory:
    def changed(hypothesis: Hypothesis) -> Hypothesis:
        return Hypothesis(
            hypothesis.decay, of_graph(hypothesis.evidence), of_known(hypothesis.known)
        )

    trial = memory.trial and replace(memory.trial, hypothesis=changed(memory.trial.hypothesis))
    longest = None if memory.longest is None else of_graph(memory.longest)
    return replace(memory, present=changed(memory.present), trial=trial, longest=longest)


def _renumbered(memory: Memory, labels: Labels) -> Memory:
    """Return the memory with an id for each community; `labels` are the places of nodes' ids."""
    known = memory.present.known
    ids, left = np.empty(known.n_communities, np.int64), known.likeliest >= 0
    ids[known.likeliest[left]] = memory.community_ids[labels[left]]
    return replace(memory, community_ids=ids)
