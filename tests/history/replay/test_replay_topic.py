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
from stream_icd.history.replay.redetect import Job, Redetection
from stream_icd.history.replay.replay import ReplayPlan, TopicResults, replay
from stream_icd.kafka.messages.pacing import Tempo
from stream_icd.kafka.messages.topic_range import TopicRange
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.topics import COMMUNITIES, SNAPSHOTS, create_topics
from stream_icd.streaming.execution.work import InProcess
from stream_icd.streaming.subscribers.subscribe import subscribe
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
            message = encode_snapshot(make_snapshot(i))
            at_ms = round((WRITTEN + timedelta(minutes=minute)).timestamp() * 1000)
            publisher.send(
                OutgoingRecord(
                    topic, message.value, message.key, message.headers, timestamp_ms=at_ms
                )
            )
        late_ms = round((WRITTEN + timedelta(hours=1)).timestamp() * 1000)
        publisher.send(OutgoingRecord(topic, b"no snapshot", b"past", timestamp_ms=late_ms))
    return topic


def run(
    broker: Broker,
    redetection: Redetection,
    part: TopicRange,
    out: TopicResults,
    graph: str | None = None,
    stop: threading.Event = threading.Event(),
) -> Any:
    plan = ReplayPlan.of(PastOfTopic(broker.settings(), part, graph).jobs(None), out, redetection)
    with closing(PastOfTopic(broker.settings(), part, graph).jobs(None)) as todo:
        engine = InProcess(redetection)
        return replay(todo, plan, engine, out, Tempo(), lambda: 0.0, stop)  # type: ignore[arg-type]


def test_a_replay_that_stopped_goes_on(broker: Broker, past: str, redetection: Redetection) -> None:
    out = TopicResults(broker.settings(), f"{past}.again")
    first = run(broker, redetection, TopicRange(past), out, stop=StopsAfter(2))
    again = [run(broker, redetection, TopicRange(past), out).snapshots for _ in range(2)]
    assert [first.snapshots, *again] == [2, 3, 0]
    with open_reader(broker.settings(), out.topic, until="end") as records:
        found = [
            Message(record.key or b"", record.value or b"", record.headers) for record in records
        ]
    expected = [redetection(job) for job in newest_jobs(broker, past)]
    assert list(map(fingerprint, found)) == list(map(fingerprint, expected))  # type: ignore[arg-type]


def newest_jobs(broker: Broker, topic: str) -> list[Job]:
    jobs = PastOfTopic(broker.settings(), TopicRange(topic), None).jobs(None)
    return list({job.snapshot_id: job for job in jobs}.values())


def test_a_replay_that_is_asked_to_stop_ends_though_the_client_does_not_return(
    kafka: Broker, topic_name: str, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = kafka.settings(shutdown_timeout_s=0.5, max_poll_interval_s=20.0)
    names = topic_name, f"{topic_name}.again"
    create_topics(settings, list(map(TopicSpec, names)))
    message = encode_snapshot(make_snapshot(0))
    with Publisher(settings) as publisher:
        publisher.send(OutgoingRecord(names[0], message.value, message.key, message.headers))
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
    message = encode_snapshot(corrected)
    plain = tuple(header for header in message.headers if header[0] != "icd_content")
    with Publisher(broker.settings()) as publisher:  # of a producer that does not hash
        publisher.send(OutgoingRecord(past, message.value, message.key, plain))
    out = TopicResults(broker.settings(), f"{past}.again")
    for k, expected in ((None, 5), (None, 0), (4, 5), (4, 0), (None, 0)):
        settings = replace(redetection.settings, n_communities=k)
        done = run(broker, replace(redetection, settings=settings), TopicRange(past), out)
        assert done == (expected, 0)
    everything = {"start": "beginning", "until": "end", "settings": broker.settings()}
    found = list(subscribe(topic=out.topic, revisions="all", **everything))  # type: ignore[arg-type]
    assert {
        communities.content for communities in found if communities.snapshot_id == corrected.id
    } == {corrected.content}
    assert [communities.k_given for communities in found] == [None] * 5 + [4] * 5
    names = {(communities.graph, communities.snapshot_id) for communities in found}
    assert [communities.k_given for communities in out.read(names)] == [None] * 5 + [4] * 5
    one = {("past", corrected.id)}
    assert [communities.snapshot_id for communities in out.read(one)] == [corrected.id] * 2


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
    part = TopicRange.of_options(past, first, last, 1)
    found = PastOfTopic(broker.settings(), part, "past").jobs(None)
    ids = list(dict.fromkeys(job.snapshot_id for job in found))
    assert ids == [f"past/{i}" for i in expected]


def test_the_live_topic_is_refused_unless_it_is_meant() -> None:
    with pytest.raises(BadSettings, match="--into-live"):
        TopicResults.check(COMMUNITIES, into_live=False)
    TopicResults.check(COMMUNITIES, into_live=True)
    for other in (SNAPSHOTS, f"{COMMUNITIES}.dlq"):
        with pytest.raises(BadSettings, match="holds other messages than"):
            TopicResults.check(other, into_live=True)
    TopicResults.check("again", into_live=False)


WRONG_PARTS = [
    ("120", 6, "0:120,1:120"),
    ("yesterday", 1, "yesterday"),
    ("0:1,6:0", 6, "no partition 6; its partitions are 0 to 5"),
    ("0:1,0:5", 6, "names a partition twice"),
    ("20260131", 1, r"write 2026-01-31 .* 0:20260131 for the offset"),
]


def test_parts_of_a_topic_that_nobody_can_mean_are_refused() -> None:
    for start, n_partitions, said in WRONG_PARTS:
        with pytest.raises(BadSettings, match=said):
            TopicRange.of_options("t", start, None, n_partitions)
    assert TopicRange.of_options("t", "2:120,4:7", None, 6).start == {2: 120, 4: 7}
    for first, last, said in (
        ({0: 1}, {1: 2}, "the same ones"),
        ({0: 6, 1: 5}, {0: 7, 1: 4}, "0:7,1:4 before 0:6,1:5"),
        (WRITTEN, WRITTEN - timedelta(seconds=1), "--to is before --from"),
    ):
        with pytest.raises(BadSettings, match=said):
            TopicRange("t", first, last)  # type: ignore[arg-type]
