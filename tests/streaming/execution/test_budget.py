"""A snapshot that takes too much time or memory is dead-lettered; its neighbours are not."""

from __future__ import annotations

import contextlib
import os
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from structlog.testing import capture_logs

from stream_icd.core.errors import BadSettings, OverBudget
from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.messages.claims import Claim, MessageReader
from stream_icd.kafka.messages.records import Outcome
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import Record
from stream_icd.registry.find import open_model
from stream_icd.streaming.detection.record import RecordDetection
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.execution.budget import Budget
from stream_icd.streaming.execution.processes import Processes
from stream_icd.streaming.workers.detect import Detector
from stream_icd.streaming.workers.runner import Runner
from stream_icd.wire.limits import Limits
from tests.fixtures.stream import cliques
from tests.testbed.brokers import Broker
from tests.testbed.drifting import outgoing
from tests.testbed.handlers import Calls
from tests.testbed.streams import beside, held, publish

MARKS = "ICD_TEST_MARKS"


class Endless(RecordDetection):
    """Works on `test/1` without end, and leaves a mark each time that it begins."""

    def __call__(self, record: Record) -> Outcome:
        if dict(record.headers)["ce_id"] == b"test/1":
            (Path(os.environ[MARKS]) / str(os.getpid())).touch()
            while True:
                self.go_on()
        return super().__call__(record)

    def go_on(self) -> None:
        pass


class Greedy(Endless):
    """Takes memory for it without end."""

    def go_on(self) -> None:
        taken = []
        while True:
            taken.append(np.ones(10**6))


# On a busy machine the limit by the clock, ten times as long, may be reached first.
_TIME = (
    r"took (1\.\d s of processor time; LIMIT 1\.5|15\.\d s by the clock; LIMIT 15\.0) "
    r"\(STREAM_ICD_BUDGET_SECONDS, .*dlq retry"
)
_MEMORY = r"took .* MB of memory; LIMIT 100\.0 \(STREAM_ICD_BUDGET_MEMORY_BYTES, .*dlq retry"


@pytest.mark.brokers("memory")
@pytest.mark.parametrize(
    ("kind", "budget", "message"),
    [
        (Endless, Budget(seconds=1.5, seconds_per_mb=0), _TIME),
        (Greedy, Budget(memory_bytes=10**8, memory_per_byte=0), _MEMORY),
    ],
)
def test_what_takes_too_much_is_a_dead_letter_after_one_attempt_and_its_neighbours_are_detected(
    broker: Broker,
    topics: tuple[str, str],
    model_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: type[Endless],
    budget: Budget,
    message: str,
) -> None:
    monkeypatch.setenv(MARKS, str(tmp_path))
    sent = [outgoing(cliques(i), topics[0]) for i in range(4)]
    publish(broker, sent)
    settings = DetectSettings(topic=topics[1], threads=1, budget=budget)
    work = kind(open_model(str(model_folder)), settings)
    with Processes(work, str(model_folder), 1) as engine, capture_logs() as log:
        runner = Runner(Detector(lambda: work.model, settings, engine))
        handler = Calls(runner.handle, ahead=True)
        consume = partial(run_consumer, broker.settings(), topics[0], topics[0], handler)
        reading = open_reader(broker.settings(), topics[1], start="beginning", limit=3)
        with beside(consume) as errors, reading as found:
            ids = [dict(record.headers)["icd_snapshot_id"] for record in found]
    assert (ids, errors) == ([b"test/0", b"test/2", b"test/3"], [])
    (letter,) = (dict(record.headers) for record in held(broker, f"{topics[0]}.dlq"))
    assert (letter["icd_dlq_offset"], letter["icd_dlq_stage"]) == (b"1", b"budget")
    assert letter["icd_dlq_exception"] == b"OverBudget"
    limit = f"the limit for a message of {len(sent[1].value or b'')} bytes is"
    assert re.match(message.replace("LIMIT", limit), letter["icd_dlq_message"].decode())
    assert len(list(tmp_path.iterdir())) == 1
    (job,) = [line["job"] for line in log if line["event"] == "a worker process was replaced"]
    assert "test/1" in job


def test_a_budget_grows_with_what_was_sent_and_what_is_remembered() -> None:
    budget = Budget(seconds=3, seconds_per_mb=2, memory_bytes=1000, memory_per_byte=10)
    alone = budget.allowance(500_000)
    assert (alone.seconds, alone.clock_seconds) == (4, 40)
    assert alone.memory_bytes == 1000 + 5_000_000
    both = alone.with_state(1_500_000)
    assert both.seconds == 7
    assert both.memory_bytes - alone.memory_bytes == 15_000_000
    with pytest.raises(OverBudget, match="of 500000 bytes and a memory of 1500000 is 7.0"):
        both.check(cpu_seconds=8, clock_seconds=1, memory_bytes=0)


@pytest.mark.parametrize(
    ("cpu_seconds", "clock_seconds", "memory_bytes", "complaint"),
    [
        (2.9, 29, 10**6, None),
        (3.1, 4, 0, "3.1 s of processor time"),
        (0, 31, 0, "31.0 s by the clock"),
        (0, 0, 1_200_000, "1.2 MB of memory"),
    ],
)
def test_each_of_processor_time_clock_and_memory_counts(
    cpu_seconds: float, clock_seconds: float, memory_bytes: int, complaint: str | None
) -> None:
    allowance = Budget(seconds=3, memory_bytes=10**6).allowance(0)
    with pytest.raises(OverBudget, match=complaint) if complaint else contextlib.nullcontext():
        allowance.check(
            cpu_seconds=cpu_seconds, clock_seconds=clock_seconds, memory_bytes=memory_bytes
        )


def test_a_claim_counts_as_what_it_claims_up_to_the_limit_of_what_is_read() -> None:
    claim = Claim("s3://somewhere/x", 5000, "ab" * 32)
    claimed = Record("t", 0, 0, 0, b"g", b"", claim.headers())
    malformed = Record("t", 0, 0, 0, b"g", b"abc", claim.headers()[:1])
    assert MessageReader().size_of(claimed) == 5000
    assert MessageReader(limits=Limits(decoded_bytes=100)).size_of(claimed) == 100
    assert MessageReader().size_of(malformed) == 3


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
