"""Whatever a topic holds, its readers end in what was sent or in bad input."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.fuzz_wire import fuzz, targets
from stream_icd.core.errors import BadInput

TOPICS = ("snapshots", "communities", "labels", "events", "alerts", "announcements", "claims",
          "dead letters", "known nodes", "memory")  # fmt: skip


@pytest.mark.parametrize("topic", TOPICS)
def test_broken_messages_end_in_bad_input(topic: str, tmp_path: Path) -> None:
    findings = fuzz(targets(str(tmp_path))[topic], seed=11, numbers=range(1000))
    assert findings.escapes == {}
    assert findings.endings["read"] > 20
    assert topic == "dead letters" or findings.endings.total() - findings.endings["read"] > 500


def test_every_topic_is_broken(tmp_path: Path) -> None:
    assert tuple(targets(str(tmp_path))) == TOPICS


def test_an_error_of_another_kind_is_found_and_can_be_repeated(tmp_path: Path) -> None:
    target = targets(str(tmp_path))["snapshots"]

    def read(record: object) -> None:
        try:
            target.read(record)  # type: ignore[arg-type]
        except BadInput as cause:
            if "ce_id" in str(cause):
                raise KeyError from cause
            raise

    escapes = fuzz(replace(target, read=read), 11, range(600)).escapes
    number = min(escapes)
    assert fuzz(replace(target, read=read), 11, [number]).escapes == {number: escapes[number]}
