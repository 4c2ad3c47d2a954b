"""Streams of timed pairs, such as mails, calls or payments: one graph per time window."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import pyarrow as pa

from stream_icd.errors import BadSettings, BadSnapshot
from stream_icd.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.sources.durations import snapshot_id
from stream_icd.sources.windows import Rule


@dataclass(frozen=True, slots=True)
class EventSettings:
    """How events become snapshots.

    Attributes:
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

    def snapshot(self, window: Window, rows: pa.Table) -> Snapshot | None:
        """Return the graph of a window of events: rows of `src`, `dst` and perhaps `weight`."""
        weights = rows["weight"].to_numpy() if "weight" in rows.column_names else None
        try:
            snapshot = snapshot_from_pairs(
                rows["src"],
                rows["dst"],
                graph=self.graph,
                id=snapshot_id(self.graph, window),
                window=window,
                weights=np.ones(len(rows)) if self.counted else weights,
                source=self.source,
            )
        except BadSnapshot:  # rows are already checked: there are only self loops
            return None
        return snapshot if snapshot.n_nodes >= self.least_nodes else None
