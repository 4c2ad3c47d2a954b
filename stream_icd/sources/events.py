"""Streams of timed pairs, such as mails, calls or payments: one graph per time window."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa

from stream_icd.errors import BadSettings, BadSnapshot
from stream_icd.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.sources.durations import snapshot_id
from stream_icd.sources.source import Count, NeverStop, Source, Stop, count_nothing
from stream_icd.sources.windows import OnLate, Quiet, Rule, TimedRows, cut_windows


@dataclass(frozen=True, slots=True)
class EventSettings:
    """How events become snapshots.

    Attributes:
        graph: name of the graph.
        rule: how time is divided into windows.
        lateness: how far behind the newest event another may arrive.
        counted: the weight of an edge is its number of events (otherwise edges have no weight, or
            the sum of the `weight` of their events, if events have one).
        least_nodes: windows with fewer nodes make no snapshot.
        source: source URI of the snapshots (`ce_source`).

    Raises:
        BadSettings: fewer than two nodes, which make no edge.
    """

    graph: str
    rule: Rule
    lateness: timedelta = timedelta(0)
    counted: bool = False
    least_nodes: int = 2
    source: str = "urn:stream_icd:events"

    def __post_init__(self) -> None:
        if self.least_nodes < 2:
            raise BadSettings(f"least_nodes={self.least_nodes}; an edge has two nodes")


def event_snapshots(
    arrivals: Iterable[TimedRows | Quiet],
    settings: EventSettings,
    *,
    n_streams: int = 1,
    after: datetime | None = None,
    on_late: OnLate,
    count: Count = count_nothing,
    stop: Stop = NeverStop(),
) -> Source:
    """Yield a snapshot for each window of events, in order of their ends.

    Args:
        arrivals: rows with `src`, `dst` and perhaps `weight`.
        after: skip windows that end at or before this time: they were already made.
        count: called with `small_windows`, the windows below `least_nodes`.
    """
    windows = cut_windows(
        arrivals,
        settings.rule,
        lateness=settings.lateness,
        n_streams=n_streams,
        on_late=on_late,
        stop=stop,
    )
    return Source(None, _snapshots(windows, settings, after, count))


def _snapshots(
    windows: Iterator[tuple[Window, pa.Table]],
    settings: EventSettings,
    after: datetime | None,
    count: Count,
) -> Iterator[tuple[Snapshot, None]]:
    for window, events in windows:
        if after is not None and window.end <= after:
            continue
        snapshot = _snapshot(window, events, settings)
        if snapshot is None or snapshot.n_nodes < settings.least_nodes:
            count("small_windows", 1)
        else:
            yield snapshot, None


def _snapshot(window: Window, events: pa.Table, settings: EventSettings) -> Snapshot | None:
    weights = events["weight"].to_numpy() if "weight" in events.column_names else None
    try:
        return snapshot_from_pairs(
            events["src"],
            events["dst"],
            graph=settings.graph,
            id=snapshot_id(settings.graph, window),
            window=window,
            weights=np.ones(len(events)) if settings.counted else weights,
            source=settings.source,
        )
    except BadSnapshot:  # rows are already checked: there are only self loops
        return None
