"""A snapshot that takes too much time or memory is dead-lettered; its neighbours are not."""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from stream_icd.core.errors import BadSettings, OverBudget
from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.messages.claims import Claim
from stream_icd.kafka.messages.records import Outcome
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.registry.find import open_model
from stream_icd.streaming.dead_letters.letters import split_headers
from stream_icd.streaming.detection.record import RecordDetection
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.execution.budget import Budget, sent_bytes
from stream_icd.streaming.execution.processes import Processes
from stream_icd.streaming.execution.worker_process import Usage
from stream_icd.streaming.workers.detect import Detector
from stream_icd.streaming.workers.runner import Runner
from stream_icd.wire.limits import DEFAULT_LIMITS, Limits
from tests.fixtures.stream import cliques
from tests.testbed.brokers import Broker, wait_until
from tests.testbed.drifting import outgoing
from tests.testbed.handlers import Calls
from tests.testbed.streams import as_read, beside, held, publish

SMALL = Budget(seconds=1, seconds_per_mb=0)
MARKS = "ICD_TEST_MARKS"


class Endless(RecordDetection):
    """Works on `test/1` without end, and leaves a mark each time that it begins."""

    def __call__(self, record: Record) -> Outcome:
        if dict(record.headers)["ce_id"] == b"test/1":
            self.go_on()
        return super().__call__(record)

    def go_on(self) -> None:
        (Path(os.environ[MARKS]) / str(os.getpid())).touch()
        while True:
            pass


class Greedy(Endless):
    """Takes memory for it without end."""

    def go_on(self) -> None:
        taken = []
        while True:
            taken.append(np.ones(10**6))


class Waiting(Endless):
    """Waits on it without end."""

    def go_on(self) -> None:
        time.sleep(600)


Engine = Processes[Record, Outcome]


@pytest.fixture
def opened(model_folder: Path) -> Callable[..., tuple[Engine, Runner]]:
    """`opened(kind, budget)`: a process for work of a kind, and the runner of a detector on it."""

    def opened(
        kind: type[RecordDetection], budget: Budget, topic: str = "found"
    ) -> tuple[Engine, Runner]:
        settings = DetectSettings(topic=topic, threads=1, budget=budget)
        work = kind(open_model(str(model_folder)), settings)
        engine = Processes(work, str(model_folder), 1)
        return engine, Runner(Detector(lambda: work.model, settings, engine))

    return opened


@pytest.fixture
def sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[OutgoingRecord]:
    """Four snapshots; `test/1` is the one that takes too much."""
    monkeypatch.setenv(MARKS, str(tmp_path))
    return [outgoing(cliques(i), "t") for i in range(4)]


def described(record: OutgoingRecord) -> str:
    """What came of a record: its topic, or for a dead letter stage, error and message."""
    added = split_headers(record.headers)[1]
    why = (added.get(f"icd_dlq_{name}", "") for name in ("stage", "exception", "message"))
    return " ".join((record.topic, *why)).strip()


def test_what_works_without_end_is_a_dead_letter_after_one_attempt(
    opened: Callable[..., tuple[Engine, Runner]], sent: list[OutgoingRecord], tmp_path: Path
) -> None:
    engine, runner = opened(Endless, SMALL)
    with engine:
        first, bad, *rest = map(described, runner.handle(as_read(sent)))
    assert [first, *rest] == ["found"] * 3
    # On a busy machine the limit by the clock, ten times as long, may be reached first.
    limit = rf"the limit for a message of {len(sent[1].value or b'')} bytes is"
    by_cpu = rf"1\.\d s of processor time; {limit} 1\.0"
    by_clock = rf"10\.\d s by the clock; {limit} 10\.0"
    assert re.match(rf"t.dlq budget OverBudget took ({by_cpu}|{by_clock})", bad)
    assert "STREAM_ICD_BUDGET_SECONDS" in bad
    assert "dlq retry" in bad
    assert len(list(tmp_path.iterdir())) == 1


def test_what_takes_memory_without_end_is_a_dead_letter(
    opened: Callable[..., tuple[Engine, Runner]], sent: list[OutgoingRecord]
) -> None:
    engine, runner = opened(Greedy, Budget(memory_bytes=10**8, memory_per_byte=0))
    with engine:
        first, bad, *rest = map(described, runner.handle(as_read(sent)))
    assert [first, *rest] == ["found"] * 3
    assert bad.startswith("t.dlq budget OverBudget took ")
    assert "MB of memory; the limit for a message of " in bad
    assert " is 100.0 (STREAM_ICD_BUDGET_MEMORY_BYTES, " in bad


def test_what_is_in_hand_is_known_while_it_is(
    opened: Callable[..., tuple[Engine, Runner]], sent: list[OutgoingRecord]
) -> None:
    engine, runner = opened(Waiting, Budget(seconds=60, seconds_per_mb=0))
    with engine:
        assert engine.in_hand == []

        def run() -> None:
            with contextlib.suppress(EOFError, CancelledError):  # it is closed meanwhile
                list(runner.handle(as_read(sent)))

        at_work = threading.Thread(target=run)
        at_work.start()
        wait_until(lambda: any("test/1" in job.name for job in engine.in_hand))
        (job,) = engine.in_hand
        assert job.allowed_seconds == 600
        assert 0 <= job.seconds < 600
        wait_until(lambda: engine.in_hand[0].seconds > job.seconds)
    at_work.join(30)
    assert not at_work.is_alive()


@pytest.mark.brokers("memory")
def test_on_a_stream_neighbours_of_what_takes_too_much_are_detected_once_and_in_order(
    broker: Broker,
    topics: tuple[str, str],
    opened: Callable[..., tuple[Engine, Runner]],
    sent: list[OutgoingRecord],
) -> None:
    publish(broker, [OutgoingRecord(topics[0], one.value, one.key, one.headers) for one in sent])
    engine, runner = opened(Endless, Budget(seconds=1.5, seconds_per_mb=0), topics[1])
    handler = Calls(runner.handle, ahead=True)
    consume = partial(run_consumer, broker.settings(), topics[0], topics[0], handler)
    reading = open_reader(broker.settings(), topics[1], start="beginning", limit=3)
    with engine, beside(consume) as errors, reading as found:
        ids = [dict(record.headers)["icd_snapshot_id"].decode() for record in found]
    assert (ids, errors) == (["test/0", "test/2", "test/3"], [])
    (letter,) = [split_headers(one.headers)[1] for one in held(broker, f"{topics[0]}.dlq")]
    assert (letter["icd_dlq_offset"], letter["icd_dlq_stage"]) == ("1", "budget")
    assert letter["icd_dlq_exception"] == "OverBudget"


def test_a_budget_grows_with_what_was_sent_and_what_is_remembered() -> None:
    budget = Budget(seconds=3, seconds_per_mb=2, memory_bytes=1000, memory_per_byte=10)
    alone = budget.allowance(500_000)
    assert (alone.seconds, alone.clock_seconds) == (4, 40)
    assert alone.memory_bytes == 1000 + 5_000_000
    both = alone.with_state(1_500_000)
    assert both.seconds == 7
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
    over = pytest.raises(OverBudget, match=complaint) if complaint else contextlib.nullcontext()
    with over:
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
    for name, value in (("SECONDS", "0"), ("SECONDS_PER_MB", "nan")):
        monkeypatch.setenv(f"STREAM_ICD_BUDGET_{name}", value)
        with pytest.raises(BadSettings, match=name.lower()):
            Budget()
        monkeypatch.delenv(f"STREAM_ICD_BUDGET_{name}")
