"""One step of tracking: the windows before, a new one in, its events out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stream_icd.communities import Communities
from stream_icd.events import CommunityEvents
from stream_icd.tracking.gaps import missed_windows
from stream_icd.tracking.identities import Identities, compare, identify
from stream_icd.tracking.lifecycle import events_between, first_events
from stream_icd.tracking.partition import by_first_node
from stream_icd.tracking.settings import TrackSettings

DEFAULTS = TrackSettings()


def track(
    recent: Sequence[CommunityEvents],
    found: Communities,
    settings: TrackSettings = DEFAULTS,
    first_id: int = 0,
) -> CommunityEvents:
    """What happened to the communities of a graph up to the window of `found`.

    Labels and the order of nodes do not matter: the same communities give the same ids and
    events. Communities are compared on the nodes that both windows have, so that nodes which
    come and go do not blur who is who; sizes count all nodes.

    - A window that is not after the last one is late: nothing is tracked, and it says so.
    - Another revision of the last window (its snapshot was corrected, or detected with another K or
      seed) replaces it: the outcome is as if the older revision had never been, ids included. A
      correction of an older window is late: what came after it was tracked already.
    - Windows that are missing are bridged, up to `settings.memory` of them; after more, everybody
      has died and everybody is born.
    - Another model makes no difference to the matching; `model_before` says that it changed.

    Args:
        recent: what was tracked of the same graph before, oldest first, as `remember` keeps it;
            empty for the first window. This is the whole state of a tracker.
        first_id: where ids begin in the first window: above all that the graph had before it was
            made to start anew.
    """
    revised = recent[-1] if recent else None
    recent = without_revised(recent, found)
    last = recent[-1] if recent else None
    if last is not None and found.window.end <= last.window.end:
        return _late(last, found)
    partition = by_first_node(found.nodes, found.labels)
    if last is None:
        known = Identities.unknown(partition.n_communities)
        start = first_id if revised is None else _first_id(revised)
        known.ids[:] = start + np.arange(partition.n_communities)
        events = first_events(known, partition)
    else:
        front = compare(last, found.window, partition, 0, settings.memory)
        known = identify(front, recent, found.window, partition, settings)
        events = events_between(front, known, partition, settings)
    return CommunityEvents(
        graph=found.graph,
        snapshot_id=found.snapshot_id,
        window=found.window,
        model=found.model,
        nodes=partition.nodes,
        communities=known.ids[partition.labels],
        events=events,
        next_community=max(int(known.ids.max()) + 1, last.next_community if last else 0),
        missed=missed_windows(last.window, found.window) if last else 0,
        model_before=last.model if last and last.model != found.model else None,
        revision=found.revision,
        snapshot_place=found.snapshot_place,
    )


def _first_id(revised: CommunityEvents) -> int:
    """The first id of a window with none before it; `revised` is its older revision.

    Where that was not the first window of its graph either, those before it are forgotten, and
    their ids are not given again.
    """
    if revised.next_community == len(np.unique(revised.communities)):
        return 0
    return revised.next_community


def remember(
    recent: Sequence[CommunityEvents], tracked: CommunityEvents, settings: TrackSettings = DEFAULTS
) -> tuple[CommunityEvents, ...]:
    """`recent` for the next window: with `tracked`, unless late, and without what is forgotten.

    It keeps one window more than `settings.memory` asks for, in case that the last is revised.
    """
    if tracked.late:
        return tuple(recent)
    return (*without_revised(recent, tracked), tracked)[-(settings.memory + 2) :]


def without_revised(
    recent: Sequence[CommunityEvents], found: Communities | CommunityEvents
) -> Sequence[CommunityEvents]:
    """`recent` without its last window, where `found` is another revision of that one."""
    if recent and recent[-1].identity()[:3] == found.identity()[:3]:
        return recent if recent[-1].revision == found.revision else recent[:-1]
    return recent


def _late(last: CommunityEvents, found: Communities) -> CommunityEvents:
    return CommunityEvents(
        graph=found.graph,
        snapshot_id=found.snapshot_id,
        window=found.window,
        model=found.model,
        nodes=found.nodes.slice(0, 0),
        communities=np.empty(0, np.int64),
        events=(),
        next_community=last.next_community,
        late=True,
        model_before=last.model if last.model != found.model else None,
        revision=found.revision,
        snapshot_place=found.snapshot_place,
    )
