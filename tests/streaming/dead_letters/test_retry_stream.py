"""A dead-lettered snapshot is sent again once the cause is fixed; on both brokers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from stream_icd.commands.cli.dlq import _verdict
from stream_icd.core.errors import LimitExceeded
from stream_icd.core.snapshot import Snapshot
from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.messages.claims import ClaimSettings, MessageReader
from stream_icd.kafka.messages.pacing import Tempo
from stream_icd.kafka.messages.topic_range import TopicRange
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.registry.model import VersionedModel
from stream_icd.streaming.dead_letters.box import DeadLetterBox, DeadLetterChoice, read_dead_letters
from stream_icd.streaming.dead_letters.letters import DeadLetterLimit, dead_letter, split_headers
from stream_icd.streaming.dead_letters.retry import Retry, open_retry_sink, plan_retry, retry
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.workers.detect import Detector
from stream_icd.streaming.workers.runner import Runner
from stream_icd.wire.limits import Limits
from tests.testbed.brokers import Broker, wait_until
from tests.testbed.handlers import Calls
from tests.testbed.streams import beside, publish

pytestmark = pytest.mark.brokers("memory")

Outgoing = Callable[[Snapshot, str], OutgoingRecord]
Topics = tuple[str, str]
AT = datetime(2026, 1, 1, tzinfo=UTC)


@contextmanager
def detecting(
    broker: Broker, topics: Topics, model: VersionedModel, limits: Limits, group: str = "detect"
) -> Iterator[None]:
    """A detector at work in the background, which reads what these limits let it read."""
    settings = DetectSettings(topic=topics[1], threads=1, reader=MessageReader(limits=limits))
    runner = Runner(Detector(lambda: model, settings), DeadLetterLimit())
    own_group, handler = f"{topics[0]}-{group}", Calls(runner.handle)
    with beside(partial(run_consumer, broker.settings(), topics[0], own_group, handler)) as errors:
        yield
    assert not errors


def retry_all(broker: Broker, topic: str, again: bool = False) -> Retry:
    sink = open_retry_sink(broker.steady(), f"{topic}.dlq")
    try:
        plan = plan_retry(
            box(broker, topic), DeadLetterChoice(TopicRange(f"{topic}.dlq")), again=again
        )
        return retry(broker.settings(), plan, sink, Tempo(), lambda: AT, threading.Event())
    finally:
        sink.close()


def box(broker: Broker, topic: str) -> DeadLetterBox:
    return read_dead_letters(broker.settings(), f"{topic}.dlq", until="settled")


def records(broker: Broker, topic: str) -> list[Record]:
    with open_reader(broker.settings(), topic, until="settled") as found:
        return list(found)


def detected(broker: Broker, topics: Topics) -> list[str]:
    """The snapshot of each result, also of one that was published twice."""
    return [dict(r.headers)["icd_snapshot_id"].decode() for r in records(broker, topics[1])]


def test_what_was_dead_lettered_is_detected_once_the_limit_was_raised(
    broker: Broker,
    topics: Topics,
    model: VersionedModel,
    snapshot: Callable[..., Snapshot],
    outgoing: Outgoing,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    publish(
        broker,
        [outgoing(one, topics[0]) for one in (snapshot(0), snapshot(1, size=20), snapshot(2))],
    )
    with detecting(broker, topics, model, Limits(rows=200)):
        wait_until(lambda: len(detected(broker, topics)) == 2)
        wait_until(lambda: len(box(broker, topics[0]).letters) == 1)  # it is in another topic
        assert retry_all(broker, topics[0]) == Retry(sent=1)  # nothing is mended yet
        wait_until(lambda: len(box(broker, topics[0]).letters) == 2)
    first, second = box(broker, topics[0]).letters
    assert (first.snapshot_id, first.exception, first.stage) == (
        "test/1",
        "LimitExceeded",
        "decode",
    )
    assert (first.attempt, second.attempt) == (1, 2)
    assert second.headers == first.headers == outgoing(snapshot(1, size=20), topics[0]).headers
    assert list(box(broker, topics[0]).retried) == [first.origin] == [second.origin]
    (dead,) = [r for r in records(broker, f"{topics[0]}.dlq") if r.offset == second.offset]
    dead = Record("", 0, 0, 0, dead.key, dead.value, second.headers)
    assert _verdict(dead, MessageReader()) == "it can be read, as stream_icd.snapshot.v1"
    monkeypatch.setenv("STREAM_ICD_LIMITS_ROWS", "200")
    assert "LimitExceeded" in _verdict(dead, MessageReader())

    with detecting(broker, topics, model, Limits(rows=10_000)):
        assert retry_all(broker, topics[0]) == Retry(sent=0)  # it failed again: who knows better?
        assert retry_all(broker, topics[0], again=True) == Retry(sent=1)
        wait_until(lambda: len(detected(broker, topics)) == 3)
        assert retry_all(broker, topics[0]) == Retry(sent=0)
    assert detected(broker, topics) == ["test/0", "test/2", "test/1"]
    assert len(box(broker, topics[0]).letters) == 2


def test_what_two_workers_dead_lettered_is_one_record_however_often_it_fails(
    broker: Broker,
    topics: Topics,
    model: VersionedModel,
    snapshot: Callable[..., Snapshot],
    outgoing: Outgoing,
) -> None:
    def letters() -> int:
        return len(box(broker, topics[0]).letters)

    publish(broker, [outgoing(snapshot(0, size=20), topics[0])])
    limits = Limits(rows=200)
    with (
        detecting(broker, topics, model, limits, "detect"),
        detecting(broker, topics, model, limits, "archive"),
    ):
        for attempt in (1, 2, 3):
            wait_until(lambda attempt=attempt: letters() == 2 * attempt)
            (record,) = box(broker, topics[0]).records
            assert (record.attempt, len(record.retried)) == (attempt, attempt - 1)
            assert retry_all(broker, topics[0], again=attempt > 1) == Retry(sent=1)
            assert retry_all(broker, topics[0]) == Retry(sent=0)
    came = [dict(r.headers).get("icd_dlq_attempt") for r in records(broker, topics[0])]
    assert came == [None, b"1", b"2", b"3"]


def test_what_its_topic_takes_no_more_goes_to_the_file_store(
    memory: Broker,
    topic_name: str,
    make_dead_letters: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STREAM_ICD_CLAIMS_URI", str(tmp_path / "claims"))
    value, headers = b"x" * 20_000, (("ce_id", b"g/1"),)
    make_dead_letters([Record(topic_name, 0, 9, 0, b"g", value, headers)])
    monkeypatch.setenv("STREAM_ICD_MAX_MESSAGE_BYTES", "10000")
    assert retry_all(memory, topic_name) == Retry(sent=1)
    (claimed,) = records(memory, topic_name)
    assert claimed.value == b""
    whole = MessageReader(ClaimSettings()).whole(claimed)
    assert (whole.value, whole.headers) == (
        value,
        (
            *headers,
            ("icd_dlq_attempt", b"1"),
            ("icd_dlq_origin", f"{topic_name}[0]@9".encode()),
        ),
    )
    again = dead_letter(claimed, "decode", LimitExceeded("too large"))  # it fails again
    came, added = split_headers(again.headers)
    assert added["icd_dlq_attempt"] == "2"
    assert [name for name, _ in came][:1] == ["ce_id"]
    assert len(dict(came)) == len(came) == 1 + 3


@pytest.fixture
def make_dead_letters(memory: Broker, topic_name: str) -> Callable[..., None]:
    """Sets records aside in the dead-letter topic of `topic_name`."""
    from stream_icd.kafka.port import TopicSpec
    from stream_icd.kafka.topics import create_topics

    create_topics(memory.settings(), TopicSpec(topic_name).with_dead_letters())

    def make(came: list[Record]) -> None:
        publish(
            memory, [dead_letter(record, "decode", LimitExceeded("too large")) for record in came]
        )

    return make
