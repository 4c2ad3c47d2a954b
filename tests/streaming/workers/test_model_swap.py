"""A detector changes its model between two batches, follows the champion, refuses bad ones."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from structlog.testing import capture_logs

from consumers.detect import model_at_work, place_of
from stream_icd.commands.programs.worker import WorkerRun
from stream_icd.core.communities import Communities
from stream_icd.core.errors import (
    ModelDamaged,
    ModelForeign,
    ModelNotFound,
    WorkersLost,
)
from stream_icd.core.lineage import Lineage
from stream_icd.core.store.store import Store, open_store
from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.delivery.handler import BatchDone
from stream_icd.kafka.messages.claims import ClaimCheck
from stream_icd.kafka.messages.records import Processed
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.topics import COMMUNITIES, MODELS, SNAPSHOTS, create_topics
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.memory.encoding import decode_memory
from stream_icd.methods.model import Model
from stream_icd.registry.aliases import Aliases, champion, current, promote, roll_back
from stream_icd.registry.announce import announcements
from stream_icd.registry.model import PackedModel, VersionedModel
from stream_icd.registry.versions import publish, version_folder
from stream_icd.streaming.detection.record import RecordDetection
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.execution.processes import Processes
from stream_icd.streaming.metrics.metrics import Metrics
from stream_icd.streaming.subscribers.subscribe import subscribe
from stream_icd.streaming.workers.detect import Detector
from stream_icd.streaming.workers.model_swap import _IDLE_AFTER_S, _TRY_AGAIN_S, ModelSwap
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

STOP = threading.Event()
RECORDS = [Record("snapshots", 0, offset, 0, b"g", b"") for offset in range(4)]


@dataclass(frozen=True)
class FakePool:
    """Answers each record with the version of its model."""

    version: str
    alive: int = 1
    resident_bytes: int = 100

    def wait_until_warm(self, _stop: threading.Event) -> None:
        if self.version.startswith("bad"):
            raise WorkersLost("no memory")

    def __call__(
        self, records: Iterable[Record], _first: object
    ) -> Iterator[tuple[Record, Processed]]:
        for record in records:
            yield record, Processed(self.version)


class Swapping:
    """A swap over fake pools, and what happened to them."""

    def __init__(self) -> None:
        self.open: list[str] = []
        self.swaps: list[tuple[str, str]] = []
        self.now = 0.0
        self.error: Exception | None = None  # with which pools of other models than A open
        self.on_close: Callable[[], object] = lambda: None
        self.swap = ModelSwap(
            self._opened,
            lambda old, new: self.swaps.append((old.version, new.version)),
            lambda: self.now,
        )

    @contextmanager
    def _opened(self, model: VersionedModel, place: str) -> Iterator[FakePool]:
        if self.error is not None and model.version != A:
            raise self.error
        assert place.endswith(model.version.replace("@", "-"))
        self.open.append(model.version)
        try:
            yield FakePool(model.version)
        finally:
            self.on_close()
            self.open.remove(model.version)

    def prepare(self, version: str, stop: threading.Event = STOP) -> None:
        self.swap.prepare(versioned(version), version, stop)

    def batch(self) -> tuple[str, Iterator[str]]:
        """Begin a batch: the model that it has, and the versions of its results as they come."""
        version = self.swap.model().version
        return version, (outcome.event for _, outcome in self.swap(RECORDS))


def versioned(version: str) -> VersionedModel:
    return remembering_model(name=version)


@pytest.fixture
def bench() -> Swapping:
    made = Swapping()
    made.swap.begin(versioned("a"), "a")
    return made


@pytest.mark.parametrize("n_done", [0, 1])
def test_a_batch_keeps_its_model_and_the_next_has_the_new(bench: Swapping, n_done: int) -> None:
    version, results = bench.batch()
    done = [next(results) for _ in range(n_done)]
    bench.prepare("b")
    assert (bench.swap.current, bench.swap.newest) == ("a", "b")
    assert bench.open == ["a", "b"]
    assert (bench.swap.alive, bench.swap.resident_bytes) == (2, 200)
    assert [version, *done, *results] == ["a"] * 5
    version, results = bench.batch()
    assert [version, *results] == ["b"] * 5
    wait_until(lambda: bench.open == ["b"])
    assert bench.swaps == [("a", "b")]


def test_an_idle_detector_changes_at_once(bench: Swapping) -> None:
    list(bench.batch()[1])
    bench.prepare("b")
    assert bench.swap.current == "b"
    bench.swap.model()  # a batch without records of ours is never worked on
    bench.prepare("c")
    assert bench.swap.current == "b"
    bench.now += _IDLE_AFTER_S
    bench.prepare("d")
    assert bench.swap.current == "d"
    wait_until(lambda: bench.open == ["d"])


def test_a_batch_that_fails_lets_the_next_model_in(bench: Swapping) -> None:
    _, results = bench.batch()
    next(results)
    bench.prepare("b")
    results.close()  # type: ignore[attr-defined]
    assert bench.batch()[0] == "b"


def test_of_prepared_models_the_last_is_used_unless_it_is_dropped(bench: Swapping) -> None:
    bench.swap.model()
    bench.prepare("b")
    bench.prepare("c")
    wait_until(lambda: bench.open == ["a", "c"])
    assert bench.swap.model().version == "c"
    bench.prepare("d")
    bench.swap.keep()
    wait_until(lambda: bench.open == ["c"])
    assert (bench.swap.newest, bench.swap.model().version) == ("c", "c")
    assert bench.swaps == [("a", "c")]


def test_a_model_that_does_not_open_or_a_stop_meanwhile_leaves_the_old_one(bench: Swapping) -> None:
    with pytest.raises(WorkersLost):
        bench.prepare("bad")
    stopped = threading.Event()
    stopped.set()
    bench.prepare("b", stopped)
    assert (bench.open, bench.swap.newest) == (["a"], "a")


def test_nobody_waits_for_the_old_processes_to_end(bench: Swapping) -> None:
    may_end = threading.Event()
    bench.on_close = lambda: may_end.wait(30)
    bench.swap.model()
    bench.prepare("b")
    assert bench.swap.model().version == "b"
    assert bench.open == ["a", "b"]
    may_end.set()
    bench.swap.close()
    assert bench.open == []


NOW = datetime(2026, 1, 31, tzinfo=UTC)
PACKED = [PackedModel.of(Model(RECIPE, BpParameters(resolution=1.0 + i / 8))) for i in range(3)]
A, B, C = (model.version for model in PACKED)


def crown(registry: Store, *versions: str) -> None:
    for version in versions:
        promote(registry, version, "better", NOW, by="test", seen=current(registry))


def uncrown(registry: Store) -> None:
    roll_back(registry, "worse", NOW, by="test", seen=champion(registry))


@pytest.fixture
def registry(disk: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The registry of this environment: three versions, of which A is the champion."""
    monkeypatch.setenv("STREAM_ICD_REGISTRY", disk.uri)
    monkeypatch.setenv("STREAM_ICD_REGISTRY_CHECK_S", "600")  # the topic's messages are the nudge
    for model in PACKED:
        publish(disk, model, Lineage("test", NOW, "0"))
    crown(disk, A)
    return disk


class Following(Swapping):
    """A detector that follows the champion of a registry."""

    def __init__(self, registry: Store) -> None:
        super().__init__()
        self.registry = registry
        self.refusals: list[tuple[str, Exception]] = []
        self.follower = self.start()

    def start(self) -> Any:
        """Start as a new detector does."""
        return self.swap.start_with_champion(self.registry, STOP, self.refuse)

    def refuse(self, aliases: Aliases, error: Exception) -> None:
        self.refusals.append((aliases.champion, error))

    def crown(self, *versions: str) -> None:
        crown(self.registry, *versions)

    def uncrown(self) -> None:
        uncrown(self.registry)

    def spoil(self, version: str, name: str = "recipe.toml", content: bytes = b"") -> None:
        version_folder(self.registry, version).put(name, pa.py_buffer(content))

    def after_a_look(self) -> str:
        self.follower.look()
        return self.swap.current


@pytest.fixture
def following(registry: Store) -> Following:
    return Following(registry)


def test_promotions_and_rollbacks_are_followed(following: Following) -> None:
    assert following.after_a_look() == A
    following.crown(B)
    assert following.swap.current == A
    assert following.after_a_look() == B
    assert following.follower.in_use
    following.crown(C)
    following.uncrown()
    assert following.after_a_look() == B
    following.swap.model()  # a batch is in progress
    following.crown(C)
    assert following.after_a_look() == B
    assert not following.follower.in_use
    following.uncrown()  # before the next batch: the prepared model is dropped
    assert following.after_a_look() == following.swap.newest == B
    assert following.follower.in_use


def test_a_champion_that_cannot_be_loaded_is_refused_and_the_old_one_goes_on(
    following: Following,
) -> None:
    following.crown(B)
    content = dict(PACKED[1].files)["model.safetensors"]
    following.spoil(B, "model.safetensors", content[:-1] + b"#")
    assert [following.after_a_look() for _ in range(2)] == [A, A]
    ((version, because),) = following.refusals
    assert (version, type(because)) == (B, ModelDamaged)
    assert not following.follower.in_use
    following.spoil(B, "model.safetensors", content)  # repaired, and tried again after a while
    assert following.after_a_look() == A
    following.now += _TRY_AGAIN_S
    assert following.after_a_look() == B


def test_a_champion_after_a_refused_one_is_used(following: Following) -> None:
    following.crown(B)
    following.spoil(B)
    assert following.after_a_look() == A
    following.registry.delete("aliases/00000002.json")  # another one gets its number
    following.crown(C)
    assert following.after_a_look() == C


def test_a_model_that_worker_processes_cannot_use_is_refused(following: Following) -> None:
    following.crown(B)
    following.error = ZeroDivisionError("in the warm-up")
    assert following.after_a_look() == A
    following.start()  # also by a detector that starts
    assert following.swap.current == A
    because = [(version, str(error)) for version, error in following.refusals]
    assert because == [(B, "in the warm-up")] * 2


@pytest.mark.parametrize("error", [WorkersLost("no memory"), MemoryError("no memory")])
def test_lack_of_memory_is_not_the_models_fault(following: Following, error: Exception) -> None:
    following.crown(B)
    following.error = error
    with capture_logs() as logs:
        assert [following.after_a_look() for _ in range(3)] == [A, A, A]
        with pytest.raises(type(error)):
            following.start()
        following.error = None
        assert following.after_a_look() == B
    assert following.refusals == []
    assert [log["event"] for log in logs] == [
        "cannot follow the champion; the model stays",
        "the champion is followed again",
    ]


def test_each_trouble_with_the_registry_is_logged_once(
    following: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry, first = following.registry, "aliases/00000001.json"
    entry = registry.read(first, registry.size(first))

    def down(*_: object) -> None:
        raise AssertionError("a bug")

    with capture_logs() as logs:
        registry.delete(first)
        assert [following.after_a_look() for _ in range(2)] == [A, A]
        registry.put(first, pa.py_buffer(b"{"))
        assert [following.after_a_look() for _ in range(2)] == [A, A]
        registry.delete(first)
        registry.put(first, pa.py_buffer(entry or b""))
        following.crown(B)
        with monkeypatch.context() as patch:
            patch.setattr(Store, "_look_up", down)
            assert [following.after_a_look() for _ in range(2)] == [A, A]
        assert following.after_a_look() == B
    assert [log["log_level"] for log in logs] == ["warning"] * 3 + ["info"]
    empty, damaged, bug = (log["reason"] for log in logs[:3])
    assert "has no champion yet" in empty
    assert re.search(f"RegistryDamaged.*{first}", damaged)
    assert bug == "AssertionError: a bug"


def test_a_detector_starts_with_the_newest_champion_that_can_be_used(following: Following) -> None:
    following.crown(B, C)
    following.start()
    assert following.swap.current == C
    following.spoil(C)
    following.start()
    assert following.swap.current == B
    assert [version for version, _ in following.refusals] == [C]
    following.uncrown()  # B is the champion, and C is not used instead
    following.spoil(B)
    following.start()
    assert following.swap.current == A
    following.spoil(A)
    with pytest.raises(ModelForeign, match=B.replace("@", "-")):
        following.start()


def test_an_empty_registry_has_no_champion(disk: Store) -> None:
    with pytest.raises(ModelNotFound, match="has no champion yet"):
        ModelSwap(nullcontext).start_with_champion(disk, STOP, lambda *_: None)


# On a stream: no restart, no snapshot lost, no batch of two models.


def announce(broker: Broker) -> None:
    """Any message makes detectors look, whatever it says."""
    streams.publish(broker, [OutgoingRecord(MODELS, b"look", b"registry")])


class Detecting:
    """A detector with two processes, in this process, that follows the champion."""

    def __init__(self, broker: Broker, topics: tuple[str, str]) -> None:
        self.broker, self.topics = broker, topics
        self.metrics = Metrics(60, 60)
        self.models_of_batches: list[set[str]] = []
        self.n_sent = 0

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
            with streams.beside(work, stop) as errors:
                yield
            assert errors == []

    def _done(self, batch: BatchDone) -> None:
        models = {dict(record.headers)["icd_model"].decode() for record in batch.outgoing}
        self.models_of_batches.append(models)

    def results(self) -> list[Communities]:
        """What is found in all that was sent so far."""
        where = {"settings": self.broker.settings(), "topic": self.topics[1]}
        return list(subscribe(start="beginning", limit=self.n_sent, **where))

    def model_after(self, count: int) -> str:
        """Send more snapshots; return the model that the last one is detected with."""
        numbers = range(self.n_sent, self.n_sent + count)
        streams.publish(self.broker, [outgoing(cliques(i), self.topics[0]) for i in numbers])
        self.n_sent += count
        return self.results()[-1].model

    def metric(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"stream_icd_{name}", labels)


@pytest.mark.brokers("memory")
def test_a_batch_has_one_model(broker: Broker, topics: tuple[str, str], registry: Store) -> None:
    create_topics(broker.settings())
    bench, before = Detecting(broker, topics), len(list(announcements(broker.settings())))
    with bench.at_work():
        assert bench.model_after(20) == A
        assert bench.metric("champion_in_use") == 1
        first_workers = worker_processes(os.getpid())
        crown(registry, B)
        announce(broker)
        while bench.model_after(4) != B:
            pass
        crown(registry, C)
        version_folder(registry, C).put("recipe.toml", pa.py_buffer(b"half"))
        announce(broker)
        wait_until(lambda: bench.metric("models_refused_total", exception="ModelDamaged"))
        assert bench.metric("champion_in_use") == 0
        assert bench.model_after(8) == B
        uncrown(registry)
        wait_until(lambda: not set(first_workers) & set(worker_processes(os.getpid())))
        uncrown(registry)
        announce(broker)
        while bench.model_after(4) != A:
            pass
    found = bench.results()
    assert [one.snapshot_id for one in found] == [f"test/{i}" for i in range(bench.n_sent)]
    assert [model for model, _ in groupby(result.model for result in found)] == [A, B, A]
    assert all(len(models) == 1 for models in bench.models_of_batches)
    assert bench.metric("model_swaps_total") == 2
    assert worker_processes(os.getpid()) == []
    (announced,) = list(announcements(broker.settings()))[before:]
    assert (announced.kind, announced.version, announced.generation) == ("refused", C, 3)
    assert announced.reason.startswith("ModelDamaged: ")


@pytest.mark.brokers("kafka")
def test_kill_9_of_a_swap(broker: Broker, topic_name: str, registry: Store, tmp_path: Path) -> None:
    """Killed while the new processes open, and again right after the change."""
    create_topics(broker.settings())
    graph, found, logs = topic_name, list[Communities](), [tmp_path / f"{i}.log" for i in range(3)]
    results = subscribe(graph, start="beginning", settings=broker.settings(), topic=COMMUNITIES)

    def running(log: Path) -> AbstractContextManager[Program]:
        options = ("--model", "champion", "--batch", "4", "--processes", "2")
        return consuming(broker, graph, log, "detect", *options)

    def detect_eight() -> str:
        snapshots = [cliques(len(found) + i, graph) for i in range(8)]
        streams.publish(broker, [outgoing(snapshot, SNAPSHOTS) for snapshot in snapshots])
        found.extend(next(results) for _ in range(8))
        return found[-1].model

    with running(logs[0]) as first:
        assert detect_eight() == A
        crown(registry, B)
        announce(broker)
        wait_until(lambda: len(worker_processes(first.pid)) > 2)
        orphans = [*children(first.pid), *worker_processes(first.pid)]
        os.kill(first.pid, signal.SIGKILL)
        wait_until(lambda: not any(map(alive, orphans)))
    with running(logs[1]) as second:
        assert detect_eight() == B
        crown(registry, C)
        announce(broker)
        wait_until(lambda: "the model changed" in logs[1].read_text())
        os.kill(second.pid, signal.SIGKILL)
    with running(logs[2]) as third:
        assert detect_eight() == C
        third.terminate()
        assert third.wait(30) == 0, logs[2].read_text()
    assert [result.snapshot_id for result in found] == [f"{graph}/{i}" for i in range(24)]
    assert [model for model, _ in groupby(result.model for result in found)] == [A, B, C]


def test_the_memory_of_a_graph_outlives_the_model(memory: Broker, topic_name: str, s3: str) -> None:
    """The registry is in S3."""
    models = [remembering_model(BpParameters(resolution, mixing=0.3)) for resolution in (3.0, 2.0)]
    versions = [PackedModel.of(model.model) for model in models]
    store, stop = open_store(new_folder(s3)), threading.Event()
    create_topics(memory.settings(), [TopicSpec(topic_name, partitions=3)])
    for version in versions:
        publish(store, version, Lineage("x", NOW, "0"))
    crown(store, versions[0].version)
    settings = DetectSettings(memory="auto", memory_topic=topic_name, group="detect", threads=1)

    def refuse(_aliases: object, error: Exception) -> None:
        raise error

    swap = ModelSwap(lambda model, place: Processes(RecordDetection(model, settings), place, 2))
    worker = Worker(memory, topic_name)
    windows = stream("g", 8)
    try:
        follower = swap.start_with_champion(store, stop, refuse)
        worker.runner = Runner(Detector(swap.model, settings, swap, worker.memories))
        before = worker.work(records(windows[:4]))
        crown(store, versions[1].version)
        follower.look()
        after = worker.work(records(windows[4:], first=4))
    finally:
        swap.close()
    assert {result.model for result in before} == {versions[0].version}
    assert {result.model for result in after} == {versions[1].version}
    assert {result.memory for result in after} == {"continued"}
    expected, state = uninterrupted(windows[:4], models[0])
    assert [said(result) for result in before] == expected
    expected, _ = uninterrupted(windows[4:], models[1], decode_memory(state))
    assert [said(result) for result in after] == expected
