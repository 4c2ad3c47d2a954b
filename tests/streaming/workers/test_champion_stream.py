"""A promotion reaches a running detector: no restart, no snapshot lost, no batch of two models."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from pathlib import Path

import pyarrow as pa
import pytest

from consumers.detect import model_at_work, place_of
from stream_icd.commands.programs.worker import WorkerRun
from stream_icd.core.communities import Communities
from stream_icd.core.lineage import Lineage
from stream_icd.core.store.store import Store, open_store
from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.delivery.handler import BatchDone
from stream_icd.kafka.messages.claims import ClaimCheck
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.topics import COMMUNITIES, MODELS, SNAPSHOTS, create_topics
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.memory.encoding import decode_memory
from stream_icd.methods.model import Model
from stream_icd.registry.aliases import champion, current, promote, roll_back
from stream_icd.registry.announce import announcements
from stream_icd.registry.model import pack
from stream_icd.registry.versions import publish, version_folder
from stream_icd.streaming.detection.record import RecordDetection
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.execution.processes import Processes
from stream_icd.streaming.metrics.metrics import Health, Metrics
from stream_icd.streaming.subscribers.subscribe import subscribe
from stream_icd.streaming.workers.detect import Detector
from stream_icd.streaming.workers.model_swap import (
    ChampionFollower,
    ModelSwap,
)
from stream_icd.streaming.workers.runner import Runner
from tests.fixtures.stream import cliques
from tests.streaming.workers.remembered import Worker, records, said, uninterrupted
from tests.testbed import streams
from tests.testbed.brokers import Broker, wait_until
from tests.testbed.children import alive, children, worker_processes
from tests.testbed.drifting import RECIPE, outgoing, remembering_model, stream
from tests.testbed.handlers import Calls
from tests.testbed.object_store import new_folder
from tests.testbed.starting import Program, consuming
from tests.testbed.streams import beside

NOW = datetime(2026, 1, 31, tzinfo=UTC)
PACKED = [pack(Model(RECIPE, BpParameters(resolution=1.0 + i / 8))) for i in range(3)]
A, B, C = (model.version for model in PACKED)


@pytest.fixture
def registry(disk: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Three versions, of which A is the champion."""
    for model in PACKED:
        publish(disk, model, Lineage("test", NOW, "0"))
    crown(disk, A)
    monkeypatch.setenv("STREAM_ICD_REGISTRY", disk.uri)
    monkeypatch.setenv("STREAM_ICD_REGISTRY_CHECK_S", "600")  # the topic's messages are the nudge
    return disk


def crown(registry: Store, version: str) -> None:
    promote(registry, version, "better", NOW, by="test", seen=current(registry))


def announce(broker: Broker) -> None:
    """Any message makes detectors look, whatever it says."""
    streams.publish(broker, [OutgoingRecord(MODELS, b"look", b"registry")])


class Detecting:
    """A detector with two processes, in this process, that follows the champion."""

    def __init__(self, broker: Broker, topics: tuple[str, str]) -> None:
        self.broker, self.topics = broker, topics
        self.metrics = Metrics(Health(60, 60))
        self.batches: list[set[str]] = []

    @contextmanager
    def at_work(self) -> Iterator[None]:
        stop, settings, topic = threading.Event(), self.broker.settings(), self.topics[0]
        chosen = DetectSettings(topic=self.topics[1], threads=1)
        with ExitStack() as until_the_end:
            run = WorkerRun(settings, self.metrics, until_the_end, stop, ClaimCheck(settings))
            place = place_of("champion", None)
            working = model_at_work(run, "champion", place, chosen, processes=2)
            swap = until_the_end.enter_context(working)
            handler = Calls(Runner(Detector(swap.model, chosen, swap)).handle, done=self._done)
            work = partial(run_consumer, settings, topic, topic, handler, max_records=8)
            with beside(work, stop) as errors:
                yield
            assert errors == []

    def _done(self, batch: BatchDone) -> None:
        models = {dict(record.headers)["icd_model"].decode() for record in batch.outgoing}
        self.batches.append(models)

    def results(self, limit: int) -> list[Communities]:
        where = {"settings": self.broker.settings(), "topic": self.topics[1]}
        return list(subscribe(start="beginning", limit=limit, **where))

    def metric(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"stream_icd_{name}", labels)


@pytest.mark.brokers("memory")
def test_a_running_detector_changes_model_between_two_batches(
    broker: Broker, topics: tuple[str, str], registry: Store
) -> None:
    create_topics(broker.settings())
    bench, sent, before = Detecting(broker, topics), 0, len(list(announcements(broker.settings())))

    def more(count: int) -> None:
        nonlocal sent
        streams.publish(broker, [outgoing(cliques(sent + i), topics[0]) for i in range(count)])
        sent += count

    def models() -> set[str]:
        return {result.model for result in bench.results(sent)[-1:]}

    with bench.at_work():
        more(20)
        assert models() == {A}
        assert bench.metric("champion_in_use") == 1
        first_workers = worker_processes(os.getpid())
        crown(registry, B)
        announce(broker)
        while models() != {B}:
            more(4)
        version_folder(registry, C).put("recipe.toml", pa.py_buffer(b"half"))
        spoilt_champion(registry, C)
        announce(broker)
        wait_until(lambda: bench.metric("models_refused_total", exception="ModelDamaged"))
        assert bench.metric("champion_in_use") == 0
        more(8)
        assert models() == {B}
        roll_back(registry, "worse", NOW, by="test", seen=champion(registry))
        wait_until(lambda: not set(first_workers) & set(worker_processes(os.getpid())))
        roll_back(registry, "worse", NOW, by="test", seen=champion(registry))
        announce(broker)
        while models() != {A}:
            more(4)
    found = bench.results(sent)
    assert [communities.snapshot_id for communities in found] == [f"test/{i}" for i in range(sent)]
    assert [model for model, _ in groupby(communities.model for communities in found)] == [A, B, A]
    assert all(len(models) == 1 for models in bench.batches)
    assert bench.metric("model_swaps_total") == 2
    assert worker_processes(os.getpid()) == []
    (announced,) = list(announcements(broker.settings()))[before:]
    assert (announced.kind, announced.version, announced.generation) == ("refused", C, 3)
    assert announced.reason.startswith("ModelDamaged: ")


def spoilt_champion(registry: Store, version: str) -> None:
    """Make a version the champion that cannot be loaded, as if it broke after the promotion."""
    path = "aliases/00000002.json"
    entry = json.loads(registry.read(path, registry.size(path)) or b"")
    entry |= {"generation": 3, "champion": version, "previous": B, "back_to": 2, "id": "3"}
    registry.put("aliases/00000003.json", pa.py_buffer(json.dumps(entry).encode()))


def running(broker: Broker, graph: str, log: Path) -> AbstractContextManager[Program]:
    """A detector of the command line with two processes."""
    options = ("--model", "champion", "--batch", "4", "--processes", "2")
    return consuming(broker, graph, log, "detect", *options)


@pytest.mark.brokers("kafka")
def test_kill_9_around_a_swap_loses_nothing_and_starts_with_the_newest(
    broker: Broker, topic_name: str, registry: Store, tmp_path: Path
) -> None:
    """Killed while the new processes open, and again right after the change."""
    create_topics(broker.settings())
    sent, found, logs = 0, list[Communities](), [tmp_path / f"{i}.log" for i in range(3)]
    results = subscribe(
        topic_name, start="beginning", settings=broker.settings(), topic=COMMUNITIES
    )

    def detect(count: int) -> str:
        nonlocal sent
        snapshots = [cliques(sent + i, topic_name) for i in range(count)]
        streams.publish(broker, [outgoing(one, SNAPSHOTS) for one in snapshots])
        found.extend(next(results) for _ in range(count))
        sent += count
        return found[-1].model

    with running(broker, topic_name, logs[0]) as first:
        assert detect(8) == A
        crown(registry, B)
        announce(broker)
        wait_until(lambda: len(worker_processes(first.pid)) > 2)
        orphans = [*children(first.pid), *worker_processes(first.pid)]
        os.kill(first.pid, signal.SIGKILL)
        wait_until(lambda: not any(map(alive, orphans)))
    with running(broker, topic_name, logs[1]) as second:
        assert detect(8) == B
        crown(registry, C)
        announce(broker)
        wait_until(lambda: "the model changed" in logs[1].read_text())
        os.kill(second.pid, signal.SIGKILL)
    with running(broker, topic_name, logs[2]) as third:
        assert detect(8) == C
        third.terminate()
        assert third.wait(30) == 0, logs[2].read_text()
    assert [communities.snapshot_id for communities in found] == [
        f"{topic_name}/{i}" for i in range(sent)
    ]
    assert [model for model, _ in groupby(communities.model for communities in found)] == [A, B, C]


def test_the_memory_of_a_graph_outlives_the_model(memory: Broker, topic_name: str, s3: str) -> None:
    """The registry is in S3."""
    models = [
        remembering_model(BpParameters(resolution=resolution, mixing=0.3))
        for resolution in (3.0, 2.0)
    ]
    first, second = (pack(one.model) for one in models)
    store = open_store(new_folder(s3))
    create_topics(memory.settings(), [TopicSpec(topic_name, partitions=3)])
    for one in (first, second):
        publish(store, one, Lineage("x", NOW, "0"))
    crown(store, first.version)
    settings = DetectSettings(memory="auto", memory_topic=topic_name, group="detect", threads=1)

    def refuse(_aliases: object, error: Exception) -> None:
        raise error

    swap = ModelSwap(lambda model, place: Processes(RecordDetection(model, settings), place, 2))
    stop, worker = threading.Event(), Worker(memory, topic_name)
    windows = {graph: stream(graph, 8) for graph in ("g", "h")}

    def half(start: int) -> list[Communities]:
        parts = [one for of_graph in windows.values() for one in of_graph[start : start + 4]]
        return worker.work(records(parts, first=2 * start))

    try:
        swap.start_with_champion(store, stop, refuse)
        worker.runner = Runner(Detector(swap.model, settings, swap, worker.memories))
        before = half(0)
        crown(store, second.version)
        ChampionFollower(store, swap, stop, refuse).look()
        after = half(4)
    finally:
        swap.close()
    assert {one.model for one in before} == {first.version}
    assert {one.model for one in after} == {second.version}
    assert {one.memory for one in after} == {"continued"}
    for graph, found in windows.items():
        expected, state = uninterrupted(found[:4], models[0])
        assert [said(one) for one in before if one.graph == graph] == expected
        expected, _ = uninterrupted(found[4:], models[1], decode_memory(state))
        assert [said(one) for one in after if one.graph == graph] == expected
