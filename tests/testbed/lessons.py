"""Streams with known communities to learn from; archives of them, and champions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa

from stream_icd.core.communities import Labels
from stream_icd.core.lineage import Lineage
from stream_icd.core.snapshot import Snapshot, Window
from stream_icd.core.store.store import Store, open_store
from stream_icd.history.archive import Archive
from stream_icd.methods.graphs.labelled_graph import LabelledGraph, Moment
from stream_icd.methods.icd.recipe import Recipe
from stream_icd.methods.model import Model
from stream_icd.methods.synthetic.gn import generate_gn
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_drifting_lfr
from stream_icd.registry.aliases import current, promote
from stream_icd.registry.model import PackedModel
from stream_icd.registry.versions import publish
from stream_icd.sources.generated import planted_snapshots
from stream_icd.wire.communities import encode_labels
from stream_icd.wire.snapshots import encode_snapshot

GRAPH = "small"
NOW = datetime(2026, 3, 1, tzinfo=UTC)
SMALL_ENCODER = Recipe(
    name="small",
    encoder={"widths": (64, 32, 16)},
    discriminator_widths=(16, 1),
    schedule={"epochs": 2, "samples": 2},
    losses={"rows": 50},
)
"""It is trained by the paper's losses, in seconds."""


def small_windows(
    count: int, seed: int = 0, p_in: float = 0.6, communities: int = 8
) -> list[tuple[Snapshot, Labels]]:
    """Windows of 160 nodes, a minute each, whose communities are independent and clear.

    They do not state K: with it, nearly any model finds them.
    """
    rng = np.random.default_rng(seed)
    graphs = (generate_gn(rng, 160, communities, p_in) for _ in range(count))
    return [
        (replace(snapshot, n_communities=None), labels)
        for snapshot, labels in planted_snapshots(graphs, GRAPH, "test")
    ]


def add_to_archive(
    place: str, windows: Iterable[tuple[Snapshot, Labels]], *, labels: bool = False
) -> None:
    """Archive windows, with their labels if these are wanted."""
    archive = Archive(open_store(place))
    for snapshot, truth in windows:
        archive.add("snapshots", encode_snapshot(snapshot))
        if labels:
            archive.add("labels", encode_labels(truth))


def make_champion(registry: Store, model: Model) -> str:
    packed = PackedModel.of(model)
    publish(registry, packed, Lineage("test", NOW, "0"))
    before = current(registry)
    return promote(registry, packed.version, "test", NOW, by="test", seen=before).champion


def moment(number: float, nodes: Iterable[int | str], graph: str = "g", hours: float = 1) -> Moment:
    """A window of a stream: it begins so many hours after the first one."""
    start = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=number)
    return Moment(graph, pa.array(nodes), Window(start, start + timedelta(hours=hours)))


def drifting_windows(
    seed: int, n_windows: int, settings: LfrSettings, *, labels: bool = True
) -> list[LabelledGraph]:
    """Consecutive windows of an LFR graph whose communities change slowly."""
    return [
        LabelledGraph(
            graph.adjacency(),
            graph.communities if labels else None,
            moment(number, range(settings.n_nodes)),
        )
        for number, (graph, _) in enumerate(generate_drifting_lfr(seed, n_windows, settings))
    ]
