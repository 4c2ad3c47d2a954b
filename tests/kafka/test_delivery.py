"""Exactly once: whatever fails, readers see each result one time. Which delivery a broker allows,
and how long is tried to deliver. Who waits for a transaction that hangs says so.

What happens to the real detector when it, the broker or the network fails is in tests/faults.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from kafka import KafkaProducer, OffsetAndMetadata
from kafka import TopicPartition as ClientPartition
from kafka.admin import AbortTransactionSpec
from kafka.errors import KafkaTimeoutError

from stream_icd.core.errors import (
    Action,
    BadSettings,
    BrokerUnavailable,
    DeliveryFailed,
    MessageTooLarge,
    NameTaken,
    NotSupported,
    OffsetHeld,
)
from stream_icd.kafka.client.connections import open_admin, open_producer
from stream_icd.kafka.connect import connect, recognise
from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.delivery.delivery import Sink, _ExactlyOnce, open_sink, resolve
from stream_icd.kafka.group.held import _GRACE_S, HeldOffsets, HeldRecords
from stream_icd.kafka.port import IN_MEMORY, KAFKA, TANSU, UNKNOWN, TopicPartition, TopicSpec
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import create_topics, group_members
from stream_icd.kafka.waiting import Clock
from tests.kafka.echo import MakeTopic, Pipe, begun, values
from tests.testbed import streams
from tests.testbed.brokers import Broker, wait_until
from tests.testbed.faults.injected import Publish, publish_by
from tests.testbed.handlers import Calls

pytestmark = pytest.mark.brokers("kafka")
HERE_AND_IN_MEMORY = pytest.mark.brokers("memory", "kafka")


@HERE_AND_IN_MEMORY
def test_a_zombie_is_fenced(broker: Broker, pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that loses its partitions while its transaction is open cannot commit it."""
    pipe.publish(6)
    asleep, awake = threading.Event(), threading.Event()

    def publish_late(publish: Publish, *arguments: Any) -> None:
        if not asleep.is_set():
            asleep.set()
            awake.wait(120)
        publish(*arguments)

    publish_by(publish_late, monkeypatch.setattr)
    # It stops polling, so the group throws it out.
    zombie_settings = broker.steady(max_poll_interval_s=2)
    monkeypatch.setattr("stream_icd.kafka.group.membership._BUSY_POLL_EVERY_S", 6.0)
    with pipe.echo("exactly-once", settings=zombie_settings, max_records=10) as zombie:
        assert asleep.wait(60)
        with pipe.echo("exactly-once") as other:
            wait_until(lambda: other.committed == 6)
            awake.set()
            wait_until(lambda: sorted(pipe.copied()) == list(range(6)))
            time.sleep(1)
    assert zombie.committed == 0
    assert sorted(pipe.copied()) == list(range(6))


def test_a_commit_that_succeeded_without_an_answer_is_not_repeated(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, answered = KafkaProducer.commit_transaction, threading.Event()

    def commit_and_lose_the_answer(producer: object) -> None:
        real(producer)
        if not answered.is_set():
            answered.set()
            raise KafkaTimeoutError("no answer")

    pipe.publish(10)
    with pipe.echo("exactly-once") as echo:
        wait_until(lambda: len(echo.done) >= 1)
        monkeypatch.setattr(KafkaProducer, "commit_transaction", commit_and_lose_the_answer)
        pipe.publish(10, start=10)
        wait_until(lambda: echo.committed == 20)
    assert answered.is_set()
    assert sorted(pipe.copied()) == list(range(20))


def abort_what_is_open(kafka: Broker) -> None:
    """As `kafka-transactions.sh abort`, in each partition of the groups' positions."""
    with open_admin(kafka.settings()) as admin:
        count = len(admin.describe_topics(["__consumer_offsets"])[0]["partitions"])
        partitions = [ClientPartition("__consumer_offsets", number) for number in range(count)]
        for partition, writers in admin.describe_producers(partitions).items():
            for writer in writers.active_producers:
                if writer.current_transaction_start_offset >= 0:
                    held = (partition, writer.producer_id, writer.producer_epoch)
                    epoch = max(0, writer.coordinator_epoch)
                    admin.abort_transaction(AbortTransactionSpec(*held, epoch))


@pytest.fixture
def hanging(kafka: Broker, monkeypatch: pytest.MonkeyPatch) -> Iterator[KafkaProducer]:
    """A producer whose transactions nobody ends; workers wait 3 s for them."""
    monkeypatch.setattr("stream_icd.kafka.group.held._GRACE_S", 1.0)
    monkeypatch.setattr("stream_icd.kafka.group.membership._CHECK_EVERY_S", 0.2)
    settings = kafka.settings(transaction_timeout_s=600)
    producer = open_producer(settings, transactional_id="hanging")
    producer.init_transactions()
    yield producer
    abort_what_is_open(kafka)
    producer.close(timeout=0)


def hold(hanging: KafkaProducer, pipe: Pipe, partitions: int) -> None:
    """Begin to move the group's position in so many partitions of its source, and end nothing."""
    places = [ClientPartition(pipe.source, number) for number in range(partitions)]
    hanging.begin_transaction()
    offsets = dict.fromkeys(places, OffsetAndMetadata(0, "", -1))
    hanging.send_offsets_to_transaction(offsets, pipe.group)


def test_a_position_that_a_transaction_holds_is_waited_for_and_named_if_that_never_ends(
    kafka: Broker, pipe: Pipe, hanging: KafkaProducer
) -> None:
    pipe.publish(10)
    hold(hanging, pipe, partitions=3)
    with pipe.echo("exactly-once") as waiting:
        time.sleep(1.5)
        assert not waiting.handled
        hanging.commit_transaction()
        wait_until(lambda: waiting.committed == 10)
    pipe.publish(10, start=10)
    hold(hanging, pipe, partitions=1)
    impatient = kafka.steady(transaction_timeout_s=2)
    with pipe.echo("exactly-once", settings=impatient) as worker:
        worker.failure(OffsetHeld, rf"{pipe.group}: for \d+ s .* find-hanging")
    assert all(record.partition != 0 for record in worker.handled)
    abort_what_is_open(kafka)
    with pipe.echo("exactly-once") as later:
        wait_until(lambda: worker.committed + later.committed == 10)
    assert sorted(pipe.copied()) == list(range(20))


def test_a_held_position_is_named_while_other_partitions_keep_a_worker_busy(
    pipe: Pipe, hanging: KafkaProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe.publish(1000)  # minutes of work
    worker, leaver = (pipe.echo("exactly-once", seconds=0.3, max_records=1) for _ in range(2))

    # Its patience is as long as four commits: if nothing kept it busy meanwhile, it had no end.
    def by_commits(settings: KafkaSettings, group: str, _: object) -> HeldOffsets:
        return HeldOffsets(settings, group, lambda: 10.0 * worker.committed)

    monkeypatch.setattr("stream_icd.kafka.group.membership.HeldOffsets", by_commits)
    with worker:
        with leaver:
            wait_until(lambda: worker.committed > 0 and leaver.committed > 0)
            hold(hanging, pipe, partitions=3)
        worker.failure(OffsetHeld)


def test_a_position_held_while_a_batch_is_in_hand_is_named_too(
    kafka: Broker, pipe: Pipe, hanging: KafkaProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = KafkaProducer.commit_transaction

    def commit_and_hold(producer: KafkaProducer) -> None:
        commit(producer)
        hold(hanging, pipe, partitions=3)
        raise KafkaTimeoutError("no answer")

    monkeypatch.setattr(KafkaProducer, "commit_transaction", commit_and_hold)
    settings = kafka.steady(transaction_timeout_s=2)
    pipe.publish(1)
    with pipe.echo("exactly-once", settings=settings) as worker:
        worker.failure(OffsetHeld)
    assert pipe.copied() == [0]


@HERE_AND_IN_MEMORY
def test_a_batch_that_lost_one_partition_is_done_again_for_the_others(
    pipe: Pipe,
) -> None:
    """And so is what was begun after it."""
    lost = threading.Event()
    pipe.publish(30)

    def has_all() -> bool:
        return len({record.partition for record in slow.handled}) == 3

    def wait_for_the_loss() -> None:
        if has_all():
            lost.wait(60)

    slow = pipe.echo("exactly-once", max_records=25, ahead=True, meanwhile=wait_for_the_loss)
    with slow:
        wait_until(has_all)
        with pipe.echo("exactly-once") as other:
            count = pipe.publish_until(lambda: other.committed, start=30)
            lost.set()
            wait_until(lambda: slow.committed + other.committed >= count)
    assert sorted(pipe.copied()) == list(range(count))


@HERE_AND_IN_MEMORY
@pytest.mark.parametrize("took_too_long", [False, True])
def test_of_two_workers_with_one_name_the_first_ends_and_names_the_setting(
    broker: Broker, pipe: Pipe, took_too_long: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it stood still so long that the broker may have ended its transaction itself."""
    if took_too_long:
        monkeypatch.setattr("stream_icd.kafka.delivery.delivery._CERTAIN", 0.0)
    settings = broker.steady(instance_id="detector-1")
    pipe.publish(6)
    with pipe.echo("exactly-once", settings=settings) as first:
        wait_until(lambda: first.committed == 6)
        with pipe.echo("exactly-once", settings=settings) as second:
            wait_until(lambda: len(group_members(settings, pipe.group)) == 2)
            count = pipe.publish_until(lambda: first.ended, start=6)
            wait_until(lambda: first.committed + second.committed == count)
        error = first.failure(NameTaken, "STREAM_ICD_INSTANCE_ID=detector-1")
    assert error.action is Action.STOP
    assert sorted(pipe.copied()) == list(range(count))


def test_a_worker_with_a_name_goes_on_after_it_was_fenced_for_taking_too_long(
    kafka: Broker, pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = kafka.steady(instance_id="detector-1", transaction_timeout_s=1.0)
    pipe.publish(3)
    real, late, name = _ExactlyOnce._in_time, threading.Event(), f"{pipe.group}-detector-1"

    def is_fenced() -> bool:
        with open_admin(kafka.settings()) as admin:
            return bool(admin.describe_transactions([name])[name].state == "CompleteAbort")

    def once_too_late(sink: _ExactlyOnce, step: str, call: Any) -> None:
        if step == "commit" and not late.is_set():
            late.set()
            wait_until(is_fenced)
        real(sink, step, call)

    monkeypatch.setattr(_ExactlyOnce, "_in_time", once_too_late)
    with pipe.echo("exactly-once", settings=settings) as echo:
        wait_until(lambda: echo.committed == 3)
    assert sorted(pipe.copied()) == [0, 1, 2]


@pytest.mark.parametrize("refused", [MessageTooLarge, BadSettings])
def test_a_result_that_its_topic_does_not_take_leaves_no_open_transaction(
    kafka: Broker, pipe: Pipe, refused: type[Exception]
) -> None:
    settings = kafka.settings(transaction_timeout_s=600, max_message_bytes=10_000)
    pipe.publish(1)
    compacted = TopicSpec(f"{pipe.source}.dlq", cleanup_policy="compact")
    create_topics(settings, [compacted])
    large, keyless = (pipe.target, b"x" * 20_000), (compacted.name, b"without a key")

    def spoil(_: object) -> list[OutgoingRecord]:
        topic, value = large if refused is MessageTooLarge else keyless
        return [OutgoingRecord(pipe.target, b"-1"), OutgoingRecord(topic, value)]

    with pytest.raises(refused):
        run_consumer(settings, pipe.source, pipe.group, Calls(spoil), threading.Event())
    with Publisher(settings) as publisher:
        publisher.send(OutgoingRecord(pipe.target, b"7"))
    wait_until(lambda: pipe.copied("end") == [7])


def test_who_reads_until_all_is_settled_waits_for_open_transactions(
    kafka: Broker, pipe: Pipe
) -> None:
    settings, target = kafka.steady(transaction_timeout_s=600), pipe.target
    writer = begun(settings, f"{pipe.group}-writer", target, b"0")
    with Publisher(settings) as publisher:
        publisher.send(OutgoingRecord(target, b"1"))
    assert values(settings, target, until="end") == []  # nobody knows yet what comes first
    with open_reader(settings, target, until="settled") as records:
        writer.commit_transaction()
        assert [record.value for record in records] == [b"0", b"1"]
    writer.begin_transaction()
    writer.send(target, b"2").get(60)
    with open_reader(settings, target, until="settled") as records:
        writer.abort_transaction()
        assert [record.value for record in records] == [b"0", b"1"]
    writer.close()


def test_results_that_only_together_are_too_large_for_their_topic_are_seen_once(
    kafka: Broker, narrow: Pipe, make_topic: MakeTopic
) -> None:
    small = replace(narrow, target=make_topic(max_message_bytes=20_000))
    records = [OutgoingRecord(small.source, b"%5000d" % number) for number in range(40)]
    streams.publish(kafka, records)
    with small.echo("exactly-once", max_records=20) as echo:
        wait_until(lambda: echo.committed == 40)
    assert small.copied() == list(range(40))


def test_a_timeout_that_the_broker_does_not_allow_is_named_with_its_setting(kafka: Broker) -> None:
    """By default it allows 900 s, as our settings do."""
    settings = kafka.settings().model_copy(update={"transaction_timeout_s": 901.0})
    with pytest.raises(BadSettings, match="change STREAM_ICD_TRANSACTION_TIMEOUT_S to at most"):
        open_sink(settings, "exactly-once", "group", "instance")


# Which delivery a broker allows.

EXPECTED = {"memory": IN_MEMORY, "embedded": TANSU, "kafka": KAFKA}


@pytest.mark.brokers(*EXPECTED)
def test_each_broker_is_recognised_and_gets_no_topic(broker: Broker) -> None:
    with connect(broker.settings()).admin() as admin:
        before = admin.topic_names()
        assert recognise(broker.settings()) == EXPECTED[broker.name]
        best = "at-least-once" if broker.name == "embedded" else "exactly-once"
        assert resolve(broker.settings(), "auto", EXPECTED[broker.name]) == best
        made = set(admin.topic_names()) - set(before)
    assert all(name.startswith("__") for name in made)  # which Kafka makes for itself


def test_exactly_once_is_refused_where_aborted_records_are_shown_and_a_risk_where_they_may_be(
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = KafkaSettings()
    with pytest.raises(NotSupported, match="at-least-once, or Apache Kafka"):
        resolve(settings, "exactly-once", TANSU)
    with caplog.at_level(logging.WARNING):
        assert resolve(settings, "auto", UNKNOWN) == "at-least-once"
        assert resolve(settings, "exactly-once", UNKNOWN) == "exactly-once"
    first, second = caplog.messages
    assert first.startswith("delivery is at-least-once: the broker at")
    assert second.startswith("exactly-once only if the broker at")


def test_a_group_of_the_embedded_broker_is_joined_soon_unless_somebody_has_set_the_session() -> (
    None
):
    unset, chosen = KafkaSettings(), KafkaSettings(session_timeout_s=9)
    assert unset.joining_quickly().session_timeout_s == 2.0
    assert chosen.joining_quickly() == chosen


# How often and how long a consumer tries to deliver; no test waits for it.

IN_MEMORY = pytest.mark.brokers("memory")
Copy = Callable[..., list[float]]


@pytest.fixture(params=["at-least-once", "exactly-once"])
def copy(request: pytest.FixtureRequest, narrow: Pipe, monkeypatch: pytest.MonkeyPatch) -> Copy:
    """Copy three records, while the first attempts to publish them raise `errors`; how long the
    consumer slept, each time."""
    narrow.publish(3)

    def run(*errors: Exception, give_up_after_s: float | None = None) -> list[float]:
        pending, slept = list(errors), list[float]()

        def publish_late(publish: Publish, *arguments: Any) -> None:
            if pending:
                raise pending.pop()
            publish(*arguments)

        if errors:
            publish_by(publish_late, monkeypatch.setattr)
        clock = Clock(sleep=slept.append)
        with narrow.echo(request.param, give_up_after_s=give_up_after_s, clock=clock) as echo:
            wait_until(lambda: echo.committed == 3 or echo.ended)
        assert narrow.copied() == [0, 1, 2]
        return slept

    return run


@IN_MEMORY
@pytest.mark.parametrize(
    ("error", "times", "slept"),
    [
        (BrokerUnavailable("away"), 20, [1.0] * 20),  # however long
        (DeliveryFailed("refused"), 4, []),  # delivered at the fifth attempt
        (DeliveryFailed("refused"), 7, [1.0] * 3),  # tried again with pauses
    ],
)
def test_what_cannot_be_delivered_is_tried_again(
    copy: Copy, error: Exception, times: int, slept: list[float]
) -> None:
    assert copy(*[error] * times) == slept


@IN_MEMORY
def test_a_broker_that_is_slow_when_a_worker_starts_is_waited_for(
    copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = [BrokerUnavailable("no answer within 10000 ms")] * 2

    def opened(*arguments: Any) -> Sink:
        if late:
            raise late.pop()
        return open_sink(*arguments)

    monkeypatch.setattr("stream_icd.kafka.consumer.open_sink", opened)
    assert copy() == [1.0] * 2


@IN_MEMORY
@pytest.mark.parametrize("error", [BrokerUnavailable("away"), DeliveryFailed("refused")])
def test_a_worker_gives_up_when_it_was_told_to(copy: Copy, error: Exception) -> None:
    with pytest.raises(type(error), match=str(error)):
        copy(*[error] * 7, give_up_after_s=0.0)


# Who waits for a transaction that hangs says so, and only then: a reader, or a member.

PARTITION = TopicPartition("topic", 3)


class Watched:
    """A reader of one partition, looked at every 16 s; a transaction lasts 15 s, and 45 more."""

    end: int | None = 10  # None: nobody answers
    refusal: type[Exception] = BrokerUnavailable
    high_watermark = 10

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._now, self._log = 0.0, caplog
        self._held = HeldRecords(KafkaSettings(), clock=lambda: self._now)

    def assigned(self) -> set[TopicPartition]:
        return {PARTITION}

    def ends(self, *_: object) -> dict[TopicPartition, int]:
        if self.end is None:
            raise self.refusal
        return {PARTITION: self.end}

    def fetched_end(self, _: TopicPartition) -> int:
        return self.high_watermark

    def said_within(self, seconds: float) -> list[str]:
        self._log.clear()
        for _ in range(round(seconds / 16)):
            self._now += 16
            self._held.look(self)
        return [record.getMessage() for record in self._log.records]


@pytest.fixture
def watched(caplog: pytest.LogCaptureFixture) -> Watched:
    return Watched(caplog)


def test_it_is_said_once_and_not_before_a_transaction_would_be_over(watched: Watched) -> None:
    for end in range(2, 10):  # a stream that goes on is not held
        watched.end, watched.high_watermark = end, end + 5
        assert watched.said_within(32) == []
    watched.end, watched.high_watermark = 10, 12
    assert watched.said_within(64) == []
    (said,) = watched.said_within(160)
    assert "held back the records from offset 10 in topic[3], 2 of them" in said
    watched.end, watched.high_watermark = 12, 13  # another one
    (said,) = watched.said_within(160)
    assert "offset 12 in topic[3], 1 of them" in said
    watched.end = 13
    assert watched.said_within(600) == []


@pytest.mark.parametrize("refusal", [BrokerUnavailable, BadSettings])  # or it refuses the login
def test_while_the_broker_is_away_no_time_counts(
    watched: Watched, refusal: type[Exception]
) -> None:
    watched.refusal = refusal
    watched.high_watermark = 12
    assert watched.said_within(48) == []
    watched.end = None
    assert watched.said_within(600) == []
    watched.end = 10
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


def test_a_subscriber_and_a_worker_say_it_and_go_on_when_it_is_over(
    kafka: Broker, narrow: Pipe, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stream_icd.kafka.group.held._LOOK_EVERY_S", 0.1)
    monkeypatch.setattr("stream_icd.kafka.group.held._GRACE_S", 0.0)
    settings, topic = kafka.settings(transaction_timeout_s=1), narrow.source
    patient = kafka.settings(transaction_timeout_s=600)
    writer = begun(patient, f"{narrow.group}-writer", topic, b"held")
    narrow.publish(1)
    seen: list[Record] = []
    with (
        open_reader(settings, topic, limit=1) as records,
        narrow.echo(settings=settings) as worker,
        streams.beside(lambda _: seen.extend(records)) as errors,
    ):
        wait_until(lambda: caplog.text.count(f"offset 0 in {topic}[0], 2 of them") == 2)
        assert (seen, worker.handled) == ([], [])
        writer.abort_transaction()
        wait_until(lambda: worker.committed == 1)
    assert (errors, [record.value for record in seen]) == ([], [b"0"])
    levels = [record.levelno for record in caplog.records if "held back" in record.message]
    assert levels == [logging.WARNING] * 2
    writer.close()
