"""Detection on a stream: what is known of a graph improves the result for its next window.

A pure function from a window and the memory before it to communities and the memory after it.
docs/method.md ("Streams") has the steps, docs/stream_memory.md ("Special cases") the other windows:
those without a past, those that come late, and those that lack most nodes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import log

import numpy as np
import pyarrow as pa
from scipy.sparse import csr_array

from stream_icd.core.arrays import NOBODY, Ids, Labels, n_distinct
from stream_icd.core.communities import checked_n_communities
from stream_icd.core.compiled import keep_threads, threads_for, uninterrupted
from stream_icd.core.errors import BadInput, BadSettings
from stream_icd.core.node_ids import places, widened
from stream_icd.core.snapshot import Snapshot, Window
from stream_icd.core.times import missed_windows
from stream_icd.methods.bp.agglomeration import agglomerate
from stream_icd.methods.bp.level_graph import (
    LevelGraph,
    Rows,
    compact,
    entries_at,
    level_of,
    rows_of,
)
from stream_icd.methods.bp.likelihood import STRONG_BITS, broken, nats_saved
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.bp.partition import measured
from stream_icd.methods.bp.posterior import (
    Posterior,
    certain_posterior,
    initial_posterior,
    kept_a_window,
    next_posterior,
    uninformed,
    with_exactly,
)
from stream_icd.methods.memory.by_method import Find, found_by
from stream_icd.methods.memory.changes import Moved, ids_for, moved, replaced_ids
from stream_icd.methods.memory.evidence import added, in_range, kept, unseen
from stream_icd.methods.memory.horizon import (
    MOST_ROUNDS,
    Horizon,
    begun,
    check_horizon,
    first_decay,
    judged,
    pause,
    with_trial,
)
from stream_icd.methods.memory.memory import (
    CERTAIN,
    LONGEST,
    MOST_COUNTED,
    Hypothesis,
    Memory,
    empty_memory,
    forgotten,
)
from stream_icd.methods.memory.nodes import (
    Aligned,
    aligned,
    beside,
    bounded,
    cost,
    lacks_most,
    without,
)
from stream_icd.methods.model import Model


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
    """Bits per edge that the communities known before saved on the edges of this window that are
    new; None if there are none."""
    damaged: bool = False  # whether it lacks most of its nodes, and is not remembered (`nodes`)
    moved: Moved | None = None
    """Which nodes changed community together, and how strongly the edges confirm it. None without
    memory, in a damaged window, and where a search or another horizon corrects what was known:
    there the network need not have changed."""

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
        find: another method, which finds the communities of the evidence instead of bp
            (`detection.finding`). Trials of the horizon use it too, with the same K.
        threads: how many work on a large graph; the result is the same.
        adjacency: that of the snapshot, if it was computed before.

    Raises:
        BadInput: the graph cannot be used, or the adjacency has not the nodes of the snapshot.
        BadSettings: K is not from 1 to n, or the snapshot, the model, the memory or the horizon is
            none.
    """
    check_given([snapshot], model, memory)
    graph = snapshot.adjacency() if adjacency is None else adjacency
    given = graph, snapshot.nodes, snapshot.window, model.bp, memory, n_communities
    n_nodes = max(snapshot.n_nodes, 0 if memory is None else memory.n_nodes)
    with keep_threads(threads_for(n_nodes, threads)):
        return detect_window(*given, horizon=horizon, find=find, seed=seed, clock=clock)


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
    find: Find | None = None,
    seed: int = 0,
    clock: Callable[[], float] = time.perf_counter,
) -> Remembered:
    """`detect_remembering` for a graph in memory; `nodes` are the ids of its rows, ascending."""
    started = clock()
    if adjacency.shape != (len(nodes), len(nodes)):  # compiled loops do not check their indices
        raise BadInput(
            f"the adjacency has shape {adjacency.shape}; {len(nodes)} nodes need a row and a "
            "column each"
        )
    n_communities = checked_n_communities(n_communities, adjacency.shape[0])
    check_horizon(horizon)
    memory = forgotten(0) if memory is None else memory
    given = in_range(rows_of(adjacency)), widened(nodes), window, parameters
    step = _Step(*given, n_communities, horizon, find, seed, memory.n_nodes)
    at = places(step.nodes, memory.nodes)
    before, bits, damaged, n_known = _known_before(step, memory, at), None, False, memory.next_id
    if before is None:
        nothing = empty_memory(window, step.nodes, first_decay(horizon), memory.next_id)
        rows, n_known = np.arange(nothing.n_nodes), 0
        before = beside(rows, step.edges, nothing, parameters.weight_exponent)
    elif lacks_most(memory, at):
        # Only the first one is damaged, right after a whole one.
        damaged = not memory.n_lacking and not missed_windows(memory.window, window)
        step = replace(step, lacking=True)
    else:
        before, bits = _compared(step, before)
    after, rows, found_anew = _after(step, before)
    found = after.present.known.likeliest[rows]
    labels, k = compact(found)
    ids = np.empty(k, np.int64)
    ids[labels] = after.community_ids[found]
    last = np.append(memory.present.known.likeliest, np.int32(NOBODY))[at]  # [-1] for new nodes
    replaced = replaced_ids(found, after.community_ids, last, memory.community_ids)
    remembered, changes = after, None
    same_view = before.memory.present.decay == memory.present.decay
    if n_known and same_view and not found_anew:
        ids_before = np.append(memory.community_ids, NOBODY)[last]
        changes = moved(adjacency, labels, ids, ids_before, n_known)
    if damaged:
        credit = memory.credit - cost(len(step.nodes), memory.n_nodes)
        remembered = replace(memory, next_id=after.next_id, n_lacking=1, credit=credit)
        replaced, changes = replaced[:0], None
    if window.end <= memory.window.end:
        remembered, changes = memory, None
    return Remembered(
        labels,
        ids,
        replaced,
        remembered,
        int((ids < n_known).sum()),
        1000 * (clock() - started),
        remembered.horizon,
        bits,
        damaged,
        changes,
    )


@dataclass(frozen=True, slots=True)
class _Step:
    """A window, and how it is detected; see `detect_remembering`."""

    edges: Rows
    nodes: pa.Array
    window: Window
    parameters: BpParameters
    n_communities: int | None
    horizon: Horizon
    find: Find | None
    seed: int
    n_before: int  # nodes remembered before it
    lacking: bool = False  # whether it lacks most nodes of the graph (`nodes`)


def _known_before(step: _Step, memory: Memory, at: Ids) -> Aligned | None:
    """Return the window beside what is known of its past; None if they have nothing in common.

    at: the place of each of its nodes in the memory, -1 for new ones.
    """
    if not memory.n_nodes or not (step.find or step.parameters.stay):
        return None
    exponent = step.parameters.weight_exponent
    before = aligned(memory, step.nodes, at, step.edges, exponent)
    if before is None:
        return None
    known, evidence = before.memory.present.known, before.memory.present.evidence
    test = known.likeliest, known.n_communities, known.mixing
    has_broken, ended = broken(before.level, *test)
    if has_broken and not broken(level_of(evidence.comparable(exponent)), *test)[0]:
        return None  # nothing is left of what there was
    if not before.memory.present.decay and ended.any():
        before = replace(before, memory=without(before.memory, ended))
    return before


def _compared(step: _Step, before: Aligned) -> tuple[Aligned, float | None]:
    """Return the memory with the trial that is due, and the bits that were saved.

    What another model has tried in vain says nothing about this one.
    """
    memory = before.memory
    if memory.model != step.parameters.checksum:
        memory = begun(memory, memory.present)
    new = level_of(unseen(before.window, memory.present.evidence))

    def saved(hypothesis: Hypothesis) -> tuple[float, float]:
        return nats_saved(before.level, hypothesis.known.likeliest, new)

    nats, weight = saved(memory.present)
    ahead = 0.0 if memory.trial is None else saved(memory.trial.hypothesis)[0] - nats
    memory = judged(memory, ahead, step.horizon)
    if step.horizon == "auto":
        memory = with_trial(memory)
    return replace(before, memory=memory), nats / weight / log(2) if weight else None


def _after(step: _Step, before: Aligned) -> tuple[Memory, Ids, bool]:
    """Return the memory after a window, which of its nodes are those of the window, and whether a
    search found better communities."""
    memory, trial = before.memory, before.memory.trial
    may_search = step.find is None and memory.n_windows > 0 and not step.lacking
    searches = may_search and not memory.search_wait
    present, better = _found(step, before, memory.present, step.n_communities, searches)
    if trial is not None:
        k = None if step.find is None else step.n_communities
        tried, _ = _found(step, before, trial.hypothesis, k, searches)
        trial = replace(trial, hypothesis=tried)
    n_vain = 0 if better else min(memory.n_vain_searches + searches, MOST_ROUNDS)
    known, before_of_nodes = present.known, memory.present.known.likeliest
    ids, next_id = ids_for(known.likeliest, before_of_nodes, memory.community_ids, memory.next_id)
    seen = np.diff(before.window.indptr) > 0
    longest = memory.longest if step.horizon == "auto" else None
    if longest is not None and not step.lacking:
        longest = kept(added(longest, LONGEST, before.window), before.window)
    after = replace(
        memory,
        window=step.window,
        seen=memory.seen if step.lacking else seen,
        n_lacking=memory.n_lacking + 1 if step.lacking else 0,
        present=_with_stay(present, ids, memory.community_ids, before_of_nodes),
        community_ids=ids,
        next_id=next_id,
        n_windows=min(memory.n_windows + 1, MOST_COUNTED),
        model=step.parameters.checksum,
        trial=trial,
        longest=longest,
        n_vain_searches=n_vain,
        search_wait=pause(n_vain) if searches and n_vain else max(memory.search_wait - 1, 0),
    )
    n_again = int((memory.seen & seen).sum()) if memory.n_windows else 0
    return *bounded(after, before.rows, step.n_before, n_again), better


def _found(
    step: _Step, before: Aligned, hypothesis: Hypothesis, n_communities: int | None, searches: bool
) -> tuple[Hypothesis, bool]:
    """Return the hypothesis after a window, and whether a search found better communities.

    A search finds them without the past, and takes these, or the best of both, if they save
    `STRONG_BITS` more, or where all that is known is a single community: no graph by itself is
    described by that either, if beliefs find others. With the evidence of a single window, beliefs
    about the past say more.
    """
    total = added(hypothesis.evidence, 1.0 if step.lacking else hypothesis.decay, before.window)
    level = before.level
    if total is not before.window:
        level = level_of(total.comparable(step.parameters.weight_exponent))
    known, better = _known(step, total, level, hypothesis.known, before.rows, n_communities), False
    if searches and hypothesis.decay and len(total.indices):
        nothing = uninformed(level.n_nodes)
        anew = _known(step, total, level, nothing, before.rows, n_communities)
        if better := _is_better(level, known, anew):
            if (start := _recombined(level, known, anew)) is not None:
                anew = _known(step, total, level, start, before.rows, n_communities)
            anew.shares[np.diff(total.indptr) == 0] = 0  # of these, nothing is known any more
            known = anew._replace(stay=known.stay)
    evidence = hypothesis.evidence if step.lacking else kept(total, before.window)
    return Hypothesis(hypothesis.decay, evidence, known), better


def _is_better(graph: LevelGraph, known: Posterior, anew: Posterior) -> bool:
    bits, bits_anew = (measured(graph, found.likeliest).bits for found in (known, anew))
    return _is_trivial(known, anew) or graph.n_edges * (bits - bits_anew) > STRONG_BITS


def _is_trivial(known: Posterior, anew: Posterior) -> bool:
    return known.n_communities == 1 < anew.n_communities and anew.believed


def _recombined(graph: LevelGraph, known: Posterior, anew: Posterior) -> Posterior | None:
    """Return the best of two partitions, if it saves `STRONG_BITS` more than `anew`.

    Nodes that are together in both stay together, and these pieces are united while that shortens
    the description: so a search leaves alone what it has not found better.
    """
    pairs = known.likeliest.astype(np.int64) * anew.n_communities + anew.likeliest
    pieces = np.unique(pairs, return_inverse=True)[1].astype(np.int32)
    united = agglomerate(graph, pieces)
    saved = measured(graph, anew.likeliest).bits - measured(graph, united).bits
    if not united.any() or graph.n_edges * saved <= STRONG_BITS:
        return None
    return certain_posterior(united, anew.mixing, anew.resolution)._replace(believed=anew.believed)


def _with_stay(present: Hypothesis, ids: Ids, ids_before: Ids, before: Labels) -> Hypothesis:
    """Return the hypothesis with the fraction of nodes that stayed, where nothing else tells η."""
    known = present.known
    seen = (before >= 0) & (np.diff(present.evidence.indptr) > 0)
    if known.believed or not seen.any():
        return present
    stayed = ids[known.communities[seen, 0]] == ids_before[before[seen]]
    return replace(present, known=known._replace(stay=float(stayed.mean())))


def _known(
    step: _Step,
    total: Rows,
    level: LevelGraph,
    known: Posterior,
    rows: Ids,
    n_communities: int | None,
) -> Posterior:
    """Return the communities of the evidence, exactly K of them in the window if K is given.

    level: the evidence with weights that are comparable.
    """
    parameters = step.parameters
    if not level.n_nodes:
        return known
    if step.find is not None:
        kept = kept_a_window(known.stay or parameters.stay)
        now = found_by(step.find, total, known, rows, n_communities, kept)
    elif known.n_communities:
        now = next_posterior(level, parameters, known, step.seed)
    else:
        now = initial_posterior(level, parameters, n_communities, step.seed)
    if n_communities is not None and n_distinct(now.likeliest[rows]) != n_communities:
        inside = level_of(entries_at(total.comparable(), rows))
        now = with_exactly(inside, now, rows, n_communities, step.seed)
    return now._replace(shares=(np.floor(now.shares * CERTAIN) / CERTAIN).astype(np.float32))
