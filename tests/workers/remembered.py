"""A stream that memory helps on, and what detection with memory finds in it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np

from stream_icd.bp.parameters import BpParameters
from stream_icd.communities import Communities
from stream_icd.icd.recipe import Recipe
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.memory.detect import detect_remembering
from stream_icd.memory.encoding import encode_memory
from stream_icd.memory.memory import Memory
from stream_icd.registry.model import Model, initial_model
from stream_icd.registry.shipped import VersionedModel
from stream_icd.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.wire.snapshots import encode_snapshot

START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
N_NODES, N_GROUPS = 120, 6
RECIPE = Recipe(name="test", encoder={"widths": (32, 16, 8)}, discriminator_widths=(8, 1))
BELIEFS = BpParameters(resolution=3.0, mixing=0.3)

Found = tuple[str, list[int], list[int], list[list[int]], str | None]
"""Snapshot id, communities, their ids, the ids replaced, and what memory contributed."""


def remembering_model(parameters: BpParameters = BELIEFS, name: str = "test@0") -> VersionedModel:
    """A model that learned that nodes stay in their communities."""
    initial = initial_model(RECIPE)
    return VersionedModel(name, Model(initial.recipe, initial.weights, parameters))


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
    """A snapshot as a producer sends it."""
    message = encode_snapshot(snapshot)
    return OutgoingRecord(topic, message.value, message.key, message.headers)


def records(snapshots: list[Snapshot], partition: int = 0, first: int = 0) -> list[Record]:
    """Snapshots as they are read from a topic."""
    sent = [outgoing(one, "snapshots") for one in snapshots]
    return [
        Record(one.topic, partition, first + at, 0, one.key, one.value, one.headers)
        for at, one in enumerate(sent)
    ]


def uninterrupted(
    snapshots: list[Snapshot], model: VersionedModel, memory: Memory | None = None
) -> tuple[list[Found], bytes]:
    """What is found in the windows of one graph, one after the other; and the memory after them."""
    found: list[Found] = []
    for one in snapshots:
        result = detect_remembering(one, model.model, memory, one.n_communities)
        use = "continued" if result.n_continued else "broken"
        use = "first" if memory is None else "late" if result.memory is memory else use
        found.append(
            (
                one.id,
                result.communities.tolist(),
                result.community_ids.tolist(),
                result.replaced.tolist(),
                use,
            )
        )
        memory = result.memory
    assert memory is not None
    return found, encode_memory(memory)


def said(result: Communities) -> Found:
    """What a result says, to compare with `uninterrupted`."""
    ids, replaced = result.community_ids, result.replaced
    return (
        result.snapshot_id,
        result.labels.tolist(),
        [] if ids is None else ids.tolist(),
        [] if replaced is None else replaced.tolist(),
        result.memory,
    )
