"""A window and the memory before it, with rows for the same nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream_icd.bp.dynamic.posterior import NOBODY, Posterior, as_new, restricted
from stream_icd.bp.multilevel.level_graph import Labels
from stream_icd.memory.evidence import moved
from stream_icd.memory.memory import Hypothesis, Memory
from stream_icd.node_ids import common_type, places

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Aligned:
    """A window and the memory before it.

    Attributes:
        nodes: ids of all nodes, of the window and of the memory, ascending.
        rows: those of the window, ascending.
        window: its edges, `(n_nodes, n_nodes)`.
        memory: of all nodes; a new node has no community.
    """

    nodes: pa.Array
    rows: Rows
    window: csr_array
    memory: Memory


def aligned(memory: Memory, nodes: pa.Array, window: csr_array) -> Aligned | None:
    """Return the memory with the nodes of a window added; None if their ids are of other types."""
    if memory.nodes.equals(nodes):
        return Aligned(nodes, np.arange(len(nodes)), window, memory)
    import pyarrow.compute as pc  # a tenth of a subscriber's start

    kind = common_type(memory.nodes, nodes)
    if kind is None and pa.types.is_integer(memory.nodes.type) and pa.types.is_integer(nodes.type):
        kind, memory = nodes.type, _in_both_types(memory)
    if kind is None:
        return None
    new = nodes.filter(pa.array(places(nodes, memory.nodes) < 0))
    both = pa.concat_arrays([memory.nodes.cast(kind), new.cast(kind)])
    both = both.take(pc.sort_indices(both))
    rows, known = places(nodes, both), places(memory.nodes, both)
    n_nodes = len(both)
    seen = np.zeros(n_nodes, np.bool_)
    seen[known] = memory.seen
    wider = with_hypotheses(
        replace(memory, seen=seen),
        both,
        changed(
            memory.hypotheses,
            lambda evidence: moved(evidence, known, n_nodes),
            lambda one: spread(one, known, n_nodes),
        ),
    )
    return Aligned(both, rows, moved(window, rows, n_nodes), wider)


def _in_both_types(memory: Memory) -> Memory:
    """Return the memory of the nodes whose ids int64 and uint64 both hold."""
    signed = memory.nodes.cast(pa.int64(), safe=False).to_numpy()
    return of_nodes(memory, np.flatnonzero(signed >= 0))


def of_nodes(memory: Memory, rows: Rows) -> Memory:
    """Return the memory of some of the nodes."""
    if len(rows) == memory.n_nodes:
        return memory
    hypotheses = changed(
        memory.hypotheses,
        lambda evidence: csr_array(evidence[rows][:, rows]),
        lambda one: restricted(one, rows),
    )
    labels = memory.present.known.likeliest[rows]
    nodes = memory.nodes.take(pa.array(rows))
    return _renamed(replace(memory, seen=memory.seen[rows]), nodes, hypotheses, labels)


def _renamed(
    memory: Memory, nodes: pa.Array, hypotheses: Sequence[Hypothesis], labels: Labels
) -> Memory:
    """Return the memory with other hypotheses; `labels` are the places of nodes' ids until now."""
    known = hypotheses[0].known
    ids, left = np.empty(known.n_communities, np.int64), known.likeliest >= 0
    ids[known.likeliest[left]] = memory.community_ids[labels[left]]
    return replace(with_hypotheses(memory, nodes, hypotheses), community_ids=ids)


def without(memory: Memory, ended: NDArray[np.bool_]) -> Memory:
    """Return the memory without some communities of the present hypothesis, `(K,)`.

    Their nodes count as new; so they do in trials.
    """
    labels = memory.present.known.likeliest
    gone = np.append(ended, False)[labels]  # [-1] is NOBODY's
    hypotheses = changed(
        memory.hypotheses, lambda evidence: evidence, lambda one: as_new(one, gone)
    )
    return _renamed(memory, memory.nodes, hypotheses, labels)


def faded(memory: Memory, kept: float) -> Memory:
    """Return the memory with beliefs that count less, by a factor in 0..1."""
    if kept == 1:
        return memory
    factor = np.float32(kept)
    hypotheses = changed(
        memory.hypotheses,
        lambda evidence: evidence,
        lambda one: one._replace(shares=one.shares * factor),
    )
    return with_hypotheses(memory, memory.nodes, hypotheses)


def with_hypotheses(memory: Memory, nodes: pa.Array, hypotheses: Sequence[Hypothesis]) -> Memory:
    """Return the memory with other hypotheses, the present one first, about these nodes."""
    trial = memory.trial and replace(memory.trial, hypothesis=hypotheses[1])
    return replace(memory, nodes=nodes, present=hypotheses[0], trial=trial)


def changed(
    hypotheses: Sequence[Hypothesis],
    of_evidence: Callable[[csr_array], csr_array],
    of_known: Callable[[Posterior], Posterior],
) -> list[Hypothesis]:
    """Return each hypothesis changed."""
    return [
        Hypothesis(one.decay, of_evidence(one.evidence), of_known(one.known)) for one in hypotheses
    ]


def spread(known: Posterior, rows: Rows, n_nodes: int) -> Posterior:
    """Return what is known of some of `n_nodes` nodes, `rows`, beside others that are new."""
    communities = np.full((n_nodes, known.communities.shape[1]), NOBODY, np.int32)
    shares = np.zeros(communities.shape, np.float32)
    communities[rows], shares[rows] = known.communities, known.shares
    return known._replace(communities=communities, shares=shares)
