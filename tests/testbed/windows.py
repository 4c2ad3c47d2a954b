"""Windows of communities, as a tracker gets them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa

from stream_icd.core.communities import STAGES, Communities
from stream_icd.core.events import CommunityEvents
from stream_icd.core.snapshot import Window
from stream_icd.methods.tracking.track import TrackSettings, remember, track

START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


def window(
    hour: int,
    labels: object,
    nodes: object = None,
    model: str = "m@1",
    *,
    graph: str = "g",
    ids: object = None,
    revision: str = "",
) -> Communities:
    """The communities of one hour; nodes are 0, 1, 2, … unless given.

    ids: stable id of each community, if a detector with memory found them.
    """
    labelled = np.asarray(labels, np.int32)
    return Communities(
        graph=graph,
        snapshot_id=f"{graph}/{hour}",
        window=Window(START + hour * HOUR, START + (hour + 1) * HOUR),
        nodes=pa.array(np.arange(len(labelled)) if nodes is None else nodes),
        labels=labelled,
        n_edges=1,
        model=model,
        modularity=0.0,
        ncut=0.0,
        milliseconds=dict.fromkeys(STAGES, 0.0),
        detected_at=START,
        revision=revision,
        community_ids=None if ids is None else np.asarray(ids, np.int64),
        replaced=None if ids is None else np.empty((0, 2), np.int64),
    )


def follow(
    windows: Iterable[Communities], settings: TrackSettings | None = None
) -> list[CommunityEvents]:
    settings = settings or TrackSettings()
    recent: tuple[CommunityEvents, ...] = ()
    tracked = []
    for communities in windows:
        tracked.append(track(recent, communities, settings))
        recent = remember(recent, tracked[-1], settings)
    return tracked


def groups(*sizes: int) -> list[int]:
    """Labels of nodes 0, 1, 2, …: the first `sizes[0]` in community 0, and so on."""
    return np.repeat(np.arange(len(sizes)), sizes).tolist()


def events_of(tracked: CommunityEvents) -> list[tuple[object, ...]]:
    """The events, without sizes: kind, community, and whoever else took part."""
    return [
        (e.kind, e.community, *filter(None, (e.parents, e.children))) for e in tracked.events
    ]  # fmt: skip
