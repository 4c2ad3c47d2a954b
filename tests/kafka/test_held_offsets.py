"""When waiting for a position that a transaction holds is given up."""

from __future__ import annotations

import pytest

from stream_icd.core.errors import OffsetHeld
from stream_icd.kafka.group.held import _GRACE_S, HeldOffsets
from stream_icd.kafka.port import TopicPartition
from stream_icd.kafka.settings import KafkaSettings

HERE, THERE = TopicPartition("snapshots", 0), TopicPartition("snapshots", 1)


def test_only_time_in_which_the_broker_answers_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    now, answers = 0.0, True
    monkeypatch.setattr(HeldOffsets, "_broker_answers", lambda _: answers)
    held = HeldOffsets(KafkaSettings(transaction_timeout_s=10), "group", clock=lambda: now)
    for now, answers in ((0.0, True), (50.0, False), (300.0, False), (301.0, True)):  # noqa: B007
        held.unknown([HERE])
    now += 10 + _GRACE_S
    held.unknown([HERE])
    now += 1
    with pytest.raises(OffsetHeld, match=r"group group: for 56 s .* snapshots\[0\] .* after 10 s"):
        held.unknown([HERE])


def test_a_position_that_could_be_had_meanwhile_is_waited_for_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr(HeldOffsets, "_broker_answers", lambda _: True)
    held = HeldOffsets(KafkaSettings(transaction_timeout_s=10), "group", clock=lambda: now)
    held.unknown([HERE])
    held.known([HERE])
    now = 1000.0
    held.unknown([HERE])


def test_each_partition_has_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(HeldOffsets, "_broker_answers", lambda _: True)
    held = HeldOffsets(KafkaSettings(transaction_timeout_s=10), "group", clock=lambda: now)
    held.unknown([HERE, THERE])
    held.known([HERE])
    now = 1000.0
    held.unknown([HERE])  # its time begins now
    now = 1001.0
    held.unknown([HERE, THERE])  # and so does this one's: it was not missing the last time
    now = 1001.0 + 10 + _GRACE_S
    with pytest.raises(OffsetHeld, match=r"snapshots\[0\]"):
        held.unknown([HERE, THERE])


def test_a_broker_that_is_away_holds_nothing() -> None:
    now = 0.0
    away = KafkaSettings(bootstrap_servers="127.0.0.1:1", connect_timeout_s=0.2)
    held = HeldOffsets(away, "group", clock=lambda: now)
    held.unknown([HERE])
    now = 1000.0
    held.unknown([HERE])
