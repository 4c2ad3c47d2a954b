"""A window and the memory before it, with rows for the same nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream_icd.bp.dynamic.posterior import NOBODY, Posterior, as_new, restricted
from stream_icd.bp.multilevel.level_graph import Labels, LevelGraph, finest_level
from stream_icd.graphs.weights import comparable
from stream_icd.memory import evidence
from stream_icd.memory.evidence import moved
from stream_icd.memory.memory import Hypothesis, Memory
from stream_icd.node_ids import common_type, places

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Aligned:
    """A window and the memory before it.

    Attributes:
        rows: nodes of the window, ascending.
        window: its edges, `(n_nodes, n_nodes)`.
        level: the same with weights that are comparable (`graphs.weights`).
        memory: of all nodes, of the window and of the memory; a new node has no community.
    """

    rows: Rows
    window: csr_array
    level: LevelGraph
    memory: Memory


def aligned(
    memory: Memory, nodes: pa.Array, at: Rows, window: csr_array, exponent: float
) -> Aligned | None:
    """Return the memory with the nodes of a window added; None if their ids are of other types.

    Args:
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
    is_new = at < 0
    both = pa.concat_arrays([memory.nodes.cast(kind), nodes.filter(pa.array(is_new)).cast(kind)])
    order = pc.sort_indices(both)
    both, n_nodes = both.take(order), len(both)
    place = np.empty(n_nodes, np.int64)
    place[order.to_numpy()] = np.arange(n_nodes)
    rows, old = np.empty(len(at), np.int64), place[: memory.n_nodes]
    rows[is_new], rows[~is_new] = place[memory.n_nodes :], old[at[~is_new]]
    seen = np.zeros(n_nodes, np.bool_)
    seen[old] = memory.seen

    def widened(graph: csr_array) -> csr_array:
        return moved(graph, old, n_nodes)

    wider = _changed(memory, lambda known: spread(known, old, n_nodes), widened)
    wider = replace(wider, nodes=both, seen=seen)
    return beside(rows, moved(window, rows, n_nodes), wider, exponent)


def beside(rows: Rows, window: csr_array, memory: Memory, exponent: float) -> Aligned:
    """Return a window and a memory that have rows for the same nodes."""
    return Aligned(rows, window, finest_level(comparable(window, exponent)), memory)


def _in_both_types(memory: Memory) -> Memory:
    """Return the memory of the nodes whose ids int64 and uint64 both hold."""
    signed = memory.nodes.cast(pa.int64(), safe=False).to_numpy()
    return of_nodes(memory, np.flatnonzero(signed >= 0))


def of_nodes(memory: Memory, rows: Rows) -> Memory:
    """Return the memory of some of the nodes."""
    if len(rows) == memory.n_nodes:
        return memory

    def fewer(graph: csr_array) -> csr_array:
        return evidence.restricted(graph, rows)

    labels, nodes = memory.present.known.likeliest[rows], memory.nodes.take(pa.array(rows))
    kept = _changed(memory, lambda known: restricted(known, rows), fewer)
    kept = replace(kept, nodes=nodes, seen=memory.seen[rows])
    return _renumbered(kept, labels)


def without(memory: Memory, ended: NDArray[np.bool_]) -> Memory:
    """Return the memory without some communities of the present hypothesis, `(K,)`.

    Their nodes count as new; so they do in trials.
    """
    labels = memory.present.known.likeliest
    gone = np.append(ended, False)[labels]  # [-1] is NOBODY's
    kept = _changed(memory, lambda known: as_new(known, gone), lambda graph: graph)
    return _renumbered(kept, labels)


def _changed(
    memory: Memory,
    of_known: Callable[[Posterior], Posterior],
    of_graph: Callable[[csr_array], csr_array],
) -> Memory:
    def changed(one: Hypothesis) -> Hypothesis:
        return Hypothesis(one.decay, of_graph(one.evidence), of_known(one.known))

    trial = memory.trial and replace(memory.trial, hypothesis=changed(memory.trial.hypothesis))
    longest = None if memory.longest is None else of_graph(memory.longest)
    return replace(memory, present=changed(memory.present), trial=trial, longest=longest)


def _renumbered(memory: Memory, labels: Labels) -> Memory:
    """Return the memory with an id for each community; `labels` are the places of nodes' ids."""
    known = memory.present.known
    ids, left = np.empty(known.n_communities, np.int64), known.likeliest >= 0
    ids[known.likeliest[left]] = memory.community_ids[labels[left]]
    return replace(memory, community_ids=ids)


def spread(known: Posterior, rows: Rows, n_nodes: int) -> Posterior:
    """Return what is known of some of `n_nodes` nodes, `rows`, beside others that are new."""
    n_kept = known.communities.shape[1]
    communities = np.append(known.communities, np.full((1, n_kept), NOBODY, np.int32), axis=0)
    shares = np.append(known.shares, np.zeros((1, n_kept), np.float32), axis=0)
    at = np.full(n_nodes, len(rows))  # the last row, for nodes that are new
    at[rows] = np.arange(len(rows))
    return known._replace(communities=communities.take(at, axis=0), shares=shares.take(at, axis=0))
