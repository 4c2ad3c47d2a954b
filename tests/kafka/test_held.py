"""Who waits for a transaction that hangs says so, and only then: a reader, or a member."""

import logging

import pytest

from stream_icd.core.errors import BadSettings, BrokerUnavailable, OffsetHeld
from stream_icd.kafka.group.held import _GRACE_S, HeldOffsets, HeldRecords
from stream_icd.kafka.port import TopicPartition, TopicSpec
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import create_topics
from tests.kafka.echo import Echo, begun, publish
from tests.testbed.brokers import Broker, wait_until
from tests.testbed.streams import beside

PARTITION = TopicPartition("topic", 3)


class Topic:
    """What a reader tells of one partition; None: nobody answers."""

    end: int | None = 10
    refusal: type[Exception] = BrokerUnavailable
    high_watermark = 10

    def assigned(self) -> set[TopicPartition]:
        return {PARTITION}

    def ends(self, _: set[TopicPartition], timeout_s: float) -> dict[TopicPartition, int]:  # noqa: ARG002
        if self.end is None:
            raise self.refusal
        return {PARTITION: self.end}

    def fetched_end(self, _: TopicPartition) -> int:
        return self.high_watermark


class Watched:
    """Looks at it for some time, every 16 s; a transaction here lasts 15 s, and 45 more."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self.topic, self._now, self._log = Topic(), 0.0, caplog
        self._held = HeldRecords(KafkaSettings(), clock=lambda: self._now)

    def said_within(self, seconds: float) -> list[str]:
        self._log.clear()
        for _ in range(round(seconds / 16)):
            self._now += 16
            self._held.look(self.topic)
        return [record.getMessage() for record in self._log.records]


@pytest.fixture
def watched(caplog: pytest.LogCaptureFixture) -> Watched:
    return Watched(caplog)


def test_it_is_said_once_and_not_before_a_transaction_would_be_over(watched: Watched) -> None:
    for end in range(2, 10):  # a stream that goes on is not held
        watched.topic.end, watched.topic.high_watermark = end, end + 5
        assert watched.said_within(32) == []
    watched.topic.end, watched.topic.high_watermark = 10, 12
    assert watched.said_within(64) == []
    (said,) = watched.said_within(160)
    assert "held back the records from offset 10 in topic[3], 2 of them" in said
    watched.topic.end, watched.topic.high_watermark = 12, 13  # another one
    (said,) = watched.said_within(160)
    assert "offset 12 in topic[3], 1 of them" in said
    watched.topic.end = 13
    assert watched.said_within(600) == []


@pytest.mark.parametrize("refusal", [BrokerUnavailable, BadSettings])  # or it refuses the login
def test_while_the_broker_is_away_no_time_counts(
    watched: Watched, refusal: type[Exception]
) -> None:
    watched.topic.refusal = refusal
    watched.topic.high_watermark = 12
    assert watched.said_within(48) == []
    watched.topic.end = None
    assert watched.said_within(600) == []
    watched.topic.end = 10
    assert watched.said_within(64) == []
    assert len(watched.said_within(32)) == 1


HERE, THERE = TopicPartition("snapshots", 0), TopicPartition("snapshots", 1)


def waiting(monkeypatch: pytest.MonkeyPatch, *steps: tuple[float, object]) -> None:
    """A member that looks for positions at these times: those that are unknown then, or known (a
    set), or None: the broker does not answer."""
    at = [(0.0, None)]
    monkeypatch.setattr(HeldOffsets, "_broker_answers", lambda _: at[0][1] is not None)
    held = HeldOffsets(KafkaSettings(transaction_timeout_s=10), "group", clock=lambda: at[0][0])
    for at[0] in steps:
        partitions = at[0][1]
        if isinstance(partitions, set):
            held.known(partitions)
        else:
            held.unknown(partitions or [HERE])


@pytest.mark.parametrize(
    "steps",
    [
        # Only time in which the broker answers counts.
        [(0.0, [HERE]), (50.0, None), (300.0, None), (301.0, [HERE])],
        # A position that was known meanwhile is waited for anew.
        [(0.0, [HERE]), (1.0, {HERE}), (301.0, [HERE])],
        # Each partition has its own time: that of the second begins when it is missing again.
        [(0.0, [HERE, THERE]), (1.0, {HERE}), (301.0, [HERE]), (302.0, [HERE, THERE])],
    ],
)
def test_a_position_is_waited_for_as_long_as_a_transaction_may_last(
    steps: list[tuple[float, object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    last = 301.0 + 10 + _GRACE_S
    waiting(monkeypatch, *steps, (last, [HERE]))
    with pytest.raises(OffsetHeld, match=r"group group: for 56 s .* snapshots\[0\] .* after 10 s"):
        waiting(monkeypatch, *steps, (last + 1, [HERE, THERE]))


@pytest.mark.kafka
def test_a_subscriber_and_a_worker_say_it_and_go_on_when_it_is_over(
    kafka: Broker,
    topic_name: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("stream_icd.kafka.group.held._LOOK_EVERY_S", 0.1)
    monkeypatch.setattr("stream_icd.kafka.group.held._GRACE_S", 0.0)
    settings = kafka.settings(transaction_timeout_s=1)
    create_topics(settings, [TopicSpec(topic_name), TopicSpec(f"{topic_name}-out")])
    patient = kafka.settings(transaction_timeout_s=600)
    writer = begun(patient, f"{topic_name}-writer", topic_name, b"held")
    publish(settings, topic_name, 1)
    seen: list[Record] = []
    worker = Echo(settings, topic_name, f"{topic_name}-out", topic_name)
    with (
        open_reader(settings, topic_name, limit=1) as records,
        worker,
        beside(lambda _: seen.extend(records)) as errors,
    ):
        wait_until(lambda: caplog.text.count(f"offset 0 in {topic_name}[0], 2 of them") == 2)
        assert (seen, worker.handled) == ([], [])
        writer.abort_transaction()
        wait_until(lambda: worker.committed == 1)
    assert (errors, [record.value for record in seen]) == ([], [b"0"])
    levels = [record.levelno for record in caplog.records if "held back" in record.message]
    assert levels == [logging.WARNING] * 2
    writer.close()
