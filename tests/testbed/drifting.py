"""A stream that memory helps on, a model that remembers, and an undisturbed detector."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import numpy as np

from stream_icd.core.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.delivery.handler import BatchDone
from stream_icd.kafka.in_process.broker import memory_broker
from stream_icd.kafka.messages import records
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import COMMUNITIES, MEMORY, SNAPSHOTS, create_topics
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.icd.recipe import Recipe
from stream_icd.methods.model import Model
from stream_icd.registry.model import VersionedModel
from stream_icd.streaming.dead_letters.letters import DeadLetterLimit
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.workers.detect import Detector
from stream_icd.streaming.workers.memories import Memories
from stream_icd.streaming.workers.runner import Runner
from stream_icd.wire.message import Message
from stream_icd.wire.snapshots import encode_snapshot
from tests.testbed.fingerprint import fingerprint
from tests.testbed.handlers import WhenDone

START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
N_NODES, N_GROUPS = 120, 6
RECIPE = Recipe(name="test", encoder={"widths": (32, 16, 8)}, discriminator_widths=(8, 1))
BELIEFS = BpParameters(resolution=3.0, mixing=0.3)

Contents = dict[tuple[str, str], list[str]]
"""By topic and snapshot id: the fingerprint of each record about it."""


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
    """A snapshot as a producer sends it."""
    return records.outgoing(topic, encode_snapshot(snapshot))


def contents_of(records: Iterable[Record]) -> Contents:
    """What results and states say of each snapshot; when and where each was made does not count."""
    found: Contents = {}
    for record in records:
        snapshot_id = dict(record.headers)["icd_snapshot_id"].decode()
        message = Message(record.key or b"", record.value or b"", record.headers)
        found.setdefault((record.topic, snapshot_id), []).append(fingerprint(message))
    return found


def undisturbed(snapshots: Iterable[Snapshot], model: VersionedModel, group: str) -> Contents:
    """What one detector publishes that nothing happens to: its results, and its states."""
    with memory_broker() as broker:
        settings = KafkaSettings(bootstrap_servers=broker.bootstrap_servers)
        create_topics(settings)
        with Publisher(settings) as publisher:
            for snapshot in snapshots:
                publisher.send(outgoing(snapshot, SNAPSHOTS))
            sent = publisher.sent
        _detect(settings, model, group, sent)
        found: list[Record] = []
        for topic in (COMMUNITIES, MEMORY):
            with open_reader(settings, topic, until="end") as there:
                found.extend(there)
    return contents_of(found)


def _detect(settings: KafkaSettings, model: VersionedModel, group: str, count: int) -> None:
    """Run a detector in this process, until it has done that many snapshots."""
    stop, done = threading.Event(), 0

    def on_done(batch: BatchDone) -> None:
        nonlocal done
        done += len(batch.records)
        if done >= count:
            stop.set()

    with_memory = DetectSettings(memory="auto", group=group, threads=1)
    detector = Detector(lambda: model, with_memory, memories=Memories.open(settings, group))
    runner = Runner(detector, DeadLetterLimit())
    run_consumer(settings, SNAPSHOTS, group, runner, stop, watchers=[WhenDone(on_done)])
