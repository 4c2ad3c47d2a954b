"""A snapshot that takes too much time or memory is dead-lettered; its neighbours are not."""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from pathlib import Path

import numpy as np
import pytest

from stream_icd.core.errors import BadSettings, OverBudget
from stream_icd.core.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.messages.claims import Claim
from stream_icd.kafka.messages.records import Outcome
from stream_icd.kafka.port import dead_letter_topic
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.registry.find import open_model
from stream_icd.registry.model import VersionedModel, save_model
from stream_icd.streaming.dead_letters.letters import DeadLetterLimit, split_headers
from stream_icd.streaming.detection.record import RecordDetection
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.execution.budget import Budget, sent_bytes
from stream_icd.streaming.execution.processes import Processes
from stream_icd.streaming.execution.worker_process import Usage
from stream_icd.streaming.workers.detect import Detector
from stream_icd.streaming.workers.runner import Runner
from stream_icd.wire.limits import DEFAULT_LIMITS, Limits
from stream_icd.wire.snapshots import encode_snapshot
from tests.testbed.brokers import Broker, wait_until
from tests.testbed.handlers import Calls
from tests.testbed.streams import publish

pytestmark = pytest.mark.brokers("memory")

SMALL = Budget(seconds=1, seconds_per_mb=0)
MARKS = "ICD_TEST_MARKS"


@pytest.fixture(scope="module")
def model_folder(model: VersionedModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "model"
    save_model(model.model, folder)
    return folder


@pytest.fixture
def records(snapshot: Callable[..., Snapshot]) -> list[Record]:
    """Four snapshots as they are read from a topic; `test/1` is the one that takes too much."""
    messages = [encode_snapshot(snapshot(i)) for i in range(4)]
    return [Record("t", 0, i, 0, m.key, m.value, m.headers) for i, m in enumerate(messages)]


def settings(budget: Budget, topic: str = "found") -> DetectSettings:
    return DetectSettings(topic=topic, threads=1, budget=budget)


def is_bad(record: Record) -> bool:
    return dict(record.headers)["ce_id"] == b"test/1"


class Endless(RecordDetection):
    """Works on one snapshot without end, and leaves a mark each time that it begins."""

    def __call__(self, record: Record) -> Outcome:
        if is_bad(record):
            (Path(os.environ[MARKS]) / str(os.getpid())).touch()
            while True:
                pass
        return super().__call__(record)


class Greedy(RecordDetection):
    """Takes memory for one snapshot without end."""

    def __call__(self, record: Record) -> Outcome:
        taken = []
        while is_bad(record):
            taken.append(np.ones(10**6))
        return super().__call__(record)


class Waiting(RecordDetection):
    """Waits on one snapshot without end."""

    def __call__(self, record: Record) -> Outcome:
        while is_bad(record):
            time.sleep(1)
        return super().__call__(record)


def runner_of(work: RecordDetection, engine: Processes[Record, Outcome]) -> Runner:
    return Runner(Detector(lambda: work.model, work.settings, engine), DeadLetterLimit())


def outcomes(work: RecordDetection, model_folder: Path, records: list[Record]) -> list[str]:
    """What came of each record: its topic, or for a dead letter stage, error and message."""
    with Processes(work, str(model_folder), 1) as engine:
        runner = runner_of(work, engine)
        return [described(record) for record in runner.handle(records)]


def described(record: OutgoingRecord) -> str:
    added = split_headers(record.headers)[1]
    why = (added.get(f"icd_dlq_{name}", "") for name in ("stage", "exception", "message"))
    return " ".join((record.topic, *why)).strip()


def test_what_works_without_end_is_a_dead_letter_after_one_attempt(
    model_folder: Path, records: list[Record], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MARKS, str(tmp_path))
    work = Endless(open_model(str(model_folder)), settings(SMALL))
    first, bad, *rest = outcomes(work, model_folder, records)
    assert [first, *rest] == ["found"] * 3
    size = len(records[1].value or b"")
    # On a busy machine the limit by the clock, ten times as long, may be reached first.
    limit = rf"the limit for a message of {size} bytes is"
    allowed = (
        rf"1\.\d s of processor time; {limit} 1\.0",
        rf"10\.\d s by the clock; {limit} 10\.0",
    )
    assert re.match(rf"t.dlq budget OverBudget took ({'|'.join(allowed)})", bad)
    assert "STREAM_ICD_BUDGET_SECONDS" in bad
    assert "dlq retry" in bad
    assert len(list(tmp_path.iterdir())) == 1


def test_what_takes_memory_without_end_is_a_dead_letter(
    model_folder: Path, records: list[Record]
) -> None:
    budget = Budget(memory_bytes=10**8, memory_per_byte=0)
    work = Greedy(open_model(str(model_folder)), settings(budget))
    first, bad, *rest = outcomes(work, model_folder, records)
    assert [first, *rest] == ["found"] * 3
    assert bad.startswith("t.dlq budget OverBudget took ")
    assert "MB of memory; the limit for a message of " in bad
    assert " is 100.0 (STREAM_ICD_BUDGET_MEMORY_BYTES, " in bad


def test_what_is_in_hand_is_known_while_it_is(model_folder: Path, records: list[Record]) -> None:
    work = Waiting(open_model(str(model_folder)), settings(Budget(seconds=60, seconds_per_mb=0)))
    with Processes(work, str(model_folder), 1) as engine:
        assert engine.in_hand == []
        runner = runner_of(work, engine)

        def run() -> None:
            with contextlib.suppress(EOFError, CancelledError):  # it is closed meanwhile
                list(runner.handle(records))

        at_work = threading.Thread(target=run)
        at_work.start()
        wait_until(lambda: "test/1" in names(engine))
        (job,) = engine.in_hand
        assert job.allowed_seconds == 600
        assert 0 <= job.seconds < 600
        wait_until(lambda: engine.in_hand[0].seconds > job.seconds)
    at_work.join(30)
    assert not at_work.is_alive()


def names(engine: Processes[Record, Outcome]) -> str:
    return " ".join(job.name for job in engine.in_hand)


def test_a_budget_grows_with_what_was_sent() -> None:
    budget = Budget(seconds=3, seconds_per_mb=2, memory_bytes=1000, memory_per_byte=10)
    allowance = budget.allowance(500_000)
    assert (allowance.seconds, allowance.clock_seconds) == (4, 40)
    assert allowance.memory_bytes == 1000 + 5_000_000


def test_a_budget_grows_with_what_is_remembered() -> None:
    budget = Budget(seconds=3, seconds_per_mb=2, memory_bytes=1000, memory_per_byte=10)
    alone = budget.allowance(500_000)
    both = alone.with_state(1_500_000)
    assert (alone.seconds, both.seconds) == (4.0, 7.0)
    assert both.memory_bytes - alone.memory_bytes == 15_000_000
    with pytest.raises(OverBudget, match="of 500000 bytes and a memory of 1500000 is 7.0"):
        both.check(Usage(1.0, 8.0, 0))


@pytest.mark.parametrize(
    ("used", "complaint"),
    [
        (Usage(clock_seconds=29, cpu_seconds=2.9, memory_bytes=10**6), None),
        (Usage(clock_seconds=4, cpu_seconds=3.1, memory_bytes=0), "3.1 s of processor time"),
        (Usage(clock_seconds=31, cpu_seconds=0, memory_bytes=0), "31.0 s by the clock"),
        (Usage(clock_seconds=0, cpu_seconds=0, memory_bytes=1_200_000), "1.2 MB of memory"),
    ],
)
def test_each_of_processor_time_clock_and_memory_counts(used: Usage, complaint: str | None) -> None:
    allowance = Budget(seconds=3, memory_bytes=10**6).allowance(0)
    if complaint is None:
        allowance.check(used)
        return
    with pytest.raises(OverBudget, match=complaint):
        allowance.check(used)


def test_a_claim_counts_as_what_it_claims_up_to_the_limit_of_what_is_read() -> None:
    claim = Claim("s3://somewhere/x", 5000, "ab" * 32)
    claimed = Record("t", 0, 0, 0, b"g", b"", claim.headers())
    assert sent_bytes(claimed, DEFAULT_LIMITS) == 5000
    assert sent_bytes(claimed, Limits(decoded_bytes=100)) == 100
    malformed = Record("t", 0, 0, 0, b"g", b"abc", claim.headers()[:1])
    assert sent_bytes(malformed, DEFAULT_LIMITS) == 3


def test_the_environment_sets_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAM_ICD_BUDGET_SECONDS", "7")
    monkeypatch.setenv("STREAM_ICD_BUDGET_MEMORY_PER_BYTE", "0")
    assert DetectSettings().budget.allowance(10**6).seconds == 7 + 60
    assert DetectSettings().budget.allowance(10**6).memory_bytes == 2 << 30


@pytest.mark.parametrize(("name", "value"), [("SECONDS", "0"), ("SECONDS_PER_MB", "nan")])
def test_a_budget_is_a_number(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"STREAM_ICD_BUDGET_{name}", value)
    with pytest.raises(BadSettings, match=name.lower()):
        Budget()


def large_snapshot(like: Snapshot) -> Snapshot:
    """A graph that takes seconds, whatever the method."""
    pairs = np.random.default_rng(0).integers(0, 300_000, (2, 1_500_000))
    window = Window(like.window.start, like.window.end)
    return snapshot_from_pairs(*pairs, graph=like.graph, id="large", window=window)


@pytest.fixture
def detecting(
    broker: Broker, topics: tuple[str, str], model_folder: Path
) -> Iterator[threading.Event]:
    """A detector with a small budget at work on the test's topic, until the event is set."""
    stop = threading.Event()
    chosen = settings(Budget(seconds=1.5, seconds_per_mb=0), topics[1])
    work = RecordDetection(open_model(str(model_folder)), chosen)

    def run() -> None:
        with Processes(work, str(model_folder), 1) as engine:
            handle = runner_of(work, engine).handle
            run_consumer(broker.settings(), topics[0], topics[0], Calls(handle, ahead=True), stop)

    thread = threading.Thread(target=run)
    thread.start()
    yield stop
    stop.set()
    thread.join()


def test_on_a_stream_neighbours_of_what_takes_too_much_are_detected_once_and_in_order(
    broker: Broker,
    topics: tuple[str, str],
    detecting: threading.Event,  # noqa: ARG001
    snapshot: Callable[..., Snapshot],
    outgoing: Callable[[Snapshot, str], OutgoingRecord],
) -> None:
    sent = [snapshot(0), large_snapshot(snapshot(1)), snapshot(2), snapshot(3)]
    publish(broker, [outgoing(one, topics[0]) for one in sent])
    with open_reader(broker.settings(), topics[1], start="beginning", limit=3) as found:
        ids = [dict(record.headers)["icd_snapshot_id"].decode() for record in found]
    assert ids == ["test/0", "test/2", "test/3"]
    dead = dead_letter_topic(topics[0])
    with open_reader(broker.settings(), dead, start="beginning", until="end") as letters:
        (letter,) = [split_headers(one.headers)[1] for one in letters]
    assert (letter["icd_dlq_offset"], letter["icd_dlq_stage"]) == ("1", "budget")
    assert letter["icd_dlq_exception"] == "OverBudget"
