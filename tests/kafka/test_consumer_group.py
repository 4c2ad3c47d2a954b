"""Consuming in a group: nothing lost, order kept, long work tolerated, stopped in time."""

import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import pytest

from stream_icd.core.errors import BadSnapshot, BrokerError, OffsetGone, TopicMissing
from stream_icd.kafka.connect import connect
from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.delivery.delivery import open_sink
from stream_icd.kafka.group import membership
from stream_icd.kafka.port import Partitions, Polled, TopicPartition, TopicSpec
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.topics import create_topics, skip_what_is_gone
from tests.kafka.echo import (
    Echo,
    MakeTopic,
    Pipe,
    killed_before_committing,
    publish,
    publish_until,
    values,
)
from tests.kafka.test_reader import remove_before
from tests.testbed.brokers import Broker, wait_until
from tests.testbed.faults.crash_points import Publish, publish_by
from tests.testbed.handlers import Calls

pytestmark = pytest.mark.brokers("memory")
EVERYWHERE = pytest.mark.brokers("memory", "embedded", "kafka")


def in_order_by_key(records: list[Record]) -> bool:
    by_key: dict[bytes | None, list[int]] = defaultdict(list)
    for record in records:
        by_key[record.key].append(record.offset)
    return all(offsets == sorted(set(offsets)) for offsets in by_key.values())


@EVERYWHERE
def test_everything_is_handled_in_order_published_and_committed(broker: Broker, pipe: Pipe) -> None:
    settings = broker.steady()
    publish(settings, pipe[0], 100)
    with Echo(settings, *pipe) as echo:
        wait_until(lambda: echo.committed == 100)
    assert in_order_by_key(echo.handled)
    assert max(len(batch.records) for batch in echo.done) <= 4
    assert sum(len(batch.outgoing) for batch in echo.done) == 100
    assert sorted(values(settings, pipe[1])) == list(range(100))
    with Echo(settings, *pipe) as later:  # the group goes on where it was
        publish(settings, pipe[0], 10, start=100)
        wait_until(lambda: later.committed == 10)
    assert sorted(values(settings, pipe[1])) == list(range(110))


@pytest.mark.brokers("embedded", "kafka")  # the in-memory one has no sessions
def test_work_longer_than_session_and_poll_interval_keeps_its_partitions(
    broker: Broker, pipe: Pipe
) -> None:
    settings = broker.steady(session_timeout_s=6, max_poll_interval_s=6)
    slow = Echo(settings, *pipe, seconds=settings.session_timeout_s + 1, max_records=100)
    publish(settings, pipe[0], 5, keys=1)
    with slow:
        wait_until(lambda: slow.committed == 5)
    assert len(slow.handled) == 5  # nobody handled anything twice


@pytest.mark.brokers("embedded", "kafka")
def test_a_worker_killed_between_publishing_and_committing_loses_nothing(
    broker: Broker, pipe: Pipe
) -> None:
    settings = broker.settings()
    publish(settings, pipe[0], 20)
    assert killed_before_committing(settings, pipe) == -9
    published_twice = len(values(settings, pipe[1]))
    assert published_twice > 0
    with Echo(broker.steady(), *pipe) as next_worker:
        wait_until(lambda: next_worker.committed == 20)
    seen = values(settings, pipe[1])
    assert set(seen) == set(range(20))
    assert len(seen) == 20 + published_twice


@pytest.mark.brokers("memory", "embedded")
def test_two_workers_share_and_a_leaver_hands_over(broker: Broker, pipe: Pipe) -> None:
    settings = broker.settings()
    with Echo(settings, *pipe, seconds=0.05, ahead=True) as one:
        publish(settings, pipe[0], 60)
        wait_until(lambda: one.committed >= 4)
        with Echo(settings, *pipe, seconds=0.05, ahead=True) as other:
            count = publish_until(lambda: other.handled, settings, pipe[0], start=60)
        publish(settings, pipe[0], 60, start=count)
        wait_until(lambda: set(values(settings, pipe[1])) == set(range(count + 60)))


@EVERYWHERE
def test_a_stop_ends_an_idle_consumer_at_once(broker: Broker, pipe: Pipe) -> None:
    with Echo(broker.settings(), *pipe) as echo:
        publish(broker.settings(), pipe[0], 1)
        wait_until(lambda: echo.committed == 1)
        echo.join(20)


def test_the_next_batch_is_worked_on_while_one_is_published(
    broker: Broker, pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    handled_before_published: list[int] = []
    publish(broker.settings(), pipe[0], 30)
    echo = Echo(broker.steady(), *pipe, ahead=True)

    def slow(publish: Publish, *arguments: Any) -> None:
        time.sleep(0.3)
        handled_before_published.append(len(echo.handled) - echo.committed)
        publish(*arguments)

    publish_by(slow, monkeypatch.setattr)
    with echo:
        wait_until(lambda: echo.committed == 30)
    assert in_order_by_key(echo.handled)
    assert max(handled_before_published) > 4  # two batches, of four at most
    assert sorted(values(broker.settings(), pipe[1])) == list(range(30))


def test_what_was_begun_after_a_batch_that_is_lost_waits_for_it(
    broker: Broker, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = make_topic(), make_topic()
    real, asked = membership._Assignments.holds, threading.Event()

    def lost_at_first(*of_batch: Any) -> bool:
        known_before = asked.is_set()
        asked.set()
        return known_before and real(*of_batch)

    monkeypatch.setattr(membership._Assignments, "holds", lost_at_first)
    publish(broker.settings(), source, 12)
    with Echo(broker.steady(), source, target, f"group-{source}", ahead=True) as echo:
        wait_until(lambda: echo.committed == 12)
    assert values(broker.settings(), target) == list(range(12))
    assert len(echo.handled) == 12 + 4 + 4  # the lost batch, and the one begun after it


def test_an_error_of_the_work_is_raised_and_what_waits_for_its_batch_is_not_worked_on(
    broker: Broker, pipe: Pipe
) -> None:
    settings, handled = broker.settings(), list[int]()
    publish(settings, pipe[0], 12)

    def fail(records: Sequence[Record]) -> list[OutgoingRecord]:
        time.sleep(0.5)  # the next batch comes meanwhile
        handled.append(len(records))
        raise BadSnapshot("no such column")

    with pytest.raises(BadSnapshot, match="no such column"):
        run_consumer(
            settings, pipe[0], pipe[2], Calls(fail, ahead=True), threading.Event(), max_records=4
        )
    assert handled == [4]
    with Echo(settings, *pipe) as echo:  # nothing of its batch was committed
        wait_until(lambda: echo.committed == 12)


def test_a_consumer_that_takes_long_to_get_ready_handles_nothing_before(
    broker: Broker, pipe: Pipe
) -> None:
    settings, events = broker.settings(), list[str]()
    stop = threading.Event()
    publish(settings, pipe[0], 1)

    def ready() -> None:
        time.sleep(0.5)  # longer than joining takes
        events.append("ready")

    def handle(_: Sequence[Record]) -> list[OutgoingRecord]:
        events.append("handled")
        stop.set()
        return []

    run_consumer(settings, pipe[0], pipe[2], Calls(handle, ready=ready), stop)
    assert events[-1] == "handled"
    assert set(events[:-1]) == {"ready"}


def test_a_consumer_that_cannot_get_ready_ends_with_the_error(broker: Broker, pipe: Pipe) -> None:
    def fail() -> None:
        raise BadSnapshot("no such model")

    handler, stop = Calls(lambda _: [], ready=fail), threading.Event()
    with pytest.raises(BadSnapshot, match="no such model"):
        run_consumer(broker.settings(), pipe[0], pipe[2], handler, stop)
    with pytest.raises(TopicMissing, match="nowhere"):
        run_consumer(broker.settings(), "nowhere", pipe[2], handler, stop)


def test_a_stop_finishes_what_is_in_hand(broker: Broker, pipe: Pipe) -> None:
    with Echo(broker.steady(), *pipe, seconds=1) as echo:
        publish(broker.settings(), pipe[0], 1)
        wait_until(lambda: len(echo.handled) == 1)
        echo.join(60)
    assert echo.committed == 1


@EVERYWHERE
def test_a_stop_gives_back_what_takes_too_long(broker: Broker, pipe: Pipe) -> None:
    settings = broker.settings(shutdown_timeout_s=1)
    publish(settings, pipe[0], 1)
    with Echo(settings, *pipe, seconds=600) as stuck:
        wait_until(lambda: len(stuck.handled) == 1)
        stuck.join(60)  # and not the 600 that it works
    assert values(settings, pipe[1]) == []
    with Echo(broker.steady(), *pipe) as other:
        wait_until(lambda: other.committed == 1)
    assert values(settings, pipe[1]) == [0]


@pytest.mark.kafka
def test_a_committed_offset_that_retention_removed_is_an_error(
    kafka: Broker, topic_name: str
) -> None:
    settings, target = kafka.steady(), f"{topic_name}-target"
    create_topics(settings, [TopicSpec(topic_name), TopicSpec(target)])
    publish(settings, topic_name, 5)
    with Echo(settings, topic_name, target, topic_name) as echo:
        wait_until(lambda: echo.committed == 5)
    publish(settings, topic_name, 20, start=5)
    remove_before(kafka, topic_name, 15)
    late = Echo(settings, topic_name, target, topic_name)
    with pytest.raises(OffsetGone, match=rf"{topic_name}.* from 15.* topics skip"), late:
        wait_until(lambda: late.ended)
    assert skip_what_is_gone(settings, topic_name, topic_name) == ((0, 5, 15),)
    with Echo(settings, topic_name, target, topic_name) as moved_on:
        wait_until(lambda: moved_on.committed == 10)
    assert values(settings, target) == [*range(5), *range(15, 25)]


@pytest.mark.kafka
def test_retention_may_remove_the_mark_of_a_transaction_behind_the_last_record(
    kafka: Broker, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And records that come later to the empty partition are not passed over without a word."""
    monkeypatch.setattr("stream_icd.kafka.group.membership._CHECK_EVERY_S", 0.1)
    settings, target = kafka.steady(), f"{topic_name}-target"
    create_topics(settings, [TopicSpec(topic_name, 2), TopicSpec(target)])
    with closing(open_sink(settings, "exactly-once", topic_name, "writer")) as sink:
        sink.publish([OutgoingRecord(topic_name, b"0", partition=0)], {}, None)
    passed = {TopicPartition(topic_name, 0): 2, TopicPartition(topic_name, 1): 0}
    with Echo(settings, topic_name, target, topic_name) as echo, connect(settings).admin() as admin:
        wait_until(lambda: echo.committed == 1)
        wait_until(lambda: admin.group_offsets(topic_name) == passed, timeout_s=20)
    remove_before(kafka, topic_name, 2)
    publish(settings, topic_name, 1, start=1)
    with Echo(settings, topic_name, target, topic_name) as later:
        wait_until(lambda: later.committed == 1 or later.ended)


@pytest.mark.kafka
def test_a_beginning_that_retention_removes_before_a_new_group_reads_it_is_what_is_left(
    kafka: Broker, topic_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    settings, first = kafka.steady(), TopicPartition(topic_name, 0)
    create_topics(settings, [TopicSpec(topic_name)])
    publish(settings, topic_name, 20)
    with closing(connect(settings).member(topic_name, 100, threading.Event())) as member:

        class NotFetched:
            def assigned(self, partitions: Partitions) -> None:
                for partition in partitions:
                    member.pause(partition)

            def revoked(self, partitions: Partitions) -> None: ...

        member.subscribe(topic_name, NotFetched())
        wait_until(lambda: not member.poll(0.1) and member.position(first) == 0)
        remove_before(kafka, topic_name, 15)
        member.resume(first)
        polled: Polled = {}
        wait_until(lambda: polled.update(member.poll(0.1)) or polled)
        assert [record.offset for record in polled[first]] == [15, 16, 17, 18, 19]
        assert f"retention removed the beginning of {first}" in caplog.text
        # It is said of the beginning only: what follows it is never passed over.
        publish(settings, topic_name, 10, start=20)
        member.seek(first, 15)
        remove_before(kafka, topic_name, 25)
        with pytest.raises(OffsetGone):
            wait_until(lambda: member.poll(0.1))


@pytest.mark.kafka
def test_a_group_is_moved_only_where_something_is_gone_and_not_while_it_works(
    kafka: Broker, topic_name: str
) -> None:
    settings, target = kafka.steady(), f"{topic_name}-target"
    create_topics(settings, [TopicSpec(topic_name), TopicSpec(target)])
    publish(settings, topic_name, 5)
    with Echo(settings, topic_name, target, topic_name) as echo:
        wait_until(lambda: echo.committed == 5)
        assert skip_what_is_gone(settings, topic_name, topic_name) == ()
        publish(settings, topic_name, 5, start=5)
        wait_until(lambda: echo.committed == 10)
    publish(settings, topic_name, 5, start=10)
    remove_before(kafka, topic_name, 12)
    other = f"{topic_name}-other"
    create_topics(settings, [TopicSpec(other)])
    with Echo(settings, other, target, topic_name) as at_work:
        publish(settings, other, 1, start=99)
        wait_until(lambda: at_work.committed == 1)
        with pytest.raises(BrokerError, match="still has running members: stop them first"):
            skip_what_is_gone(settings, topic_name, topic_name)


@pytest.mark.kafka
def test_a_leaver_leaves_the_group_without_waiting_for_its_session_to_end(
    kafka: Broker, topic_name: str
) -> None:
    settings, target = kafka.settings(session_timeout_s=200), f"{topic_name}-target"
    create_topics(settings, [TopicSpec(topic_name), TopicSpec(target)])
    with Echo(settings, topic_name, target, topic_name) as first:
        publish(settings, topic_name, 1)
        wait_until(lambda: first.committed == 1)
    publish(settings, topic_name, 1, start=1)
    with Echo(settings, topic_name, target, topic_name) as second:
        wait_until(lambda: second.committed == 1)


@EVERYWHERE
def test_a_topic_that_is_deleted_meanwhile_is_named(
    broker: Broker, pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stream_icd.kafka.group.membership._CHECK_EVERY_S", 0.5)
    settings = broker.settings()
    echo = Echo(settings, *pipe)

    def consume_while_the_topic_is_deleted() -> None:
        with echo:
            publish(settings, pipe[0], 3)
            wait_until(lambda: echo.committed == 3)
            with connect(settings).admin() as admin:
                admin.delete_topic(pipe[0])
            wait_until(lambda: echo.ended)

    with pytest.raises(TopicMissing, match=pipe[0]):
        consume_while_the_topic_is_deleted()


# Records are published together while that is fast: soon if they are heavy, cheaply if not.


def test_who_says_nothing_of_the_time_of_a_record_gets_full_batches(
    broker: Broker, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stream_icd.kafka.consumer._LONG_S", 0.01)
    source, stop, batches = make_topic(), threading.Event(), list[int]()

    def handle(records: Sequence[Record]) -> list[OutgoingRecord]:
        time.sleep(0.05)  # as one file for all of them may take
        batches.append(len(records))
        if sum(batches) == 12:
            stop.set()
        return []

    publish(broker.settings(), source, 12)
    group = f"group-{source}"
    run_consumer(broker.steady(), source, group, Calls(handle), stop, max_records=4)
    assert batches == [4, 4, 4]


@pytest.mark.parametrize("ahead", [False, True])
def test_no_batch_takes_long_where_each_record_takes_its_time(
    broker: Broker, make_topic: MakeTopic, ahead: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stream_icd.kafka.consumer._LONG_S", 0.2)
    source, seconds, stop = make_topic(), [0.05], threading.Event()
    batches: list[int] = []

    def handle(records: Sequence[Record]) -> list[OutgoingRecord]:
        time.sleep(seconds[0] * len(records))
        batches.append(len(records))
        return []

    handler = Calls(handle, ahead=ahead, at_once=1)
    arguments = (broker.steady(), source, f"group-{source}", handler, stop)
    thread = threading.Thread(target=run_consumer, args=arguments, daemon=True)
    publish(broker.settings(), source, 30)
    thread.start()
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
    stop.set()
    thread.join(20)
    assert not thread.is_alive()
