"""A detector with memory, whose registry is in S3, changes its model: what it remembers stays."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from datetime import UTC, datetime

from stream_icd.core.lineage import Lineage
from stream_icd.core.store.store import open_store
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.topics import create_topics
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.memory.encoding import decode_memory
from stream_icd.registry.aliases import current, promote
from stream_icd.registry.model import VersionedModel, pack
from stream_icd.registry.versions import publish
from stream_icd.streaming.detection.record import RecordDetection
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.execution.processes import Processes
from stream_icd.streaming.workers.detect import Detector
from stream_icd.streaming.workers.model_swap import (
    ChampionFollower,
    ModelSwap,
    Pool,
    start_with_champion,
)
from stream_icd.streaming.workers.runner import Runner
from tests.streaming.workers.remembered import records, said, uninterrupted
from tests.streaming.workers.test_detect_memory import Worker
from tests.testbed.brokers import Broker
from tests.testbed.drifting import remembering_model, stream
from tests.testbed.object_store import new_folder

NOW = datetime(2026, 1, 31, tzinfo=UTC)
FIRST, SECOND = (
    remembering_model(BpParameters(resolution=resolution, mixing=0.3)) for resolution in (3.0, 2.0)
)
MODELS = FIRST, SECOND
HALVES = slice(0, 4), slice(4, 8)


def refuse(_aliases: object, error: Exception) -> None:
    raise error


def test_the_memory_of_a_graph_outlives_the_model(memory: Broker, topic_name: str, s3: str) -> None:
    registry = open_store(new_folder(s3))
    create_topics(memory.settings(), [TopicSpec(topic_name, partitions=3)])
    first, second = (pack(one.model) for one in MODELS)
    for one in (first, second):
        publish(registry, one, Lineage("x", NOW, "0"))
    promote(registry, first.version, "first", NOW, by="test", seen=None)
    settings = DetectSettings(memory="auto", memory_topic=topic_name, group="detect", threads=1)

    def opened(model: VersionedModel, place: str) -> AbstractContextManager[Pool]:
        return Processes(RecordDetection(model, settings), place, 2)

    swap = ModelSwap(opened)
    stop = threading.Event()
    try:
        start_with_champion(registry, swap, stop, refuse)
        worker = Worker(memory, topic_name)
        detector = Detector(swap.model, settings, swap, worker.memories)
        worker.runner = Runner(detector)
        windows = {graph: stream(graph, 8) for graph in ("g", "h")}
        halves = [
            [snapshot for window in windows.values() for snapshot in window[at]] for at in HALVES
        ]
        before = worker.work(records(halves[0]))
        promote(registry, second.version, "better", NOW, by="test", seen=current(registry))
        ChampionFollower(registry, swap, stop, refuse).look()
        after = worker.work(records(halves[1], first=8))
    finally:
        swap.close()
    assert {communities.model for communities in before} == {first.version}
    assert {communities.model for communities in after} == {second.version}
    for graph, found in windows.items():
        expected, state = uninterrupted(found[HALVES[0]], FIRST)
        assert [
            said(communities) for communities in before if communities.graph == graph
        ] == expected
        expected, _ = uninterrupted(found[HALVES[1]], SECOND, decode_memory(state))
        assert [
            said(communities) for communities in after if communities.graph == graph
        ] == expected
    assert {communities.memory for communities in after} == {"continued"}
