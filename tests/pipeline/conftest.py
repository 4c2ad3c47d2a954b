"""What the stream's tests send, and the model they detect with."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from stream_icd.icd.model import initial_model
from stream_icd.icd.recipe import Recipe
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.topics import TopicSpec, create_topics
from stream_icd.registry.shipped import VersionedModel
from stream_icd.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.wire.snapshots import encode_snapshot
from tests.brokers import Broker

START = datetime(2026, 1, 1, tzinfo=UTC)
RECIPE = Recipe(name="test", encoder={"widths": (32, 16, 8)}, discriminator_widths=(8, 1))


@pytest.fixture(scope="session")
def model() -> VersionedModel:
    """Small, untrained, real."""
    return VersionedModel("test@0", initial_model(RECIPE))


@pytest.fixture
def topics(broker: Broker, topic_name: str) -> tuple[str, str]:
    """A snapshots topic (with its dead-letter topic) and a communities topic of one test's own."""
    snapshots, communities = TopicSpec(topic_name), TopicSpec(f"{topic_name}.found")
    create_topics(broker.settings(), [*snapshots.with_dead_letters(), communities])
    return snapshots.name, communities.name


@pytest.fixture
def snapshot() -> Callable[..., Snapshot]:
    """`snapshot(i)`: the i-th of a stream of cliques that are loosely joined."""

    def make(i: int, graph: str = "test", cliques: int = 3, size: int = 8) -> Snapshot:
        pairs = np.argwhere(np.triu(np.ones((size, size)), 1))
        inside = np.concatenate([pairs + c * size for c in range(cliques)])
        bridges = np.array([[c * size, (c + 1) % cliques * size + 1] for c in range(cliques)])
        src, dst = np.concatenate([inside, bridges]).T + i
        window = Window(START + timedelta(minutes=i), START + timedelta(minutes=i + 1))
        return snapshot_from_pairs(
            src, dst, graph=graph, id=f"{graph}/{i}", window=window, n_communities=cliques
        )

    return make


@pytest.fixture
def outgoing() -> Callable[[Snapshot, str], OutgoingRecord]:
    """A snapshot as the record that a producer sends."""

    def make(snapshot: Snapshot, topic: str) -> OutgoingRecord:
        message = encode_snapshot(snapshot)
        return OutgoingRecord(topic, message.value, message.key, message.headers)

    return make
