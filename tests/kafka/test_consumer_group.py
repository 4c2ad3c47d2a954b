"""Consuming in a group: nothing lost, order kept, stopped in time, and seen by watchers."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import pytest
from kafka import KafkaConsumer

from stream_icd.core.errors import BadSnapshot, OffsetGone, TopicMissing
from stream_icd.kafka import waiting
from stream_icd.kafka.connect import connect
from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.delivery.delivery import open_sink
from stream_icd.kafka.delivery.handler import Watcher
from stream_icd.kafka.group import membership
from stream_icd.kafka.port import Partitions, Polled, TopicPartition
from stream_icd.kafka.record import OutgoingRecord, Record
from tests.kafka.echo import MakeTopic, Pipe, publish, remove_before
from tests.testbed import streams
from tests.testbed.brokers import Broker, wait_until
from tests.testbed.faults.injected import Publish, publish_by
from tests.testbed.handlers import Calls
from tests.testbed.streams import beside

pytestmark = pytest.mark.brokers("memory")
EVERYWHERE = pytest.mark.brokers("memory", "embedded", "kafka")


def in_order_by_key(records: list[Record]) -> bool:
    by_key: dict[bytes | None, list[int]] = defaultdict(list)
    for record in records:
        by_key[record.key].append(record.offset)
    return all(offsets == sorted(set(offsets)) for offsets in by_key.values())


@EVERYWHERE
def test_everything_is_handled_in_order_published_and_committed(broker: Broker, pipe: Pipe) -> None:
    pipe.publish(100)
    with pipe.echo() as echo:
        wait_until(lambda: echo.committed == 100)
    assert in_order_by_key(echo.handled)
    assert max(len(batch.records) for batch in echo.done) <= 4
    assert sum(len(batch.outgoing) for batch in echo.done) == 100
    assert sorted(pipe.copied()) == list(range(100))
    with pipe.echo(settings=broker.settings()) as later:  # the group goes on where it was
        pipe.publish(10, start=100)
        wait_until(lambda: later.committed == 10)
        later.join(20)  # and ends soon, since it is idle
    assert sorted(pipe.copied()) == list(range(110))


@EVERYWHERE
def test_a_worker_that_ends_between_publishing_and_committing_loses_nothing(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe.publish(20)

    def publish_and_fail(publish: Publish, *arguments: Any) -> None:
        publish(*arguments)
        raise RuntimeError("as if it was killed")

    with monkeypatch.context() as first:
        publish_by(publish_and_fail, first.setattr)
        with pipe.echo() as echo:
            echo.failure(RuntimeError)
    twice = len(pipe.copied())
    assert twice > 0
    with pipe.echo() as next_worker:
        wait_until(lambda: next_worker.committed == 20)
    seen = pipe.copied()
    assert (set(seen), len(seen)) == (set(range(20)), 20 + twice)


def test_the_next_batch_is_worked_on_while_one_is_published(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    handled_before_published: list[int] = []
    pipe.publish(30)
    echo = pipe.echo(ahead=True)

    def slow(publish: Publish, *arguments: Any) -> None:
        time.sleep(0.3)
        handled_before_published.append(len(echo.handled) - echo.committed)
        publish(*arguments)

    publish_by(slow, monkeypatch.setattr)
    with echo:
        wait_until(lambda: echo.committed == 30)
    assert in_order_by_key(echo.handled)
    assert max(handled_before_published) > 4  # two batches, of four at most
    assert sorted(pipe.copied()) == list(range(30))


def test_what_was_begun_after_a_batch_that_is_lost_waits_for_it(
    narrow: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    holds, is_later = membership._Assignments.holds, iter([False])

    def lost_at_first(*of_batch: Any) -> bool:
        return next(is_later, True) and holds(*of_batch)

    monkeypatch.setattr(membership._Assignments, "holds", lost_at_first)
    narrow.publish(12)
    with narrow.echo(ahead=True) as echo:
        wait_until(lambda: echo.committed == 12)
    assert narrow.copied() == list(range(12))
    assert len(echo.handled) == 12 + 4 + 4  # the lost batch, and the one begun after it


def test_an_error_of_the_work_is_raised_and_what_waits_for_its_batch_is_not_worked_on(
    broker: Broker, pipe: Pipe
) -> None:
    handled: list[int] = []
    pipe.publish(12)

    def fail(records: Sequence[Record]) -> list[OutgoingRecord]:
        time.sleep(0.5)  # the next batch comes meanwhile
        handled.append(len(records))
        raise BadSnapshot("no such column")

    handler, stop = Calls(fail, ahead=True), threading.Event()
    with pytest.raises(BadSnapshot, match="no such column"):
        run_consumer(broker.settings(), pipe.source, pipe.group, handler, stop, max_records=4)
    assert handled == [4]
    with pipe.echo() as echo:  # nothing of its batch was committed
        wait_until(lambda: echo.committed == 12)


def test_a_consumer_handles_nothing_before_it_is_ready_and_ends_if_it_cannot_be(
    broker: Broker, pipe: Pipe
) -> None:
    settings, events, stop = broker.settings(), list[str](), threading.Event()
    pipe.publish(1)

    def fail() -> None:
        raise BadSnapshot("no such model")

    def ready() -> None:
        time.sleep(0.5)  # longer than joining takes
        events.append("ready")

    def handle(_: Sequence[Record]) -> list[OutgoingRecord]:
        events.append("handled")
        stop.set()
        return []

    with pytest.raises(BadSnapshot, match="no such model"):
        run_consumer(settings, pipe.source, pipe.group, Calls(handle, ready=fail), stop)
    with pytest.raises(TopicMissing, match="nowhere"):
        run_consumer(settings, "nowhere", pipe.group, Calls(handle, ready=ready), stop)
    run_consumer(settings, pipe.source, pipe.group, Calls(handle, ready=ready), stop)
    assert events[-1] == "handled"
    assert set(events[:-1]) == {"ready"}


def test_a_stop_finishes_what_is_in_hand(pipe: Pipe) -> None:
    with pipe.echo(seconds=1) as echo:
        pipe.publish(1)
        wait_until(lambda: len(echo.handled) == 1)
        echo.join(60)
    assert echo.committed == 1


@EVERYWHERE
def test_a_stop_gives_back_what_takes_too_long(broker: Broker, pipe: Pipe) -> None:
    settings = broker.settings(shutdown_timeout_s=1)
    pipe.publish(1)
    with pipe.echo(settings=settings, seconds=600) as stuck:
        wait_until(lambda: len(stuck.handled) == 1)
        stuck.join(60)  # and not the 600 that it works
    assert pipe.copied() == []
    with pipe.echo() as other:
        wait_until(lambda: other.committed == 1)
    assert pipe.copied() == [0]


@pytest.mark.brokers("kafka")
def test_retention_may_remove_the_mark_of_a_transaction_behind_the_last_record(
    broker: Broker, pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And records that come later to the empty partition are not passed over without a word."""
    monkeypatch.setattr(membership, "_CHECK_EVERY_S", 0.1)
    with closing(open_sink(broker.steady(), "exactly-once", pipe.group, "writer")) as sink:
        sink.publish([OutgoingRecord(pipe.source, b"0", partition=0)], {}, None)
    passed = {TopicPartition(pipe.source, number): at for number, at in enumerate((2, 0, 0))}
    with pipe.echo() as echo, connect(broker.settings()).admin() as admin:
        wait_until(lambda: echo.committed == 1)
        wait_until(lambda: admin.group_offsets(pipe.group) == passed, timeout_s=20)
    remove_before(broker, pipe.source, 2)
    pipe.publish(1, start=1)
    with pipe.echo() as later:
        wait_until(lambda: later.committed == 1 or later.ended)


@pytest.mark.brokers("kafka")
def test_a_beginning_that_retention_removes_before_a_new_group_reads_it_is_what_is_left(
    broker: Broker, make_topic: MakeTopic, caplog: pytest.LogCaptureFixture
) -> None:
    settings, topic = broker.steady(), make_topic()
    first = TopicPartition(topic, 0)
    publish(settings, topic, 20)
    with closing(connect(settings).member(topic, 100, threading.Event())) as member:

        class NotFetched:
            def assigned(self, partitions: Partitions) -> None:
                for partition in partitions:
                    member.pause(partition)

            def revoked(self, partitions: Partitions) -> None: ...

        member.subscribe(topic, NotFetched())
        wait_until(lambda: not member.poll(0.1) and member.position(first) == 0)
        remove_before(broker, topic, 15)
        member.resume(first)
        polled: Polled = {}
        wait_until(lambda: polled.update(member.poll(0.1)) or polled)
        assert [record.offset for record in polled[first]] == [15, 16, 17, 18, 19]
        assert f"retention removed the beginning of {first}" in caplog.text
        # It is said of the beginning only: what follows it is never passed over.
        publish(settings, topic, 10, start=20)
        member.seek(first, 15)
        remove_before(broker, topic, 25)
        with pytest.raises(OffsetGone):
            wait_until(lambda: member.poll(0.1))


@pytest.mark.brokers("kafka")
def test_a_leaver_leaves_the_group_without_waiting_for_its_session_to_end(
    broker: Broker, narrow: Pipe
) -> None:
    for number in range(2):
        with narrow.echo(settings=broker.settings(session_timeout_s=200)) as echo:
            narrow.publish(1, start=number)
            wait_until(lambda echo=echo: echo.committed == 1)


@EVERYWHERE
def test_a_topic_that_is_deleted_meanwhile_is_named(
    broker: Broker, pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(membership, "_CHECK_EVERY_S", 0.5)
    pipe.publish(3)
    with pipe.echo() as echo, connect(broker.settings()).admin() as admin:
        wait_until(lambda: echo.committed == 3)
        admin.delete_topic(pipe.source)
        echo.failure(TopicMissing, pipe.source)


# Records are published together while that is fast: soon if they are heavy, cheaply if not.


def test_who_says_nothing_of_the_time_of_a_record_gets_full_batches(
    narrow: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stream_icd.kafka.consumer._LONG_S", 0.01)
    narrow.publish(12)
    with narrow.echo(seconds=0.05) as echo:  # as long as one file for all of them may take
        wait_until(lambda: echo.committed == 12)
    assert [len(batch.records) for batch in echo.done] == [4, 4, 4]


@pytest.mark.parametrize("ahead", [False, True])
def test_no_batch_takes_long_where_each_record_takes_its_time(
    broker: Broker, make_topic: MakeTopic, ahead: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stream_icd.kafka.consumer._LONG_S", 0.2)
    source, seconds, batches = make_topic(), [0.05], list[int]()

    def handle(records: Sequence[Record]) -> list[OutgoingRecord]:
        time.sleep(seconds[0] * len(records))
        batches.append(len(records))
        return []

    handler = Calls(handle, ahead=ahead, at_once=1)
    publish(broker.settings(), source, 30)
    with beside(partial(run_consumer, broker.steady(), source, source, handler)):
        wait_until(lambda: sum(batches) == 30)
        assert max(batches) == 2  # twice as many would take just as long as they may
        seconds[0] = 0.15
        publish(broker.settings(), source, 8)
        wait_until(lambda: sum(batches) == 38)
        assert batches[-2:] == [1, 1]  # a record that takes long is a batch of its own
        seconds[0] = 0.0
        publish(broker.settings(), source, 200)
        wait_until(lambda: sum(batches) == 238)
        assert max(batches) == 16


# Whoever watches a consumer sees where it stands: in its group, behind its partitions.


class Notes(Watcher):
    """Records its calls; keeps the consumer from polling for 3 s each time that `sleepy` is set."""

    def __init__(self) -> None:
        self.generations: list[int] = []
        self.lags: list[dict[int, int]] = [{}]
        self.polls = 0
        self.sleepy = threading.Event()

    @property
    def lag(self) -> dict[int, int]:
        return self.lags[-1]

    def polled(self, generation: int | None, _silence_s: float) -> None:
        if self.sleepy.is_set():
            self.sleepy.clear()
            time.sleep(3)
        self.polls += 1
        if generation is not None and generation not in self.generations:
            self.generations.append(generation)

    def lagged(self, lag: Mapping[int, int]) -> None:
        self.lags.append(dict(lag))


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> Notes:
    """Lag is counted, and the broker asked for it, more often than in production."""
    monkeypatch.setattr(membership, "_COUNT_EVERY_S", 0.05)
    monkeypatch.setattr(membership, "_ASK_AFTER_S", 0.2)
    return Notes()


def to_partition(pipe: Pipe, partition: int, count: int) -> None:
    records = [OutgoingRecord(pipe.source, b"", partition=partition)] * count
    streams.publish(pipe.broker, records)


@EVERYWHERE
def test_lag_is_what_is_not_committed_and_ends_at_zero(pipe: Pipe, notes: Notes) -> None:
    for partition, count in enumerate((1, 12, 0)):
        to_partition(pipe, partition, count)

    def looked_at() -> None:
        before = len(notes.lags)
        wait_until(lambda: len(notes.lags) > before)

    with pipe.echo(watcher=notes, meanwhile=looked_at) as echo:
        wait_until(lambda: echo.committed == 13 and notes.lag == {0: 0, 1: 0, 2: 0})
    lags = [lag[1] for lag in notes.lags if 1 in lag]
    assert lags == sorted(lags, reverse=True)
    assert (lags[0], lags[-1]) == (12, 0)
    assert len(set(lags)) >= 4  # batches are of four records at most
    assert all(lag.get(2, 0) == 0 for lag in notes.lags)


@EVERYWHERE
def test_what_comes_while_work_is_in_hand_is_seen(broker: Broker, pipe: Pipe, notes: Notes) -> None:
    to_partition(pipe, 0, 2)
    settings = broker.steady(shutdown_timeout_s=0.5)
    with pipe.echo(settings=settings, seconds=600, watcher=notes):
        wait_until(lambda: notes.lag.get(0) == 2)
        for _ in range(3):  # the embedded broker tells of all batches but the last
            to_partition(pipe, 0, 3)
        polls = notes.polls
        wait_until(lambda: notes.lag[0] >= 8)
        wait_until(lambda: notes.polls > polls)


@EVERYWHERE
def test_each_rebalance_is_a_generation(broker: Broker, pipe: Pipe, notes: Notes) -> None:
    other = Notes()
    pipe.publish(9)
    with pipe.echo(settings=broker.settings(), watcher=notes) as one:
        wait_until(lambda: one.committed == 9)
        before = len(notes.generations)
        assert before >= 1
        with pipe.echo(settings=broker.settings(), watcher=other):
            wait_until(lambda: notes.lag.keys() | other.lag.keys() == {0, 1, 2} and other.lag)
            wait_until(lambda: len(notes.generations) > before)
            wait_until(lambda: not notes.lag.keys() & other.lag.keys())


@EVERYWHERE
def test_who_lost_its_place_in_the_group_knows_its_lag_again(
    broker: Broker, pipe: Pipe, notes: Notes
) -> None:
    """Of empty partitions, too: of those that did not change Kafka says nothing once more."""
    to_partition(pipe, 0, 3)
    with pipe.echo(settings=broker.steady(max_poll_interval_s=1), watcher=notes):
        wait_until(lambda: notes.lag == {0: 0, 1: 0, 2: 0})
        before = len(notes.generations)
        notes.sleepy.set()
        wait_until(lambda: len(notes.generations) > before)
        notes.lags.append({})
        wait_until(lambda: notes.lag == {0: 0, 1: 0, 2: 0})


@pytest.mark.brokers("embedded", "kafka")  # the in-memory one does nothing by itself
def test_an_idle_member_does_little_and_works_at_once_on_what_comes(
    broker: Broker, pipe: Pipe, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "_IDLE_AFTER_S", 0.5)
    rounds, one_round = [0], KafkaConsumer._poll_once

    def counted(self: Any, *arguments: Any, **named: Any) -> Any:
        rounds[0] += 1
        return one_round(self, *arguments, **named)

    monkeypatch.setattr(KafkaConsumer, "_poll_once", counted)
    with pipe.echo(settings=broker.settings(), watcher=notes) as echo:
        wait_until(lambda: len(notes.lag) == 3)
        time.sleep(3)  # a while without records, and the end of the last short poll
        before, rounds[0] = notes.polls, 0
        time.sleep(4)
        assert notes.polls - before <= 4  # one every two seconds; it was five a second
        assert rounds[0] <= 5  # a poll that waits does not begin anew, or only for an answer
        # The embedded broker looks for new records only two or three times while a fetch waits.
        monkeypatch.setattr(waiting, "IDLE_S", 6.0 if broker.name == "embedded" else 60.0)
        wait_until(lambda: notes.polls > before + 2)  # the next poll waits that long
        pipe.publish(3)
        wait_until(lambda: echo.committed == 3, timeout_s=20)
