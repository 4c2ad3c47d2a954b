"""Replaying what a topic holds: the same results, in another topic; on both brokers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import typer
from kafka import KafkaConsumer

from stream_icd.commands.cli import replay_run
from stream_icd.commands.cli.replay_run import (
    PastOfTopic,
    run_replay,
)
from stream_icd.commands.programs.options import ReplayOptions
from stream_icd.commands.programs.process import INTERRUPTED
from stream_icd.core.errors import BadSettings
from stream_icd.history.replay.redetect import Redetection
from stream_icd.history.replay.replay import (
    ReplayPlan,
    TopicResults,
    replay,
)
from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.messages.pacing import Tempo
from stream_icd.kafka.messages.topic_range import TopicRange
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.topics import COMMUNITIES, SNAPSHOTS, create_topics
from stream_icd.streaming.dead_letters.letters import DeadLetterLimit
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.execution.work import InProcess
from stream_icd.streaming.subscribers.subscribe import subscribe
from stream_icd.streaming.workers.detect import Detector
from stream_icd.streaming.workers.runner import Runner
from stream_icd.wire.message import Message
from stream_icd.wire.snapshots import encode_snapshot
from tests.history.replay.conftest import StopsAfter, make_snapshot
from tests.testbed.brokers import Broker
from tests.testbed.fingerprint import fingerprint
from tests.testbed.handlers import Calls

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


def published(broker: Broker, topic: str) -> list[tuple[str, str]]:
    """Snapshot and fingerprint of each result in a topic."""
    with open_reader(broker.settings(), topic, until="end") as records:
        return [
            (
                dict(record.headers)["icd_snapshot_id"].decode(),
                fingerprint(Message(record.key or b"", record.value or b"", record.headers)),
            )
            for record in records
        ]


def streamed(broker: Broker, topic: str, out: str, redetection: Redetection) -> None:
    """Run a detector on the stream until it has seen all six good records."""
    stop, done = threading.Event(), [0]
    settings = DetectSettings(topic=out, threads=1, seed=redetection.settings.seed)
    runner = Runner(Detector(lambda: redetection.model, settings), DeadLetterLimit())

    def handle(records: object) -> Iterator[OutgoingRecord]:
        return (record for record in runner.handle(records) if record.topic == out)  # type: ignore[arg-type]

    def count(batch: object) -> None:
        done[0] += len(batch.records)  # type: ignore[attr-defined]
        if done[0] >= 7:
            stop.set()

    too_long = threading.Timer(200, stop.set)
    too_long.start()
    run_consumer(broker.settings(), topic, topic, Calls(handle, done=count), stop)
    too_long.cancel()
    assert done[0] >= 7


def test_what_is_replayed_is_what_was_streamed(
    broker: Broker, make_topic: MakeTopic, past: str, redetection: Redetection
) -> None:
    live, again = make_topic(), f"{past}.again"
    streamed(broker, past, live, redetection)
    done = run(broker, redetection, TopicRange(past), TopicResults(broker.settings(), again))
    assert done == (5, 0)
    results = published(broker, again)
    assert [one for one, _ in results] == [f"past/{i}" for i in range(5)]
    assert set(results) == set(published(broker, live))


def test_a_replay_that_stopped_goes_on(broker: Broker, past: str, redetection: Redetection) -> None:
    out = TopicResults(broker.settings(), f"{past}.again")
    first = run(broker, redetection, TopicRange(past), out, stop=StopsAfter(2))
    again = [run(broker, redetection, TopicRange(past), out).snapshots for _ in range(2)]
    assert [first.snapshots, *again] == [2, 3, 0]
    assert [one for one, _ in published(broker, out.topic)] == [f"past/{i}" for i in range(5)]


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
    monkeypatch.setattr(replay_run, "stop_on_signals", stopped_by_signals)
    part = TopicRange(names[0])
    options = ReplayOptions(model=str(model_folder), memory="off", seed=7, engine="serial")
    try:
        with pytest.raises(typer.Exit) as ended:
            run_replay(
                options,
                PastOfTopic(settings, part, None),
                TopicResults(settings, names[1]),
                None,
            )
        assert ended.value.exit_code == INTERRUPTED
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
    broker: Broker,
    past: str,
    first: str | None,
    last: str | None,
    expected: list[int],
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


def test_an_offset_alone_is_refused_where_there_are_several_partitions() -> None:
    with pytest.raises(BadSettings, match="0:120,1:120"):
        TopicRange.of_options("t", "120", None, 6)
    with pytest.raises(BadSettings, match="yesterday"):
        TopicRange.of_options("t", "yesterday", None, 1)
    with pytest.raises(BadSettings, match="no partition 6; its partitions are 0 to 5"):
        TopicRange.of_options("t", "0:1,6:0", None, 6)
    with pytest.raises(BadSettings, match="names a partition twice"):
        TopicRange.of_options("t", "0:1,0:5", None, 6)
    with pytest.raises(BadSettings, match=r"write 2026-01-31 .* 0:20260131 for the offset"):
        TopicRange.of_options("t", "20260131", None, 1)
    assert TopicRange.of_options("t", "2:120,4:7", None, 6).start == {2: 120, 4: 7}
    with pytest.raises(BadSettings, match="the same ones"):
        TopicRange("t", {0: 1}, {1: 2})
    with pytest.raises(BadSettings, match="0:7,1:4 before 0:6,1:5"):
        TopicRange("t", {0: 6, 1: 5}, {0: 7, 1: 4})
    with pytest.raises(BadSettings, match="--to is before --from"):
        TopicRange("t", WRITTEN, WRITTEN - timedelta(seconds=1))
