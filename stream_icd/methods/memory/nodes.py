"""The nodes of a memory: rows for those of a window beside it, and which of them stay.

What is remembered is read with each window, so its size decides what the window costs. Without a
bound, a few windows of many new nodes would make all small windows after them expensive.

A source can lose most nodes for some windows (docs/stream_memory.md, "A run of damaged windows").
Such a window is detected with the memory there is, which stays as it is, or changes without new
evidence. But a graph that shrinks for good is small in each later window, too. To tell them apart,
nodes that come again and again earn *credit*, and small windows spend it: each node remembered
beyond the bound costs one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from stream_icd.core.arrays import NOBODY, Ids, Labels
from stream_icd.core.node_ids import common_type, places
from stream_icd.methods.bp.level_graph import LevelGraph, Rows, compact, entries_at, level_of
from stream_icd.methods.memory.memory import MOST_COUNTED, Memory

_MOST_PER_NODE = 4  # nodes remembered for each node of the last window, at most
# Of contacts in a school by the hour, six times the people of an hour are remembered.
_ALWAYS = 1000  # nodes that may be remembered of any graph: they take a millisecond and 20 kB
_LONGEST_RUN = 32  # small windows for which credit lasts, at most; then a graph has shrunk for good
FORGOTTEN = 0.25  # an absent node without evidence is forgotten when its beliefs sum up to less
_LEAST_KNOWN = 0.9  # fraction of the nodes of a damaged window that the one before had, at least


@dataclass(frozen=True, slots=True, eq=False)
class Aligned:
    """A window and the memory before it."""

    rows: Ids  # nodes of the window, ascending
    window: Rows  # its edges, (n_nodes, n_nodes)
    level: LevelGraph  # the same with weights that are comparable
    memory: Memory  # of all nodes, of the window and of the memory; a new node has no community


def _beside(rows: Ids, window: Rows, memory: Memory, exponent: float) -> Aligned:
    """Return a window and a memory that have rows for the same nodes."""
    return Aligned(rows, window, level_of(window.comparable(exponent)), memory)


def aligned(
    memory: Memory, nodes: pa.Array, at: Ids, window: Rows, exponent: float
) -> Aligned | None:
    """Return the memory with the nodes of a window added; None if their ids are of other types.

    at: the place of each of its nodes in the memory, `(n,)`; -1 for new ones.
    exponent: of the weights (`graphs.weights.comparable`).
    """
    if memory.nodes.equals(nodes):
        return _beside(at, window, memory, exponent)
    kind = common_type(memory.nodes, nodes)
    if kind is None and pa.types.is_integer(memory.nodes.type) and pa.types.is_integer(nodes.type):
        # int64 and uint64: the nodes whose ids both hold are remembered.
        signed = memory.nodes.cast(pa.int64(), safe=False).to_numpy()
        kind, memory = nodes.type, of_nodes(memory, np.flatnonzero(signed >= 0))
        at = places(nodes, memory.nodes)
    if kind is None:
        return None
    new, n_remembered = np.flatnonzero(at < 0), memory.n_nodes
    if len(new):
        both = pa.concat_arrays([memory.nodes.cast(kind), nodes.take(pa.array(new)).cast(kind)])
        # Of two runs that ascend, it only merges them.
        order = np.argsort(both.to_numpy(zero_copy_only=False), kind="stable")
        rows = at.copy()
        rows[new] = n_remembered + np.arange(len(new))
        at = _places(order, len(order))[rows]
        so_far = np.where(order < n_remembered, order, NOBODY)
        memory = _with_rows(memory, both.take(pa.array(order)), so_far)
    of_window = _places(at, memory.n_nodes)
    return _beside(at, entries_at(window, of_window), memory, exponent)


def _places(order: Ids, n: int) -> Ids:
    """Return the place of each of 0..n-1 in this order; -1 for those that it lacks."""
    places = np.full(n, NOBODY, np.int64)
    places[order] = np.arange(len(order))
    return places


def of_nodes(memory: Memory, rows: Ids) -> Memory:
    """Return the memory of some of the nodes."""
    if len(rows) == memory.n_nodes:
        return memory
    return _with_rows(memory, memory.nodes.take(pa.array(rows)), rows)


def _with_rows(memory: Memory, nodes: pa.Array, at: Ids) -> Memory:
    """Return the memory of these nodes; `at` is the row of each so far, ascending, -1 for none."""
    posterior, nobody = memory.posterior.rearranged(at), np.int32(NOBODY)
    labels = np.append(memory.posterior.likeliest, nobody)[at]
    ids, left = np.empty(posterior.n_communities, np.int64), posterior.likeliest >= 0
    ids[posterior.likeliest[left]] = memory.community_ids[labels[left]]
    return replace(
        memory,
        nodes=nodes,
        seen=np.append(memory.seen, False)[at],
        posterior=posterior,
        community_ids=ids,
        hypotheses=tuple(
            replace(
                hypothesis,
                evidence=entries_at(hypothesis.evidence, at),
                labels=_compact(np.append(hypothesis.labels, nobody)[at]),
            )
            for hypothesis in memory.hypotheses
        ),
    )


def _compact(labels: Labels) -> Labels:
    """Return the labels without gaps; `NOBODY` stays."""
    has = labels >= 0
    labels[has] = compact(labels[has])[0]
    return labels


def cost(n_nodes: int, n_remembered: int) -> int:
    """Return how much credit it takes to remember so many nodes beside a window of `n_nodes`."""
    return max(n_remembered - max(_MOST_PER_NODE * n_nodes, _ALWAYS), 0)


def bounded(after: Memory, rows: Ids, n_before: int, n_again: int) -> tuple[Memory, Ids]:
    """Return the memory of nodes of the window, with evidence, or with beliefs; and `rows` in it.

    After a much larger window, half of the nodes go with each window, until they are few enough. So
    that window costs the later ones no more than itself again, in all.

    after: the memory of all nodes after the window; its `credit` is that before the window.
    rows: the nodes of the window; these stay, whatever is believed.
    n_before: nodes remembered before the window.
    n_again: nodes that have edges in the window and had some in the one before.
    """
    n_nodes, credit = len(rows), after.credit
    most = max(_MOST_PER_NODE * n_nodes, _ALWAYS, n_before // 2, min(n_before, credit))
    beliefs = np.asarray(sum(after.posterior.shares.T))  # a tenth of the time of sum(axis=1)
    stays = beliefs >= FORGOTTEN
    for hypothesis in after.hypotheses:
        stays |= hypothesis.evidence.indptr[1:] > hypothesis.evidence.indptr[:-1]
    beliefs[rows], stays[rows] = len(beliefs), True
    stay = np.flatnonzero(stays)
    if len(stay) > most:
        stay = np.sort(stay[np.argsort(-beliefs[stay], kind="stable")[:most]])
    credit = max(credit - cost(n_nodes, len(stay)), 0) + n_again
    credit = min(credit, _LONGEST_RUN * len(stay), MOST_COUNTED)
    return of_nodes(replace(after, credit=credit), stay), _places(stay, len(stays))[rows]


def cut(memory: Memory, most_nodes: int) -> Memory:
    """Return the memory of at most so many nodes: those with the strongest beliefs.

    Of equal ones, those with most evidence. So nodes go first that have been away longest.
    """
    if memory.n_nodes <= most_nodes:
        return memory
    strengths = np.zeros(memory.n_nodes)
    for hypothesis in memory.hypotheses:
        strengths += level_of(hypothesis.evidence).strengths
    weakest_last = np.lexsort((-strengths, -memory.posterior.shares.sum(axis=1)))
    return of_nodes(memory, np.sort(weakest_last[:most_nodes]))


def lacks_most(memory: Memory, at: Ids) -> bool:
    """Return whether a window lacks half of the last whole one's nodes, and has few others.

    at: the place of each of its nodes in the memory, `(n,)`; -1 for new ones.
    """
    if not memory.n_nodes or memory.n_lacking >= _LONGEST_RUN:
        return False
    if 2 * len(at) > np.count_nonzero(memory.seen):
        return False
    if memory.credit < cost(len(at), memory.n_nodes):
        return False
    return bool(np.count_nonzero(memory.seen[at[at >= 0]]) >= _LEAST_KNOWN * len(at))
