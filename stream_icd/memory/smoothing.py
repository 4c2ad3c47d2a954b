"""Communities of past windows from the windows before and after each: for replays.

A pure function from consecutive windows of one graph to their communities, with the ids that
detection forward in time gives them. It keeps all windows in memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
from scipy.sparse import csr_array

from stream_icd.arrays import Ids
from stream_icd.bp.level_graph import compact
from stream_icd.bp.posterior import NOBODY, Shares, kept_a_window, uninformed
from stream_icd.bp.smoothing import WindowBeliefs, smoothed_beliefs
from stream_icd.bp.sweep import N_KEPT
from stream_icd.errors import BadInput, BadSettings
from stream_icd.memory.bounds import FORGOTTEN
from stream_icd.memory.detect import Remembered, detect_remembering
from stream_icd.memory.horizon import Horizon
from stream_icd.memory.memory import Memory
from stream_icd.model import Model
from stream_icd.node_ids import common_type, places
from stream_icd.snapshot import Snapshot


@dataclass(frozen=True, slots=True, eq=False)
class _About:
    """Beliefs about nodes: stable ids of communities, `(n_nodes, N_KEPT)`, and their shares."""

    nodes: pa.Array
    ids: Ids
    shares: Shares

    def of(self, nodes: pa.Array) -> _About:
        """Return the beliefs about these nodes."""
        place = places(nodes, self.nodes)  # [-1] for unknown nodes
        ids = np.concatenate([self.ids, np.full((1, N_KEPT), NOBODY)])[place]
        shares = np.concatenate([self.shares, np.zeros((1, N_KEPT), np.float32)])[place]
        return _About(nodes, ids, shares)


def detect_smoothed(
    snapshots: Sequence[Snapshot],
    model: Model,
    memory: Memory | None = None,
    n_communities: Sequence[int | None] | None = None,
    *,
    horizon: Horizon = "auto",
    seed: int = 0,
    clock: Callable[[], float] = time.perf_counter,
) -> list[Remembered]:
    """Find the communities of consecutive windows, each with the windows before and after it.

    First `detect_remembering` goes forward through the windows. Then, from the second last window
    back to the first, belief propagation uses both the past and the future of each
    (`bp.smoothing`). So the last window has the result of `detect_remembering`, and so has a window
    that modularity decided, and one that is damaged. Each result's `memory` is the one after the
    window in forward detection; a stream can continue with it.

    Args:
        snapshots: windows of one graph, each after the one before.
        memory: the memory before the first window; None: there is none.
        horizon: see `detect_remembering`.
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
        forward.append(
            detect_remembering(snapshot, model, last, k, horizon=horizon, seed=seed, clock=clock)
        )
    if not forward:
        return []
    results, last = list(forward), forward[-1].memory
    later, next_id = _about(last, last.nodes), last.next_id
    befores = [memory, *(one.memory for one in forward)]
    whole = [at for at, one in enumerate(forward) if not one.damaged]
    for at, next_at in reversed(list(pairwise(whole))):
        started = clock()
        snapshot = snapshots[at]
        now, then = forward[at].memory.present.known, forward[next_at].memory.present.known
        own = _about(forward[at].memory, snapshot.nodes).of(snapshot.nodes)
        if now.believed and then.believed and then.stay:  # else the future says nothing
            future = later.of(snapshot.nodes)
            past = _about(befores[at], snapshot.nodes).of(snapshot.nodes)
            ids, shares = smoothed_beliefs(
                _evidence(forward[at].memory, snapshot),
                model.bp,
                WindowBeliefs(own.ids, own.shares, now.stay),
                now.mixing,
                WindowBeliefs(past.ids, past.shares, now.stay),
                WindowBeliefs(future.ids, future.shares, then.stay),
                ks[at],
                next_id,
                seed,
            )
            own = replace(own, ids=ids, shares=shares)
            next_id = max(next_id, int(ids.max(initial=NOBODY)) + 1)
        later = _with_absent(own, later, kept_a_window(now.stay))
        results[at] = _result(forward[at], own, 1000 * (clock() - started))
    last = replace(results[-1].memory, next_id=next_id)
    return [*results[:-1], replace(results[-1], memory=last)]


def _check_order(snapshots: Sequence[Snapshot]) -> None:
    for before, after in pairwise(snapshots):
        if after.window.end <= before.window.end:
            raise BadInput(
                f"{after.id} ends at {after.window.end}, not after {before.id}; sort the windows "
                "by time, and keep one of each"
            )


def _about(memory: Memory | None, nodes: pa.Array) -> _About:
    """Return what is believed after a window; of none of its nodes if there was no window."""
    if memory is None:
        nothing = uninformed(0)
        return _About(nodes[:0], nothing.communities.astype(np.int64), nothing.shares)
    known = memory.present.known
    ids = np.append(memory.community_ids, NOBODY)[known.communities]  # [-1] for none
    return _About(memory.nodes, ids, known.shares)


def _evidence(memory: Memory, snapshot: Snapshot) -> csr_array:
    """Return the evidence about the nodes of the window that the memory is after."""
    rows = places(snapshot.nodes, memory.nodes)
    return csr_array(memory.present.evidence[rows][:, rows])


def _with_absent(own: _About, later: _About, kept: float) -> _About:
    """Return the beliefs of a window, and later ones about nodes that it lacks."""
    kind = common_type(own.nodes, later.nodes)
    shares = later.shares * np.float32(kept)
    absent = (places(later.nodes, own.nodes) < 0) & (shares.sum(axis=1) >= FORGOTTEN)
    if kind is None or not absent.any():
        return own
    nodes = [own.nodes.cast(kind), later.nodes.filter(pa.array(absent)).cast(kind)]
    return _About(
        pa.concat_arrays(nodes),
        np.concatenate([own.ids, later.ids[absent]]),
        np.concatenate([own.shares, shares[absent]]),
    )


def _result(forward: Remembered, own: _About, milliseconds: float) -> Remembered:
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
