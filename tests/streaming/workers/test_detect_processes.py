"""Several processes detect one stream: the same results, in order, whoever is killed."""

from __future__ import annotations

import json
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from threading import Event

import pytest

from stream_icd.core.errors import WorkersLost
from stream_icd.core.snapshot import Snapshot
from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.messages.claims import MessageReader
from stream_icd.kafka.messages.records import Outcome
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.topics import COMMUNITIES, SNAPSHOTS, create_topics
from stream_icd.registry.find import open_model
from stream_icd.registry.model import VersionedModel, save_model
from stream_icd.streaming.dead_letters.letters import DeadLetterLimit
from stream_icd.streaming.detection.record import RecordDetection
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.execution.processes import Processes
from stream_icd.streaming.execution.work import Engine
from stream_icd.streaming.subscribers.subscribe import subscribe
from stream_icd.streaming.workers.detect import Detector
from stream_icd.streaming.workers.runner import Runner
from stream_icd.wire.message import Message
from stream_icd.wire.snapshots import encode_snapshot
from tests.testbed.brokers import Broker, wait_until
from tests.testbed.children import alive, children, end_fork_servers, worker_processes
from tests.testbed.fingerprint import fingerprint
from tests.testbed.handlers import Calls, WhenDone
from tests.testbed.starting import Program, consuming
from tests.testbed.streams import publish

Outgoing = Callable[[Snapshot, str], OutgoingRecord]
N_SNAPSHOTS, N_EARLY = 60, 30


@pytest.fixture(scope="module")
def model_folder(model: VersionedModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "model"
    save_model(model.model, folder)
    return folder


@pytest.fixture
def graph(
    broker: Broker,
    topic_name: str,
    snapshot: Callable[..., Snapshot],
    outgoing: Outgoing,
) -> str:
    """A graph of this test's own in the live topics, with `N_EARLY` snapshots to detect."""
    create_topics(broker.settings())
    publish(broker, [outgoing(snapshot(i, topic_name), SNAPSHOTS) for i in range(N_EARLY)])
    return topic_name


@pytest.fixture
def record(snapshot: Callable[..., Snapshot]) -> Record:
    """A snapshot as it is read from a topic."""
    message = encode_snapshot(snapshot(3))
    return Record("snapshots", 2, 77, 0, message.key, message.value, message.headers)


def running(broker: Broker, graph: str, model: Path, log: Path) -> AbstractContextManager[Program]:
    """A detector with two processes."""
    options = ("--model", str(model), "--batch", "4", "--processes", "2")
    return consuming(broker, graph, log, "detect", *options)


def seen(broker: Broker, graph: str, limit: int) -> Iterator[str]:
    """Snapshot ids of results as they come."""
    settings, start = broker.settings(), "beginning"
    results = subscribe(graph, start=start, limit=limit, settings=settings, topic=COMMUNITIES)
    return (result.snapshot_id for result in results)


def everything(graph: str) -> list[str]:
    return [f"{graph}/{i}" for i in range(N_SNAPSHOTS)]


@pytest.mark.brokers("kafka")
def test_however_a_program_ends_it_leaves_no_processes_and_loses_nothing(
    broker: Broker,
    graph: str,
    model_folder: Path,
    tmp_path: Path,
    snapshot: Callable[..., Snapshot],
    outgoing: Outgoing,
) -> None:
    """A supervisor ends its whole group; another one is killed with -9."""
    log, results = tmp_path / "first.log", seen(broker, graph, N_SNAPSHOTS)
    with running(broker, graph, model_folder, log) as first:
        found = [next(results)]
        all_of_it = [*children(first.pid), *worker_processes(first.pid)]
        os.killpg(first.pid, signal.SIGTERM)
        assert first.wait(30) == 0, log.read_text()
    wait_until(lambda: not any(map(alive, all_of_it)))
    assert "ended during its job" not in log.read_text()
    late = range(N_EARLY, N_SNAPSHOTS)  # work for the second, however much the first had done
    publish(broker, [outgoing(snapshot(i, graph), SNAPSHOTS) for i in late])
    with running(broker, graph, model_folder, tmp_path / "second.log") as second:
        found += [next(results) for _ in range(N_EARLY)]
        orphans = [*children(second.pid), *worker_processes(second.pid)]
        second.kill()
    assert len(orphans) >= 4  # Python's tracker, the fork server, and two of its processes
    wait_until(lambda: not any(map(alive, orphans)))
    with running(broker, graph, model_folder, tmp_path / "third.log"):
        assert [*found, *results] == everything(graph)


class Stuck(RecordDetection):
    """Never comes to an end."""

    def __call__(self, record: Record) -> Outcome:
        Path(f"/proc/{os.getpid()}/comm").write_text("stuck")
        time.sleep(600)
        return super().__call__(record)


@pytest.mark.brokers("memory")
def test_a_stop_does_not_wait_for_busy_processes(
    broker: Broker,
    topics: tuple[str, str],
    model_folder: Path,
    snapshot: Callable[..., Snapshot],
    outgoing: Outgoing,
) -> None:
    model, settings = open_model(str(model_folder)), DetectSettings(topic=topics[1], threads=1)
    publish(broker, [outgoing(snapshot(0), topics[0])])
    stop, kafka = threading.Event(), broker.settings(shutdown_timeout_s=1)

    def work() -> None:
        with Processes(Stuck(model, settings), str(model_folder), 2) as engine:
            runner = Runner(Detector(lambda: model, settings, engine), DeadLetterLimit())
            run_consumer(kafka, topics[0], topics[0], Calls(runner.handle), stop)

    thread = threading.Thread(target=work)
    thread.start()
    wait_until(lambda: "stuck" in map(name_of, worker_processes(os.getpid())))
    busy = worker_processes(os.getpid())
    stop.set()
    thread.join(30)
    assert not thread.is_alive()
    assert not any(map(alive, busy))
    with open_reader(broker.settings(), topics[1], until="end") as records:
        assert not list(records)


def test_what_a_supervisor_sends_to_all_does_not_end_processes_that_are_starting(
    model_folder: Path, record: Record
) -> None:
    model, settings = open_model(str(model_folder)), DetectSettings(threads=1)
    with Processes(RecordDetection(model, settings), str(model_folder), 2) as engine:
        wait_until(lambda: len(worker_processes(os.getpid())) == 2, every_s=0.001)
        starting = worker_processes(os.getpid())
        for pid in starting:
            os.kill(pid, signal.SIGINT)
            os.kill(pid, signal.SIGTERM)
        assert len(list(engine([record] * 4))) == 4
        assert worker_processes(os.getpid()) == starting


def name_of(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def test_processes_give_the_same_bytes_in_the_same_order(
    model_folder: Path, snapshot: Callable[..., Snapshot]
) -> None:
    model, settings = open_model(str(model_folder)), DetectSettings(threads=1)
    messages = [encode_snapshot(snapshot(i, cliques=3 + i)) for i in range(12)]
    records = [Record("t", 0, i, 0, m.key, m.value, m.headers) for i, m in enumerate(messages)]
    records.insert(5, Record("t", 0, 99, 0, b"test", b"garbage", messages[0].headers))

    def published(engine: Engine[Record, Outcome] | None = None) -> list[str]:
        return [
            fingerprint(Message(one.key or b"", one.value or b"", one.headers)) + one.topic
            for one in Runner(Detector(lambda: model, settings, engine), DeadLetterLimit()).handle(
                records
            )
        ]

    alone = published()
    with Processes(RecordDetection(model, settings), str(model_folder), 2) as engine:
        assert published(engine) == alone
    assert len(set(alone)) == 13
    assert alone[5].endswith("t.dlq")


class Noisy(MessageReader):
    """Some library has something to say while it works."""

    def whole(self, record: Record) -> Record:
        logging.getLogger("a.library").warning("tick")
        return super().whole(record)


def test_what_a_worker_process_logs_says_which_record_it_is_about(
    model_folder: Path, record: Record, capfd: pytest.CaptureFixture[str]
) -> None:
    end_fork_servers()
    work = RecordDetection(open_model(str(model_folder)), DetectSettings(threads=1, reader=Noisy()))
    with Processes(work, str(model_folder), 2) as engine:
        list(engine([record]))
    ticks = [line for line in capfd.readouterr().err.splitlines() if '"tick"' in line]
    (said,) = map(json.loads, ticks)
    place = {"topic": "snapshots", "partition": 2, "offset": 77}
    about = {"graph": "test", "snapshot": "test/3", "model": work.version}
    assert said.items() >= (place | about).items()


class Deadly(RecordDetection):
    """Takes all memory, so that the system kills who works on it."""

    def __call__(self, record: Record) -> Outcome:  # noqa: ARG002
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("we are dead")


class Unbounded(RecordDetection):
    """Asks for more memory than there is, which Python reports."""

    def __call__(self, record: Record) -> Outcome:  # noqa: ARG002
        raise MemoryError("Unable to allocate 84 GiB")


@pytest.mark.brokers("memory")
@pytest.mark.parametrize(
    ("kind", "how"),
    [
        (Deadly, "the process died: a worker process"),
        (Unbounded, "MemoryError: Unable to allocate 84 GiB"),
    ],
)
def test_a_record_that_ends_every_process_becomes_a_dead_letter(
    broker: Broker,
    topics: tuple[str, str],
    model_folder: Path,
    record: Record,
    kind: type[RecordDetection],
    how: str,
) -> None:
    create_topics(broker.settings())
    publish(broker, [OutgoingRecord(topics[0], record.value, record.key, record.headers)])
    model, settings = open_model(str(model_folder)), DetectSettings(threads=1)
    work, stop = kind(model, settings), Event()
    with Processes(work, str(model_folder), 2, again=False) as engine:
        runner = Runner(Detector(lambda: model, settings, engine), DeadLetterLimit())
        watchers = [WhenDone(lambda _: stop.set())]
        run_consumer(broker.settings(), topics[0], topics[0], runner, stop, watchers=watchers)
    with open_reader(broker.settings(), f"{topics[0]}.dlq", until="end") as letters:
        (letter,) = letters
    said = {name: value.decode() for name, value in letter.headers}
    assert letter.value == record.value
    assert (said["icd_dlq_stage"], said["icd_dlq_exception"]) == ("crashed", "CrashedWorker")
    assert (said["icd_dlq_topic"], said["icd_dlq_offset"]) == (topics[0], "0")
    assert f"ended 3 workers in a row, the last time like this: {how}" in said["icd_dlq_message"]


class NeverOpen(RecordDetection):
    """Ends before it can work, as where memory is short."""

    def warm_up(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


def test_processes_that_end_before_they_are_open_are_no_record_s_fault(
    model_folder: Path, record: Record
) -> None:
    work = NeverOpen(open_model(str(model_folder)), DetectSettings(threads=1))
    with Processes(work, str(model_folder), 1) as engine:
        with pytest.raises(WorkersLost, match="3 worker processes in a row"):
            engine.wait_until_warm(threading.Event())
        with pytest.raises(WorkersLost):
            list(engine([record]))
