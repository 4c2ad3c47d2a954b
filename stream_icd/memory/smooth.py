"""Communities of past windows from the windows before and after each: for replays.

A pure function from consecutive windows of one graph to their communities, with the ids that
detection forward in time gives them. It keeps all windows in memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from stream_icd.bp.level_graph import compact
from stream_icd.bp.recalled import Recalled
from stream_icd.bp.smooth import WindowBeliefs, smoothed_beliefs
from stream_icd.errors import BadInput, BadSettings
from stream_icd.memory.detect import Remembered, detect_remembering
from stream_icd.memory.memory import Memory
from stream_icd.memory.recall import kept_a_window, missed_windows, recall
from stream_icd.memory.remember import memory_of, with_absent
from stream_icd.registry.model import Model
from stream_icd.snapshot import Snapshot


def detect_smoothed(
    snapshots: Sequence[Snapshot],
    model: Model,
    memory: Memory | None = None,
    n_communities: Sequence[int | None] | None = None,
    *,
    seed: int = 0,
    clock: Callable[[], float] = time.perf_counter,
) -> list[Remembered]:
    """Find the communities of consecutive windows, each with the windows before and after it.

    First `detect_remembering` goes forward through the windows. Then, from the second last window
    back to the first, belief propagation uses both the past and the future of each
    (`bp.smooth`). So the last window has the result of `detect_remembering`, and so has a window
    that modularity decided, and one that is damaged (`damage`). Each result's `memory` is the one
    after the window in forward detection; a stream can continue with it.

    Args:
        snapshots: windows of one graph, each after the one before.
        memory: the memory before the first window; None: there is none.
        n_communities: K of each window, None to determine it; or None for all.

    Raises:
        BadInput: a graph cannot be used, or a window is not after the one before.
        BadSettings: K is not from 1 to n, or not one for each window.
    """
    ks = [None] * len(snapshots) if n_communities is None else list(n_communities)
    if len(ks) != len(snapshots):
        raise BadSettings(
            f"n_communities has {len(ks)} entries; {len(snapshots)} windows need one each"
        )
    _check_order(snapshots)
    forward: list[Remembered] = []
    for snapshot, k in zip(snapshots, ks, strict=True):
        last = forward[-1].memory if forward else memory
        forward.append(detect_remembering(snapshot, model, last, k, seed=seed, clock=clock))
    if not forward:
        return []
    results, later = list(forward), forward[-1].memory
    befores = [memory, *(one.memory for one in forward)]
    whole = [at for at, one in enumerate(forward) if not one.damaged]
    for at, next_at in reversed(list(pairwise(whole))):
        started = clock()
        snapshot, after = snapshots[at], snapshots[next_at]
        own = replace(_about(snapshot, forward[at].memory), next_id=later.next_id)
        if own.believed and later.believed:
            past = _beliefs_before(snapshot, befores[at], forward[at].memory.stay)
            future = _beliefs_after(snapshot, later, after, forward[next_at].memory.stay)
            adjacency = snapshot.adjacency()
            own = smoothed_beliefs(adjacency, model.bp, own, past, future, ks[at], seed)
        later = _later(snapshot, own, later, after)
        results[at] = _result(forward[at], own, 1000 * (clock() - started))
    last = replace(results[-1].memory, next_id=later.next_id)
    return [*results[:-1], replace(results[-1], memory=last)]


def _check_order(snapshots: Sequence[Snapshot]) -> None:
    for before, after in pairwise(snapshots):
        if after.window.end <= before.window.end:
            raise BadInput(
                f"{after.id} ends at {after.window.end}, not after {before.id}; sort the windows "
                "by time, and keep one of each"
            )


def _about(snapshot: Snapshot, memory: Memory) -> Recalled:
    """Return what the memory after a window holds about the nodes of that window."""
    return recall(memory, snapshot.nodes, snapshot.window, memory.stay)


def _beliefs_before(snapshot: Snapshot, before: Memory | None, stay: float) -> WindowBeliefs:
    recalled = recall(before, snapshot.nodes, snapshot.window, stay)
    return WindowBeliefs(recalled.ids, recalled.shares, stay)


def _beliefs_after(
    snapshot: Snapshot, later: Memory, after: Snapshot, stay: float
) -> WindowBeliefs:
    recalled = recall(later, snapshot.nodes, later.window, stay)
    stay_over_gap = stay ** (1 + missed_windows(snapshot.window, after.window))
    return WindowBeliefs(recalled.ids, recalled.shares, stay_over_gap)


def _later(snapshot: Snapshot, own: Recalled, later: Memory, after: Snapshot) -> Memory:
    """Return the smoothed beliefs of a window, and later ones about nodes that it lacks."""
    new = memory_of(snapshot.nodes, snapshot.window, own)
    kept = kept_a_window(own.stay) ** (1 + missed_windows(snapshot.window, after.window))
    return with_absent(new, later, kept)


def _result(forward: Remembered, own: Recalled, milliseconds: float) -> Remembered:
    labels, n_communities = compact(
        np.unique(own.ids[:, 0], return_inverse=True)[1].astype(np.int32)
    )
    ids = np.empty(n_communities, np.int64)
    ids[labels] = own.ids[:, 0]
    return replace(
        forward,
        communities=labels,
        community_ids=ids,
        milliseconds=forward.milliseconds + milliseconds,
    )
