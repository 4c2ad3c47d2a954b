"""Exactly once, on Apache Kafka: whatever fails, readers see every result one time.

What asks nothing of the broker itself also runs in memory.

What happens to the real detector when it, the broker or the network fails is in tests/faults.
"""

import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from kafka import KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import AbortTransactionSpec
from kafka.errors import KafkaTimeoutError

from stream_icd.core.errors import Action, BadSettings, MessageTooLarge, NameTaken, OffsetHeld
from stream_icd.kafka.client.connections import open_admin, open_producer
from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.delivery.delivery import _ExactlyOnce, open_sink
from stream_icd.kafka.delivery.handler import BatchDone
from stream_icd.kafka.group.held import HeldOffsets
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import create_topics, group_members
from tests.kafka.echo import Pipe, begun, publish, values
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
        partitions = [TopicPartition("__consumer_offsets", number) for number in range(count)]
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
    places = [TopicPartition(pipe.source, number) for number in range(partitions)]
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
    kafka: Broker, pipe: Pipe, hanging: KafkaProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = kafka.steady()
    with Publisher(settings) as publisher:
        for number in range(1000):  # minutes of work
            publisher.send(OutgoingRecord(pipe.source, b"%d" % number, partition=number % 3))
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


def test_a_restarted_worker_with_a_name_ends_its_former_selfs_transaction(
    kafka: Broker, pipe: Pipe
) -> None:
    """Else the readers, and the group's next offsets, would wait for the transaction's timeout."""
    settings = kafka.steady(instance_id="detector-1", transaction_timeout_s=600)
    pipe.publish(3)
    former = begun(settings, f"{pipe.group}-detector-1", pipe.target, b"-1")
    with pipe.echo("exactly-once", settings=settings) as echo:
        wait_until(lambda: echo.committed == 3)
        assert sorted(pipe.copied()) == [0, 1, 2]
    former.close(timeout=0)


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
    kafka: Broker, topic_name: str
) -> None:
    settings, target = kafka.steady(), f"{topic_name}-target"
    create_topics(settings, [TopicSpec(topic_name), TopicSpec(target, max_message_bytes=20_000)])
    publish(settings, topic_name, 40)
    stop = threading.Event()

    def enlarge(records: Sequence[Record]) -> list[OutgoingRecord]:
        return [OutgoingRecord(target, (r.value or b"").rjust(5000), r.key) for r in records]

    def on_done(batch: BatchDone) -> None:
        if batch.records[-1].value == b"39":
            stop.set()

    run_consumer(
        settings, topic_name, topic_name, Calls(enlarge, done=on_done), stop, max_records=20
    )
    assert values(settings, target) == list(range(40))


def test_a_timeout_that_the_broker_does_not_allow_is_named_with_its_setting(kafka: Broker) -> None:
    """By default it allows 900 s, as our settings do."""
    settings = kafka.settings().model_copy(update={"transaction_timeout_s": 901.0})
    with pytest.raises(BadSettings, match="change STREAM_ICD_TRANSACTION_TIMEOUT_S to at most"):
        open_sink(settings, "exactly-once", "group", "instance")
