"""Replaying what a topic holds: the same results, in another topic; on both brokers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer

from stream_icd.commands.cli.replay import PastOfTopic
from stream_icd.core.errors import BadSettings
from stream_icd.history.replay.redetect import Redetection
from stream_icd.history.replay.replay import ReplayPlan, TopicResults, replay
from stream_icd.kafka.messages.pacing import Tempo
from stream_icd.kafka.messages.records import outgoing
from stream_icd.kafka.messages.topic_range import TopicRange
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.topics import COMMUNITIES, SNAPSHOTS, create_topics
from stream_icd.streaming.execution.work import InProcess
from stream_icd.wire.message import Message
from stream_icd.wire.snapshots import encode_snapshot
from tests.history.replay.conftest import StopsAfter, make_snapshot
from tests.run_here import run_here
from tests.testbed.brokers import Broker
from tests.testbed.fingerprint import fingerprint

pytestmark = pytest.mark.brokers("memory")

WRITTEN = datetime(2026, 3, 1, tzinfo=UTC)
MakeTopic = Callable[..., str]


@pytest.fixture
def past(broker: Broker, make_topic: MakeTopic) -> str:
    """A topic of five snapshots, written a minute apart, one of them twice; and a bad record."""
    topic = make_topic(retention_ms=-1)  # what is so old would be removed at once
    with Publisher(broker.settings()) as publisher:
        for minute, i in enumerate((0, 1, 2, 2, 3, 4)):
            record = outgoing(topic, encode_snapshot(make_snapshot(i)))
            publisher.send(replace(record, timestamp_ms=at_ms(minute)))
        publisher.send(OutgoingRecord(topic, b"no snapshot", b"past", timestamp_ms=at_ms(60)))
    return topic


def at_ms(minute: int) -> int:
    return round((WRITTEN + timedelta(minutes=minute)).timestamp() * 1000)


def jobs_of(broker: Broker, part: TopicRange) -> Any:
    return PastOfTopic(broker.settings(), part, None).jobs(None)


def run(
    broker: Broker,
    redetection: Redetection,
    out: TopicResults,
    part: TopicRange,
    stop: threading.Event = threading.Event(),
) -> Any:
    plan = ReplayPlan.of(jobs_of(broker, part), out, redetection)
    with closing(jobs_of(broker, part)) as todo:
        engine = InProcess(redetection)
        return replay(todo, plan, engine, out, Tempo(), lambda: 0.0, stop)


def test_a_replay_that_stopped_goes_on(broker: Broker, past: str, redetection: Redetection) -> None:
    out, whole = TopicResults(broker.settings(), f"{past}.again"), TopicRange(past)
    first = run(broker, redetection, out, whole, StopsAfter(2))
    second, third = (run(broker, redetection, out, whole) for _ in range(2))
    assert [first.snapshots, second.snapshots, third.snapshots] == [2, 3, 0]
    with open_reader(broker.settings(), out.topic, until="end") as records:
        found = [
            fingerprint(Message(record.key or b"", record.value or b"", record.headers))
            for record in records
        ]
    newest = {job.snapshot_id: job for job in jobs_of(broker, whole)}.values()
    assert found == [fingerprint(redetection(job)) for job in newest]  # type: ignore[arg-type]


def test_a_replay_that_is_asked_to_stop_ends_though_the_client_does_not_return(
    kafka: Broker, topic_name: str, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = kafka.settings(shutdown_timeout_s=0.5, max_poll_interval_s=20.0)
    names = topic_name, f"{topic_name}.again"
    create_topics(settings, list(map(TopicSpec, names)))
    with Publisher(settings) as publisher:
        publisher.send(outgoing(topic_name, encode_snapshot(make_snapshot(0))))
    stop, planned, over = threading.Event(), threading.Event(), threading.Event()
    poll = KafkaConsumer.poll

    def hanging(consumer: Any, *arguments: Any, **options: Any) -> Any:
        if planned.is_set():
            stop.set()
            over.wait()
        return poll(consumer, *arguments, **options)

    def stopped_by_signals() -> threading.Event:
        planned.set()
        return stop

    monkeypatch.setattr(KafkaConsumer, "poll", hanging)
    monkeypatch.setattr("stream_icd.commands.programs.process.stop_on_signals", stopped_by_signals)
    monkeypatch.setenv("STREAM_ICD_SHUTDOWN_TIMEOUT_S", "0.5")
    topics = ("--topic", names[0], "--out-topic", names[1], "-b", settings.bootstrap_servers)
    try:
        options = ("--model", str(model_folder), "--memory", "off", "--engine", "serial")
        assert run_here("replay", "topic", *topics, *options).returncode == 130
    finally:
        over.set()


def test_the_newest_revision_is_replayed_and_other_settings_are_another_result(
    broker: Broker, past: str, redetection: Redetection
) -> None:
    corrected = replace(make_snapshot(1), edges=make_snapshot(1).edges[:, 5:])
    record = outgoing(past, encode_snapshot(corrected))
    plain = tuple(header for header in record.headers if header[0] != "icd_content")
    with Publisher(broker.settings()) as publisher:
        publisher.send(replace(record, headers=plain))  # of a producer that does not hash
    out = TopicResults(broker.settings(), f"{past}.again")
    for k, expected in ((None, 5), (None, 0), (4, 5), (4, 0), (None, 0)):
        settings = replace(redetection.settings, n_communities=k)
        done = run(broker, replace(redetection, settings=settings), out, TopicRange(past))
        assert done == (expected, 0)
    names = {("past", f"past/{i}") for i in range(5)}
    found = list(out.read(names))
    contents = {each.content for each in found if each.snapshot_id == corrected.id}
    assert contents == {corrected.content}
    assert [communities.k_given for communities in found] == [None] * 5 + [4] * 5
    of_one = out.read({("past", corrected.id)})
    assert [communities.snapshot_id for communities in of_one] == [corrected.id] * 2


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        ("2026-03-01T00:01:00Z", "2026-03-01T00:04:00Z", [1, 2]),
        ("2026-03-01T00:04:00Z", None, [3, 4]),
        ("1", "5", [1, 2, 3]),
        (None, "0:2", [0, 1]),
    ],
)
def test_a_part_of_the_topic(
    broker: Broker, past: str, first: str | None, last: str | None, expected: list[int]
) -> None:
    jobs = jobs_of(broker, TopicRange.of_options(past, first, last, 1))
    ids = list(dict.fromkeys(job.snapshot_id for job in jobs))
    assert ids == [f"past/{i}" for i in expected]


def test_the_live_topic_is_refused_unless_it_is_meant() -> None:
    with pytest.raises(BadSettings, match="--into-live"):
        TopicResults.check(COMMUNITIES, into_live=False)
    TopicResults.check(COMMUNITIES, into_live=True)
    for other in (SNAPSHOTS, f"{COMMUNITIES}.dlq"):
        with pytest.raises(BadSettings, match="holds other messages than"):
            TopicResults.check(other, into_live=True)
    TopicResults.check("again", into_live=False)


@pytest.mark.parametrize(
    ("start", "n_partitions", "reason"),
    [
        ("120", 6, "0:120,1:120"),
        ("yesterday", 1, "yesterday"),
        ("0:1,6:0", 6, "no partition 6; its partitions are 0 to 5"),
        ("0:1,0:5", 6, "names a partition twice"),
        ("20260131", 1, r"write 2026-01-31 .* 0:20260131 for the offset"),
    ],
)
def test_a_start_that_nobody_can_mean_is_refused(
    start: str, n_partitions: int, reason: str
) -> None:
    with pytest.raises(BadSettings, match=reason):
        TopicRange.of_options("t", start, None, n_partitions)
    assert TopicRange.of_options("t", "2:120,4:7", None, 6).start == {2: 120, 4: 7}


@pytest.mark.parametrize(
    ("first", "last", "reason"),
    [
        ({0: 1}, {1: 2}, "the same ones"),
        ({0: 6, 1: 5}, {0: 7, 1: 4}, "0:7,1:4 before 0:6,1:5"),
        (WRITTEN, WRITTEN - timedelta(seconds=1), "--to is before --from"),
    ],
)
def test_an_end_before_the_start_is_refused(first: Any, last: Any, reason: str) -> None:
    with pytest.raises(BadSettings, match=reason):
        TopicRange("t", first, last)
