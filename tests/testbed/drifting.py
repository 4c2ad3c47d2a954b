"""A stream that memory helps on, and a model that remembers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np

from stream_icd.core.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.kafka.messages import records
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.icd.recipe import Recipe
from stream_icd.methods.model import Model
from stream_icd.registry.model import VersionedModel
from stream_icd.wire.snapshots import encode_snapshot

START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
N_NODES, N_GROUPS = 120, 6
RECIPE = Recipe(name="test", encoder={"widths": (32, 16, 8)}, discriminator_widths=(8, 1))
BELIEFS = BpParameters(resolution=3.0, mixing=0.3)


def remembering_model(parameters: BpParameters = BELIEFS, name: str = "test@0") -> VersionedModel:
    """A model that learned that nodes stay in their communities."""
    return VersionedModel(name, Model(RECIPE, parameters))


def stream(graph: str, count: int, seed: int = 0) -> list[Snapshot]:
    """Windows of drifting communities; the edges of each are drawn afresh."""
    rng = np.random.default_rng([seed, *graph.encode()])
    groups = np.arange(N_NODES) % N_GROUPS
    windows = []
    for number in range(count):
        moved = rng.random(N_NODES) < 0.03
        groups = np.where(moved, rng.integers(0, N_GROUPS, N_NODES), groups)
        chance = np.where(groups[:, None] == groups, 0.35, 0.03)
        src, dst = np.nonzero(np.triu(rng.random((N_NODES, N_NODES)) < chance, 1))
        window = Window(START + number * MINUTE, START + (number + 1) * MINUTE)
        windows.append(
            snapshot_from_pairs(src, dst, graph=graph, id=f"{graph}/{number}", window=window)
        )
    return windows


def outgoing(snapshot: Snapshot, topic: str) -> OutgoingRecord:
    return records.outgoing(topic, encode_snapshot(snapshot))
