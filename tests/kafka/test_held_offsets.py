"""When waiting for a position that a transaction holds is given up."""

from __future__ import annotations

import pytest

from stream_icd.errors import OffsetHeld
from stream_icd.kafka.held_offsets import GRACE_S, HeldOffsets
from stream_icd.kafka.settings import KafkaSettings


def test_only_time_in_which_the_broker_answers_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    now, answers = 0.0, True
    monkeypatch.setattr(HeldOffsets, "_broker_answers", lambda _: answers)
    held = HeldOffsets(KafkaSettings(transaction_timeout_s=10), "group", clock=lambda: now)
    for now, answers in ((0.0, True), (50.0, False), (300.0, False), (301.0, True)):  # noqa: B007
        held.unknown()
    now += 10 + GRACE_S
    held.unknown()
    now += 1
    with pytest.raises(OffsetHeld, match=r"group group: for 56 s .* after 10 s"):
        held.unknown()


def test_a_position_that_could_be_had_meanwhile_is_waited_for_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr(HeldOffsets, "_broker_answers", lambda _: True)
    held = HeldOffsets(KafkaSettings(transaction_timeout_s=10), "group", clock=lambda: now)
    held.unknown()
    held.known()
    now = 1000.0
    held.unknown()


def test_a_broker_that_is_away_holds_nothing() -> None:
    now = 0.0
    away = KafkaSettings(bootstrap_servers="127.0.0.1:1", connect_timeout_s=0.2)
    held = HeldOffsets(away, "group", clock=lambda: now)
    held.unknown()
    now = 1000.0
    held.unknown()
