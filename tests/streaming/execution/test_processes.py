"""Several processes detect: the same results in order, whoever is killed, and none is left."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import CancelledError
from dataclasses import replace
from errno import EAGAIN
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import numpy as np
import pytest
from structlog.testing import capture_logs

from stream_icd.core.errors import CrashedWorker, ModelDamaged, StoreUnwritable, WorkersLost
from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.messages.claims import MessageReader
from stream_icd.kafka.messages.records import Outcome
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.record import Record
from stream_icd.kafka.topics import SNAPSHOTS, create_topics
from stream_icd.methods.memory.encoding import decode_memory
from stream_icd.registry.find import open_model
from stream_icd.registry.model import VersionedModel, save_model
from stream_icd.streaming.dead_letters.letters import DeadLetterLimit
from stream_icd.streaming.detection.record import RecordDetection
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.execution import worker_process
from stream_icd.streaming.execution.budget import Allowance, Budget
from stream_icd.streaming.execution.processes import Processes
from stream_icd.streaming.execution.work import IN_HAND, Engine, Relay
from stream_icd.streaming.execution.worker_process import WorkerProcess
from stream_icd.streaming.subscribers.subscribe import subscribe
from stream_icd.streaming.workers.detect import Detector
from stream_icd.streaming.workers.memories import Memories
from stream_icd.streaming.workers.runner import Runner
from stream_icd.wire.message import Message
from tests.fixtures.stream import cliques
from tests.streaming.workers.remembered import said, uninterrupted
from tests.testbed import drifting
from tests.testbed.brokers import Broker, wait_until
from tests.testbed.children import alive, children, end_fork_servers, worker_processes
from tests.testbed.drifting import outgoing
from tests.testbed.fingerprint import fingerprint
from tests.testbed.handlers import Calls, StopAfter
from tests.testbed.starting import consuming
from tests.testbed.streams import as_read, beside, held, publish

MARKS = "ICD_TEST_MARKS"


class Sleeping:
    """A job is the name of its chain, and never ends."""

    def __init__(self, model: VersionedModel, settings: DetectSettings) -> None:
        self.model, self.settings = model, settings

    def __call__(self, _: str, __: Relay) -> None:
        time.sleep(600)

    def chain(self, job: str) -> str:
        return job

    def name(self, job: str) -> str:
        return job

    def allowance(self, _: str) -> Allowance:
        return Allowance(60, 1 << 30)

    def warm_up(self) -> None:
        pass


def sleeping(model_folder: Path, count: int, *, again: bool = True) -> Processes[str, None]:
    work = Sleeping(open_model(str(model_folder)), DetectSettings())
    return Processes(work, str(model_folder), count, again=again)


def test_jobs_in_hand_are_known_and_others_end_with_the_pool(model_folder: Path) -> None:
    processes, ended = sleeping(model_folder, 1), list[BaseException]()

    def wait() -> None:
        try:
            list(processes(["first", *["other"] * IN_HAND]))  # the chain with most jobs begins
        except BaseException as error:
            ended.append(error)

    with processes:
        assert processes.in_hand == []
        waiting = threading.Thread(target=wait, daemon=True)
        waiting.start()
        wait_until(lambda: processes.in_hand)
        (job,) = processes.in_hand
        assert (job.name, job.allowed_seconds) == ("other", 600)
        wait_until(lambda: job.seconds < processes.in_hand[0].seconds < 600)
    waiting.join(30)
    assert [type(error) for error in ended] == [CancelledError]
    with pytest.raises(EOFError, match="closed"):  # one that ends just before is not replaced
        processes._start()


def test_a_process_that_ended_since_it_could_not_open_its_model_says_why(
    model: VersionedModel, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WorkerProcess, "is_alive", False)  # it ends before anybody looks
    work = Sleeping(model, DetectSettings())
    processes: Processes[str, None] = Processes(work, str(model_folder), 1)
    with processes, pytest.raises(ModelDamaged, match=f"was {model.version} and is now"):
        list(processes(["first"]))


def test_too_many_processes(model: VersionedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    start, attempts = ForkServerProcess.start, list[ForkServerProcess]()

    def start_the_first(process: ForkServerProcess) -> None:
        attempts.append(process)
        if len(attempts) > 1:
            raise BlockingIOError(EAGAIN, "Resource temporarily unavailable")
        start(process)

    monkeypatch.setattr(ForkServerProcess, "start", start_the_first)
    monkeypatch.setattr(worker_process, "PAUSE_S", 0)
    with pytest.raises(WorkersLost, match=r"BlockingIOError: .*unavailable\): give more memory"):
        Processes(Sleeping(model, DetectSettings()), "model", 2)
    assert len(attempts) == 1 + worker_process.ATTEMPTS
    assert not attempts[0].is_alive()


def test_no_temporary_folder(model: VersionedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_: ForkServerProcess) -> None:
        tempfile.gettempdir()  # as the server that forks does, for its socket

    monkeypatch.setattr(ForkServerProcess, "start", start)
    monkeypatch.setattr(worker_process, "PAUSE_S", 0)
    monkeypatch.setattr(tempfile, "tempdir", None)  # what was found before
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [os.devnull])
    with pytest.raises(StoreUnwritable, match=f"{os.devnull}.*TMPDIR"):
        Processes(Sleeping(model, DetectSettings()), "model", 1)
    with pytest.raises(StoreUnwritable, match="TMPDIR"):
        worker_process.start_fork_server()


def test_the_log_blames_no_job_whose_process_ended_because_of_another(model_folder: Path) -> None:
    with capture_logs() as log, sleeping(model_folder, 2, again=False) as processes:

        def end_one() -> None:
            wait_until(lambda: len(processes.in_hand) == 2)
            process = next(at for at in processes._at if at.at_work and at.at_work[0] == "first")
            os.kill(process.pid, signal.SIGKILL)

        killer = threading.Thread(target=end_one)
        killer.start()
        with pytest.raises(CrashedWorker, match="worker process, with exit status -9"):
            list(processes(["first", "second"]))
        killer.join()
        wait_until(lambda: len(log) == 2)
    assert {line["job"]: line["reason"] for line in log} == {
        "first": "it ended during its job",
        "second": "another job of the batch failed",
    }


@pytest.mark.brokers("kafka")
def test_however_a_program_ends_it_leaves_no_processes(
    broker: Broker, topic_name: str, model_folder: Path, tmp_path: Path
) -> None:
    """A supervisor ends its whole group; another one is killed with -9."""
    create_topics(broker.settings())
    options = ("--model", str(model_folder), "--batch", "4", "--processes", "2")
    ends = (os.killpg, signal.SIGTERM, 0), (os.kill, signal.SIGKILL, -signal.SIGKILL)
    for at, (kill, number, status) in enumerate(ends):
        sent = (cliques(60 * at + i, topic_name) for i in range(60))
        publish(broker, [outgoing(snapshot, SNAPSHOTS) for snapshot in sent])
        log = tmp_path / f"{at}.log"
        with consuming(broker, topic_name, log, "detect", *options) as program:
            wait_until(lambda log=log: '"detected"' in log.read_text())
            of_it = [*children(program.pid), *worker_processes(program.pid)]
            kill(program.pid, number)
            assert program.wait(30) == status, log.read_text()
        assert len(of_it) >= 4  # Python's tracker, the fork server, and two of its processes
        wait_until(lambda of_it=of_it: not any(map(alive, of_it)))
        assert "ended during its job" not in log.read_text()


class Stuck(RecordDetection):
    def __call__(self, record: Record) -> Outcome:
        Path(f"/proc/{os.getpid()}/comm").write_text("stuck")
        time.sleep(600)
        return super().__call__(record)


def opened(
    kind: type[RecordDetection], model_folder: Path, count: int
) -> tuple[Processes[Record, Outcome], Runner]:
    """Processes for work of a kind, and the runner of a detector on them."""
    model, settings = open_model(str(model_folder)), DetectSettings(threads=1)
    engine = Processes(kind(model, settings), str(model_folder), count)
    return engine, Runner(Detector(lambda: model, settings, engine))


@pytest.mark.brokers("memory")
def test_a_stop_waits_for_none(broker: Broker, topics: tuple[str, str], model_folder: Path) -> None:
    publish(broker, [outgoing(cliques(0), topics[0])])
    stop, kafka = threading.Event(), broker.settings(shutdown_timeout_s=1)

    def work(stop: threading.Event) -> None:
        engine, runner = opened(Stuck, model_folder, 2)
        with engine:
            run_consumer(kafka, topics[0], topics[0], Calls(runner.handle), stop)

    with beside(work, stop):
        wait_until(lambda: "stuck" in map(name_of, worker_processes(os.getpid())))
        busy = worker_processes(os.getpid())
    assert not any(map(alive, busy))
    assert held(broker, topics[1]) == []


def name_of(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


@pytest.fixture
def record() -> Record:
    return as_read([outgoing(cliques(3), "snapshots")], 2, 77)[0]


def test_signals_to_all_end_no_process_that_starts(model_folder: Path, record: Record) -> None:
    engine, _ = opened(RecordDetection, model_folder, 2)
    with engine:
        wait_until(lambda: len(worker_processes(os.getpid())) == 2, every_s=0.001)
        starting = worker_processes(os.getpid())
        for pid in starting:
            os.kill(pid, signal.SIGINT)
            os.kill(pid, signal.SIGTERM)
        assert len(list(engine([record] * 4))) == 4
        assert worker_processes(os.getpid()) == starting


def test_processes_give_the_same_bytes_in_the_same_order(model_folder: Path) -> None:
    model, settings = open_model(str(model_folder)), DetectSettings(threads=1)
    batch = as_read([outgoing(cliques(i, cliques=3 + i), "t") for i in range(12)])
    batch.insert(5, replace(batch[0], offset=99, value=b"garbage"))

    def published(engine: Engine[Record, Outcome] | None = None) -> list[str]:
        return [
            fingerprint(Message(one.key or b"", one.value or b"", one.headers)) + one.topic
            for one in Runner(Detector(lambda: model, settings, engine)).handle(batch)
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
    (line,) = map(json.loads, ticks)
    place = {"topic": "snapshots", "partition": 2, "offset": 77}
    about = {"graph": "test", "snapshot": "test/3", "model": work.version}
    assert line.items() >= (place | about).items()


class Deadly(RecordDetection):
    """Some snapshots end the process that works on them, as where memory is short, or never end."""

    def __call__(self, record: Record, relay: Relay | None = None) -> Outcome:
        way = dict(record.headers)["ce_id"].rpartition(b"/")[2].decode()
        taken = b"" if relay is None else relay.memory or b""
        remembers = bool(taken and decode_memory(taken).n_nodes)
        if way == "asks-too-much":  # which Python reports
            raise MemoryError("Unable to allocate 84 GiB")
        is_deadly = way in ("kills", "never-ends", "takes-all")
        if is_deadly or (way == "kills-with-memory" and remembers):
            (Path(os.environ[MARKS]) / f"{way}-{os.getpid()}").touch()
            if way.startswith("kills"):
                os.kill(os.getpid(), signal.SIGKILL)
            kept = list[np.ndarray]()
            while True:
                kept += [np.ones(10**6)] if way == "takes-all" else []
        return super().__call__(record, relay)


# On a busy machine the limit by the clock, ten times as long, may be reached first.
_TIME = r"took (1\.\d s of processor time; LIMIT 1\.5|15\.\d s by the clock; LIMIT 15\.0) "
_WHYS = {
    "kills": "it ended 3 workers in a row, the last time like this: the process died: a worker p",
    "asks-too-much": "it ended 3 .* like this: MemoryError: Unable to allocate 84 GiB",
    "never-ends": rf"{_TIME}\(STREAM_ICD_BUDGET_SECONDS, .*dlq retry",
    "takes-all": r"took .* MB of memory; LIMIT 100\.0 \(STREAM_ICD_BUDGET_MEMORY_BYTES, .*dlq ret",
}
_LIMIT = r"the limit for a message of \d+ bytes( and a memory of \d+)? is"


@pytest.mark.brokers("memory")
def test_what_ends_processes_or_takes_too_much_is_a_dead_letter_and_neighbours_are_detected(
    broker: Broker, topic_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, marks, topic = tmp_path / "model", tmp_path / "marks", topic_name
    marks.mkdir()
    monkeypatch.setenv(MARKS, str(marks))
    save_model(drifting.remembering_model().model, place)
    model, kafka = open_model(str(place)), broker.settings()
    found, memory = f"{topic}.found", f"{topic}.memory"
    create_topics(kafka)
    targets = TopicSpec(found), TopicSpec(memory, cleanup_policy="compact")
    create_topics(kafka, [*TopicSpec(topic).with_dead_letters(), *targets])
    bad, good = drifting.stream("g", 10), drifting.stream("h", 10)
    ways = {1: "kills", 3: "kills-with-memory", 4: "asks-too-much", 6: "never-ends", 8: "takes-all"}
    for at, way in ways.items():
        bad[at] = replace(bad[at], id=f"g/{way}")
    pairs = zip(bad, good, strict=True)
    publish(broker, [drifting.outgoing(window, topic) for pair in pairs for window in pair])
    where = {"topic": found, "memory_topic": memory, "group": topic}
    budget = Budget(seconds=1.5, seconds_per_mb=0, memory_bytes=10**8, memory_per_byte=0)
    settings = DetectSettings(memory="auto", threads=1, budget=budget, **where)
    until = StopAfter(20)
    processes = Processes(Deadly(model, settings), str(place), 2, again=False)
    with processes as engine, capture_logs() as log:
        detector = Detector(lambda: model, settings, engine, Memories.open(kafka, topic, memory))
        runner = Runner(detector, DeadLetterLimit(1.0))
        run_consumer(kafka, topic, topic, runner, until.stop, max_records=4, watchers=[until])

    ended = Counter(name.rpartition("-")[0] for name in os.listdir(marks))
    # The last time without memory; what takes too much has one attempt with it.
    assert ended == {"kills": 4, "kills-with-memory": 3, "never-ends": 2, "takes-all": 2}
    results = list(subscribe(topic=found, start="beginning", until="end", settings=kafka))
    alone = uninterrupted(good, model)[0]
    assert [said(result) for result in results if result.graph == "h"] == alone
    uses = {result.snapshot_id: result.memory for result in results if result.graph == "g"}
    continued = dict.fromkeys(("g/2", "g/5", "g/7", "g/9"), "continued")
    assert uses == continued | {"g/0": "first", "g/kills-with-memory": "anew"}
    letters = [dict(letter.headers) for letter in held(broker, f"{topic}.dlq")]
    whys = {one["ce_id"].decode()[2:]: one["icd_dlq_message"].decode() for one in letters}
    assert whys.keys() == _WHYS.keys()
    for way, pattern in _WHYS.items():
        assert re.match(pattern.replace("LIMIT", _LIMIT), whys[way]), whys[way]
    stages = {(one["icd_dlq_stage"], one["icd_dlq_exception"]) for one in letters}
    assert stages == {(b"crashed", b"CrashedWorker"), (b"budget", b"OverBudget")}
    replaced = [line["job"] for line in log if line["event"] == "a worker process was replaced"]
    assert all(any(f"g/{way}" in job for job in replaced) for way in ("never-ends", "takes-all"))


class NeverOpen(RecordDetection):
    def warm_up(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_that_never_opens_blames_no_record(model_folder: Path, record: Record) -> None:
    engine, _ = opened(NeverOpen, model_folder, 1)
    with engine:
        with pytest.raises(WorkersLost, match="3 worker processes in a row"):
            engine.wait_until_warm(threading.Event())
        with pytest.raises(WorkersLost):
            list(engine([record]))
