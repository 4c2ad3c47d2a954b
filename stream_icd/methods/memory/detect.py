"""Detection on a stream: what is known of a graph improves the result for its next window.

A pure function from a window and the memory before it to communities and the memory after it.
docs/method.md ("Streams") has the steps, docs/stream_memory.md ("Special cases") the other windows:
those without a past, those that come late, and those that lack most nodes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from math import log
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from scipy.sparse import csr_array

from stream_icd.core.arrays import NOBODY, Ids, Labels, Shares, n_distinct
from stream_icd.core.communities import checked_n_communities
from stream_icd.core.compiled import keep_threads, threads_for, uninterrupted
from stream_icd.core.errors import BadInput, BadSettings
from stream_icd.core.node_ids import places, widened
from stream_icd.core.snapshot import Snapshot, Window
from stream_icd.core.times import missed_windows
from stream_icd.methods.bp.known import KNOWN_AND_K, Known
from stream_icd.methods.bp.level_graph import (
    LevelGraph,
    Rows,
    compact,
    entries_at,
    level_of,
    rows_of,
)
from stream_icd.methods.bp.levels import Levels, Wanted, levels_of
from stream_icd.methods.bp.likelihood import nats_saved
from stream_icd.methods.bp.memberships import Memberships, memberships_given_others
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.bp.posterior import Posterior, exact_labels
from stream_icd.methods.memory.changes import Moved, ids_for, moved, replaced_ids
from stream_icd.methods.memory.follow import Find, WindowStep, begin, follow
from stream_icd.methods.memory.horizon import Horizon, check_horizon, kinds_of
from stream_icd.methods.memory.known import Informed, ids_with_known, informed_by, memberships_with
from stream_icd.methods.memory.memory import (
    CERTAIN,
    MOST_COUNTED,
    Memory,
)
from stream_icd.methods.memory.nodes import Aligned, aligned, bounded, cost, lacks_most
from stream_icd.methods.model import Model
from stream_icd.methods.weighing import Weighing


@dataclass(frozen=True, slots=True, eq=False)
class Remembered:
    """Communities of one window, and the memory after it."""

    communities: Labels  # of each node, (n,), in 0..K-1
    community_ids: Ids  # the stable id of each community, (K,)
    replaced: Ids  # remembered ids that ended; see `Communities.replaced`
    memory: Memory  # for the graph's next window
    n_continued: int  # number of communities that continue one of the last window
    milliseconds: float  # how long detection took
    horizon: float  # how many windows the evidence is worth that they were found in
    predicted_bits: float | None
    """Bits per edge that the communities known before saved on the edges of this window; None if
    there are none."""
    damaged: bool = False  # whether it lacks most of its nodes, and is not remembered (`nodes`)
    moved: Moved | None = None
    """Which nodes changed community together, and how strongly the edges confirm it. None without
    memory, in a damaged window, and where a search or another hypothesis corrects what was known:
    there the network need not have changed."""
    probabilities: Shares | None = None
    """How probable it is that each node is in its community, (n,); None with `find`."""
    second_ids: Ids | None = None
    """The stable id of its most probable other community, (n,), `NOBODY` for none."""
    second_probabilities: Shares | None = None
    """How probable that one is, (n,); 0 for none."""
    levels: Levels = field(default_factory=Levels)
    """Levels above and below the communities, if wanted."""
    known_ids: Mapping[int, int] = field(default_factory=dict)
    """The stable id of the community of each known label that remembered nodes have."""

    def __repr__(self) -> str:
        """In short, for notebooks."""
        return (
            f"<Remembered: {len(self.communities):,} nodes in {len(self.community_ids):,} "
            f"communities, {self.n_continued:,} of them continue; {self.memory!r}>"
        )


def detect_remembering(
    snapshot: Snapshot,
    model: Model,
    memory: Memory | None = None,
    n_communities: int | None = None,
    *,
    horizon: Horizon = "auto",
    known: Known | None = None,
    levels: Wanted = "none",
    find: Find | None = None,
    seed: int = 0,
    threads: int = 1,
    adjacency: csr_array | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Remembered:
    """Find the communities of a window, with the memory of the same graph's earlier windows.

    The result depends only on the arguments. Without memory, or with bp if the model's `stay` is 0,
    the communities are those of `detection.detect`.

    Args:
        memory: None for the first window.
        n_communities: K, or None to determine it.
        horizon: how far back to look, in windows; auto: found for each graph.
        known: communities of some nodes, without K if bp finds them. A label keeps its id over
            windows that are given it, while one of its nodes is remembered.
        levels: which levels of communities to find, in the edges that these were found in.
        find: another method, which finds the communities of the evidence instead of bp
            (`detection.finding`), for each hypothesis with the same K. Without it, what bp finds
            in the evidence as the model's encoder weights it is one more hypothesis (`weighing`).
        threads: how many work on a large graph; the result is the same.
        adjacency: that of the snapshot, if it was computed before.

    Raises:
        BadInput: the graph cannot be used, or the adjacency has not the nodes of the snapshot.
        BadSettings: K is not from 1 to n, or given to bp beside known communities, or the snapshot,
            the model, the memory or the horizon is none.
    """
    check_given([snapshot], model, memory)
    n_nodes = max(snapshot.n_nodes, 0 if memory is None else memory.n_nodes)
    with keep_threads(threads_for(n_nodes, threads)):
        return detect_window(
            snapshot.adjacency() if adjacency is None else adjacency,
            snapshot.nodes,
            snapshot.window,
            model.bp,
            memory,
            n_communities,
            horizon=horizon,
            known=known,
            levels=levels,
            find=find,
            weigh=None if find else Weighing.of(model, threads),
            seed=seed,
            clock=clock,
        )


def check_given(snapshots: Sequence[object], model: object, memory: object) -> None:
    """Raise `BadSettings` unless these are of the kinds that they are given as."""
    kinds = [*((snapshot, Snapshot) for snapshot in snapshots), (model, Model)]
    for value, kind in [*kinds, *([] if memory is None else [(memory, Memory)])]:
        if not isinstance(value, kind):
            raise BadSettings(f"give a {kind.__name__} in place of the {type(value).__name__}")


@uninterrupted()
def detect_window(
    adjacency: csr_array,
    nodes: pa.Array,
    window: Window,
    parameters: BpParameters,
    memory: Memory | None = None,
    n_communities: int | None = None,
    *,
    horizon: Horizon = "auto",
    known: Known | None = None,
    levels: Wanted = "none",
    find: Find | None = None,
    weigh: Weighing | None = None,
    seed: int = 0,
    clock: Callable[[], float] = time.perf_counter,
) -> Remembered:
    """`detect_remembering` for a graph in memory; `nodes` are the ids of its rows, ascending."""
    started = clock()
    _check_shape(adjacency, nodes)
    n_communities = checked_n_communities(n_communities, adjacency.shape[0])
    check_horizon(horizon)
    if known is not None and n_communities is not None and find is None:
        raise BadSettings(KNOWN_AND_K)
    memory = Memory.forgotten(0) if memory is None else memory
    step = WindowStep(
        edges=rows_of(adjacency),
        nodes=widened(nodes),
        window=window,
        parameters=parameters,
        n_communities=n_communities,
        kinds=kinds_of(horizon, by_method=find is not None, weighted=weigh is not None),
        find=find,
        weigh=weigh,
        seed=seed,
        n_before=memory.n_nodes,
    )
    at = places(step.nodes, memory.nodes)
    step, aligned, n_ids_before, damaged = _start(step, memory, at)
    if known is not None:
        step = replace(step, known=known.of(aligned.memory.nodes))
    # Before anything is found in the window: what was known predicts it.
    nats, weight = nats_saved(aligned.level, aligned.memory.posterior.likeliest)
    after = _after(step, aligned)
    named = _named(after, memory, at)
    remembered = _remembered(step, memory, after.memory, damaged)
    changes = None
    if n_ids_before and remembered is after.memory and not after.corrected:
        changes = moved(adjacency, named.labels, named.ids, named.ids_before, n_ids_before)
    evidence = cache(partial(_evidence_of, after, step.edges, parameters.weight_exponent))
    further = Levels() if levels == "none" else levels_of(evidence(), named.labels, levels, seed)
    memberships = _memberships(step, aligned, after, evidence)
    names, informed = np.append(after.memory.community_ids, NOBODY), after.informed
    return Remembered(
        communities=named.labels,
        community_ids=named.ids,
        replaced=named.replaced[:0] if damaged else named.replaced,
        memory=remembered,
        n_continued=int((named.ids < n_ids_before).sum()),
        milliseconds=1000 * (clock() - started),
        horizon=remembered.horizon,
        predicted_bits=nats / weight / log(2) if weight else None,
        damaged=damaged,
        moved=changes,
        probabilities=None if memberships is None else memberships.probabilities,
        second_ids=None if memberships is None else names[memberships.seconds],
        second_probabilities=None if memberships is None else memberships.second_probabilities,
        levels=further,
        known_ids={} if informed is None else informed.id_of_label(),
    )


def _check_shape(adjacency: csr_array, nodes: pa.Array) -> None:
    """Raise `BadInput` unless each node has a row: compiled loops do not check their indices."""
    if adjacency.shape != (len(nodes), len(nodes)):
        raise BadInput(
            f"the adjacency has shape {adjacency.shape}; {len(nodes)} nodes need a row and a "
            "column each"
        )


class _Start(NamedTuple):
    """What a window starts from.

    n_ids: ids below it are of communities that were known before.
    damaged: whether the window lacks most nodes, right after a whole one.
    """

    step: WindowStep
    aligned: Aligned
    n_ids: int
    damaged: bool = False


def _start(step: WindowStep, memory: Memory, at: Ids) -> _Start:
    """Lay the window beside what is known of its past.

    at: the place of each of its nodes in the memory, -1 for new ones.
    """
    exponent = step.parameters.weight_exponent
    beside_memory = None
    if memory.hypotheses and (step.find or step.parameters.stay):
        beside_memory = aligned(memory, step.nodes, at, step.edges, exponent)
    if beside_memory is None:  # they have nothing in common
        nothing = Memory.empty(step.window, step.nodes, memory.next_id)
        rows = np.arange(nothing.n_nodes)
        level = level_of(step.edges.comparable(exponent))
        return _Start(step, Aligned(rows, step.edges, level, nothing), 0)
    if lacks_most(memory, at):
        first = not memory.n_lacking and not missed_windows(memory.window, step.window)
        return _Start(replace(step, lacking=True), beside_memory, memory.next_id, damaged=first)
    return _Start(step, beside_memory, memory.next_id)


class _After(NamedTuple):
    """The memory after a window, and what has been found.

    rows: which of its nodes are those of the window.
    corrected: whether what was known has been corrected.
    informed: what known communities of nodes have made of it.
    """

    memory: Memory
    rows: Ids
    corrected: bool
    informed: Informed | None


def _after(step: WindowStep, aligned: Aligned) -> _After:
    """Follow the hypotheses through the window, and name the communities that the leader found."""
    memory = aligned.memory
    followed = (follow if memory.posterior.n_communities else begin)(step, aligned)
    posterior = _with_k(step, aligned, followed.posterior)
    last, informed = memory.posterior.likeliest, None
    if step.known is not None:
        followed = replace(followed, posterior=posterior)
        informed = informed_by(step.known, step, aligned, followed)
        posterior = informed.posterior
    if followed.is_new:
        last = np.full_like(last, NOBODY)  # so no community continues an earlier one
    # As they are written: a memory that was encoded and decoded goes on in the same way.
    shares = (np.floor(posterior.shares * CERTAIN) / CERTAIN).astype(np.float32)
    posterior = posterior._replace(shares=shares)
    ids, next_id = ids_for(posterior.likeliest, last, memory.community_ids, memory.next_id)
    if informed is not None:
        ids, next_id, informed = ids_with_known(ids, next_id, informed, memory)
    if not posterior.believed:
        posterior = posterior._replace(stay=_share_that_stays(posterior.likeliest, ids, memory))
    seen = np.diff(aligned.window.indptr) > 0
    leads = followed.hypotheses[followed.leader].kind
    led_before = memory.leading is not None and memory.leading.kind == leads
    after = replace(
        memory,
        window=step.window,
        seen=memory.seen if step.lacking else seen,
        n_lacking=memory.n_lacking + 1 if step.lacking else 0,
        posterior=posterior,
        community_ids=ids,
        next_id=next_id,
        hypotheses=followed.hypotheses,
        leader=followed.leader,
        since=min(memory.since + 1, MOST_COUNTED) if led_before else 1,
        n_windows=min(memory.n_windows + 1, MOST_COUNTED),
        model=step.parameters.checksum,
    )
    n_again = int((memory.seen & seen).sum()) if memory.n_windows else 0
    after, rows = bounded(after, aligned.rows, step.n_before, n_again)
    return _After(after, rows, followed.corrected, informed)


def _with_k(step: WindowStep, aligned: Aligned, posterior: Posterior) -> Posterior:
    """Return what was found, with exactly K communities among the window's nodes if K is given."""
    k, rows = step.n_communities, aligned.rows
    if k is None or n_distinct(posterior.likeliest[rows]) == k:
        return posterior
    inside = level_of(entries_at(aligned.window.comparable(), rows))
    communities = posterior.communities.copy()
    communities[rows, 0] = exact_labels(inside, posterior, rows, k, step.seed)
    return posterior._replace(communities=communities).tidied()


def _share_that_stays(labels: Labels, ids: Ids, memory: Memory) -> float:
    """Return the share of the nodes that stay in their community, if no beliefs tell it."""
    before = memory.posterior.likeliest
    both = (before >= 0) & (labels >= 0)
    if not both.any():
        return memory.posterior.stay
    return float((ids[labels[both]] == memory.community_ids[before[both]]).mean())


class _Named(NamedTuple):
    """The communities of a window, with their ids, and those that its nodes were in, (n,)."""

    labels: Labels
    ids: Ids
    replaced: Ids
    ids_before: Ids


def _named(after: _After, memory: Memory, at: Ids) -> _Named:
    """Return the communities of the window's nodes.

    at: the place of each of its nodes in the memory before it, -1 for new ones.
    """
    labels_after = after.memory.posterior.likeliest[after.rows]
    ids_after = after.memory.community_ids
    labels, k = compact(labels_after)
    ids = np.empty(k, np.int64)
    ids[labels] = ids_after[labels_after]
    last = np.append(memory.posterior.likeliest, np.int32(NOBODY))[at]  # [-1] for new nodes
    replaced = replaced_ids(labels_after, ids_after, last, memory.community_ids)
    return _Named(labels, ids, replaced, np.append(memory.community_ids, NOBODY)[last])


def _remembered(step: WindowStep, memory: Memory, after: Memory, damaged: bool) -> Memory:
    """Return what is remembered: all, nothing of a late window, little of a damaged one."""
    if step.window.end <= memory.window.end:
        return memory
    if damaged:
        credit = memory.credit - cost(len(step.nodes), memory.n_nodes)
        return replace(memory, next_id=after.next_id, n_lacking=1, credit=credit)
    return after


def _memberships(
    step: WindowStep, aligned: Aligned, after: _After, evidence: Callable[[], LevelGraph]
) -> Memberships | None:
    """Return how probable the communities of the window's nodes are; None with another method."""
    if step.find is not None:
        return None
    posterior, rows = after.memory.posterior, after.rows
    if _by_beliefs(after.memory):
        own, second = posterior.shares[rows, 0], posterior.shares[rows, 1]
        return Memberships(own, posterior.communities[rows, 1], second)
    labels_after = posterior.likeliest[rows]
    labels = compact(labels_after)[0]
    of_label = np.full(len(rows) + 1, NOBODY, np.int32)  # the last for -1
    of_label[labels] = labels_after
    memberships = memberships_given_others(evidence(), labels)
    memberships = memberships._replace(seconds=of_label[memberships.seconds])
    if after.informed is None:
        return memberships
    return memberships_with(memberships, after.informed, aligned.rows)


def _by_beliefs(after: Memory) -> bool:
    """Return whether what is known says how probable it is: the beliefs of the filter."""
    return after.posterior.believed and after.hypotheses[after.leader].kind.by == "filter"


def _evidence_of(after: _After, window: Rows, exponent: float) -> LevelGraph:
    """Return the edges of the window's nodes in which their communities were found.

    window, exponent: the edges of these nodes, and of their weights.
    """
    memory = after.memory
    leading = memory.hypotheses[memory.leader]
    if leading.kind.by == "filter":
        return level_of(window.comparable(exponent))
    summed = leading if leading.kind.by == "sum" else memory.hypotheses[0]
    return level_of(entries_at(summed.evidence.comparable(summed.kind.between), after.rows))
