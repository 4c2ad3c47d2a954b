"""Budgets grow with messages and memories, and each of their limits counts."""

from __future__ import annotations

import contextlib

import pytest

from stream_icd.core.errors import BadSettings, OverBudget
from stream_icd.kafka.messages.claims import Claim, MessageReader
from stream_icd.kafka.record import Record
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.execution.budget import Budget
from stream_icd.wire.limits import Limits


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
