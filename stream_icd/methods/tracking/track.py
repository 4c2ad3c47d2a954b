"""One step of tracking: from earlier windows and a new one to the events of the new one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from stream_icd.core.arrays import n_distinct
from stream_icd.core.communities import MOST_IDS, Communities
from stream_icd.core.errors import LimitExceeded
from stream_icd.core.events import CommunityEvents
from stream_icd.core.times import missed_windows
from stream_icd.methods.tracking.identities import TrackedHistory, claims, first_claims, identify
from stream_icd.methods.tracking.lifecycle import events_between, first_events, with_strength
from stream_icd.methods.tracking.packed import PackedWindow
from stream_icd.methods.tracking.partition import by_first_node
from stream_icd.methods.tracking.settings import TrackSettings

DEFAULTS = TrackSettings()

_Tracked = TypeVar("_Tracked", CommunityEvents, PackedWindow)


def track(
    recent: Sequence[CommunityEvents],
    communities: Communities,
    settings: TrackSettings = DEFAULTS,
    first_id: int = 0,
) -> CommunityEvents:
    """Return the events of a graph's communities in their window.

    The same communities give the same ids and events, whatever their labels and the order of nodes.
    They are compared on the nodes that both windows have; sizes count all nodes.

    - A window that is not after the last one is late: it is not tracked, and `late` is set.
    - Another revision of the last window replaces it: the result is as if the older revision had
      never existed, ids included. A correction of an older window is late.
    - Up to `settings.absence` missing windows are bridged; after more, all earlier communities have
      died and all present ones are born.
    - A change of model does not affect the matching; `model_before` reports it.
    - If the result has the ids of a detector with memory, and they continue those of the tracked
      windows, these are the stable ids (`claims`), however many windows are missing.

    Args:
        recent: earlier tracked windows of the same graph, oldest first, as `remember` keeps them;
            empty for the first window. This is the whole state of a tracker.
        first_id: least id of a new community, above all ids of windows that are not in `recent`.

    Raises:
        LimitExceeded: the graph has no stable ids left for new communities.
    """
    revised = recent[-1] if recent else None
    recent = _without_revised(recent, communities)
    last = recent[-1] if recent else None
    late = _late(communities, last)
    if last is not None and communities.window.end <= last.window.end:
        return late
    partition = by_first_node(communities.nodes, communities.labels)
    if last is None:
        start = first_id if revised is None else _first_id(revised)
        claimed = first_claims(communities, partition, start, revised)
        known = identify(
            TrackedHistory((), communities.window, partition), start, settings, claimed
        )
        events = first_events(known)
    else:
        recent = recent[-(settings.absence + 1) :]  # as many, whether or not the last was revised
        history = TrackedHistory(recent, communities.window, partition)
        claimed = claims(communities, history)
        if claimed is None:
            history = replace(history, absence=settings.absence)
        known = identify(history, max(last.next_community, first_id), settings, claimed)
        events = with_strength(events_between(history, known, settings), communities, known)
    next_community = max(int(known.ids.max()) + 1, late.next_community, first_id)
    if next_community > MOST_IDS:
        raise LimitExceeded(
            f"no stable id below {MOST_IDS} is left for a new community: somebody gave the highest "
            "ones. Once the events topic no longer holds them, start the graph anew"
        )
    return replace(
        late,
        nodes=partition.nodes,
        communities=known.ids[partition.labels],
        events=events,
        next_community=next_community,
        missed=missed_windows(last.window, communities.window) if last else 0,
        late=False,
    )


def _late(communities: Communities, last: CommunityEvents | None) -> CommunityEvents:
    """Return the events of a window that is not tracked."""
    return CommunityEvents(
        graph=communities.graph,
        snapshot_id=communities.snapshot_id,
        window=communities.window,
        model=communities.model,
        nodes=communities.nodes.slice(0, 0),
        communities=np.empty(0, np.int64),
        events=(),
        next_community=last.next_community if last else 0,
        late=True,
        model_before=last.model if last and last.model != communities.model else None,
        revision=communities.revision,
        snapshot_place=communities.snapshot_place,
    )


def _first_id(revised: CommunityEvents) -> int:
    """Return the first id of a window with none before it; `revised` is its older revision.

    If that was not the first window of its graph, the windows before it are forgotten, and their
    ids are not reused.
    """
    if revised.next_community == n_distinct(revised.communities):
        return 0
    return revised.next_community


def remember(
    recent: Sequence[_Tracked], tracked: _Tracked, settings: TrackSettings = DEFAULTS
) -> tuple[_Tracked, ...]:
    """Return `recent` for the next window: add `tracked`, unless late, and drop old windows.

    It keeps one window more than `settings.absence`, in case the last one is revised.
    """
    if tracked.late:
        return tuple(recent)
    windows = list(_without_revised(recent, tracked))
    windows.append(tracked)
    return tuple(windows[-(settings.absence + 2) :])


def _without_revised(
    recent: Sequence[_Tracked], result: Communities | CommunityEvents | PackedWindow
) -> Sequence[_Tracked]:
    """Return `recent` without its last window if `result` is another revision of that window."""
    if recent and recent[-1].identity()[:3] == result.identity()[:3]:
        return recent if recent[-1].revision == result.revision else recent[:-1]
    return recent
