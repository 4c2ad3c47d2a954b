"""A simulated system whose communities drift: LFR graphs with their ground truth."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from stream_icd.communities import Labels
from stream_icd.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.sources.source import Source
from stream_icd.synthetic.drift import generate_drifting_lfr
from stream_icd.synthetic.lfr import LfrSettings
from stream_icd.synthetic.planted_graph import PlantedGraph

EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
STEP = timedelta(minutes=1)


def drifting_lfr(
    seed: int,
    n_snapshots: int,
    settings: LfrSettings,
    *,
    churn: float = 0.02,
    event_rate: float = 0.1,
    graph: str = "lfr",
    start: datetime = EPOCH,
) -> Source:
    """A snapshot a simulated minute, with K and ground truth; same seed, same bytes.

    Args:
        churn: share of the nodes that are offered another community at each step.
        event_rate: probability at each step of a merge, and of a split, a birth, a death.

    Raises:
        BadSettings: a share or a probability is outside 0..1.
    """
    stream = generate_drifting_lfr(seed, n_snapshots, settings, churn, event_rate)
    graphs = (planted for planted, _ in stream)
    return Source(n_snapshots, _snapshots(graphs, graph, f"urn:stream_icd:lfr:{seed}", start))


def _snapshots(
    graphs: Iterator[PlantedGraph], graph: str, source: str, start: datetime
) -> Iterator[tuple[Snapshot, Labels]]:
    for step, planted in enumerate(graphs):
        window = Window(start + step * STEP, start + (step + 1) * STEP)
        name = f"{graph}/{step:06d}"
        every_node = pa.array(range(planted.n_nodes))
        snapshot = snapshot_from_pairs(
            pa.concat_arrays([pa.array(planted.edges[0]), every_node]),
            pa.concat_arrays([pa.array(planted.edges[1]), pa.nulls(planted.n_nodes, pa.int64())]),
            graph=graph,
            id=name,
            window=window,
            n_communities=planted.n_communities,
            source=source,
        )
        yield snapshot, Labels(graph, name, window, snapshot.nodes, planted.communities, source)
