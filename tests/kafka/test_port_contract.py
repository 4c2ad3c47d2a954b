"""The contract of the port, on every implementation: in-memory (also with a prefix), embedded,
Apache Kafka.

What a broker cannot do (`Capabilities`), it is not asked for here.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import pytest

from stream_icd.core.errors import BrokerError, BrokerUnavailable, MessageTooLarge, TopicMissing
from stream_icd.kafka.connect import connect
from stream_icd.kafka.port import (
    Fenced,
    GroupMovedOn,
    Member,
    Offsets,
    Producer,
    Reader,
    TopicPartition,
    TopicSpec,
    TransactionalProducer,
)
from stream_icd.kafka.record import OutgoingRecord, Record
from tests.kafka.echo import MakeTopic, Ours
from tests.testbed.brokers import Broker, wait_until
from tests.testbed.streams import beside

pytestmark = pytest.mark.brokers("memory", "tenant", "embedded", "kafka")


class Port:
    """A broker's port, of which everything that is opened is closed at the end."""

    def __init__(self, broker: Broker, make_topic: MakeTopic, stack: ExitStack) -> None:
        self.broker, self.topic, self._stack = broker, make_topic, stack
        with connect(broker.settings()).admin() as admin:
            self.can = admin.known_capabilities()

    def reader(self, *partitions: TopicPartition) -> Reader:
        """Of these partitions, from their beginning."""
        reader = connect(self.broker.settings()).reader()
        self._stack.callback(reader.close)
        reader.assign(partitions)
        for partition in partitions:
            reader.seek(partition, 0)
        return reader

    def producer(self) -> Producer:
        producer = connect(self.broker.settings()).producer()
        self._stack.callback(producer.close, 1.0)
        return producer

    def transactions(self, name: str) -> TransactionalProducer:
        settings = self.broker.settings(transaction_timeout_s=60.0)
        producer = connect(settings).transactional_producer(name)
        self._stack.callback(producer.close, 1.0)
        return producer

    def member(self, topic: str, **settings: float) -> tuple[Member, Ours]:
        """A member of the topic's group, and the partitions that it has."""
        member = connect(self.broker.steady(**settings)).member(
            f"group-{topic}", 100, threading.Event()
        )
        self._stack.callback(member.close)
        member.subscribe(topic, ours := Ours())
        return member, ours


@pytest.fixture
def port(broker: Broker, make_topic: MakeTopic) -> Iterator[Port]:
    with ExitStack() as stack:
        yield Port(broker, make_topic, stack)


def outcomes(producer: Producer, *records: OutgoingRecord) -> list[Exception | None]:
    """Send them, and return the outcome of each, in the order in which they were reported."""
    reported: list[Exception | None] = []
    for record in records:
        producer.send(record, reported.append)
    wait_until(lambda: len(reported) == len(records))
    return reported


def write(producer: Producer, topic: str, *values: bytes, partition: int = 0) -> None:
    records = [OutgoingRecord(topic, value, partition=partition) for value in values]
    assert outcomes(producer, *records) == [None] * len(values)


def read(reader: Reader, count: int) -> list[Record]:
    """The next so many records."""
    records: list[Record] = []

    def read_enough() -> bool:
        for polled in reader.poll(0.1).values():
            records.extend(polled)
        return len(records) >= count

    wait_until(read_enough)
    return records


def places(topic: str, count: int) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(count)]


def values(records: list[Record]) -> list[bytes | None]:
    return [record.value for record in records]


def share(topic: str, count: int, *members: tuple[Member, Ours]) -> None:
    """Poll until the members have all partitions between them, each once.

    Each polls in a thread of its own, as members do.
    """

    def is_shared() -> bool:
        owned = sorted(p for _, ours in members for p in ours.partitions)
        has_some = all(ours.partitions for _, ours in members)
        settled = all(member.group().is_settled for member, _ in members)
        return owned == places(topic, count) and has_some and settled

    with ExitStack() as polling:
        for member, _ in members:
            polling.enter_context(beside(partial(poll_until, member)))
        wait_until(is_shared)


def poll_until(member: Member, stop: threading.Event) -> None:
    while not stop.is_set():
        member.poll(0.05)


def test_topics_come_and_go(port: Port, topic_name: str) -> None:
    spec = TopicSpec(topic_name, partitions=3, max_message_bytes=2_000_000)
    with connect(port.broker.settings()).admin() as admin:
        assert admin.describe_topic(topic_name) is None
        assert admin.create_topics([spec]) == {topic_name}
        assert admin.create_topics([replace(spec, partitions=5)]) == frozenset()  # it stays
        existing = admin.describe_topic(topic_name)
        assert existing.partitions == 3
        assert existing.max_message_bytes in (None, spec.max_message_bytes)
        assert topic_name in admin.topic_names()
        admin.delete_topic(topic_name)
        wait_until(lambda: admin.describe_topic(topic_name) is None)


def test_a_record_comes_back_as_it_was_sent(port: Port) -> None:
    topic = port.topic(partitions=2, retention_ms=-1)  # the times are long ago
    odd = b"caf\xe9".decode(errors="surrogateescape")
    plain, with_odd = (("é", b"0"),), (("first", b"1"), (odd, b"\xff"), ("é", b"3"))
    sent = outcomes(
        port.producer(),
        OutgoingRecord(topic, b"value", b"key", plain, 1, 123_000),
        OutgoingRecord(topic, None, b"key", with_odd, 1, 124_000),
        OutgoingRecord(topic, b"", b"", partition=1, timestamp_ms=124_000),
        OutgoingRecord(topic, None, partition=1, timestamp_ms=122_000),
    )
    assert sent == [None] * 4
    place = TopicPartition(topic, 1)
    assert read(port.reader(place), 4) == [
        Record(topic, 1, 0, 123_000, b"key", b"value", plain),
        Record(topic, 1, 1, 124_000, b"key", None, with_odd),
        Record(topic, 1, 2, 124_000, b"", b""),
        Record(topic, 1, 3, 122_000, None, None),
    ]


def test_equal_keys_share_a_partition_and_keep_their_order(port: Port) -> None:
    topic = port.topic(partitions=4)
    sent = [OutgoingRecord(topic, b"%d" % n, b"key-%d" % (n % 5)) for n in range(50)]
    outcomes(port.producer(), *sent)
    records = read(port.reader(*places(topic, 4)), 50)
    for key, partition in enumerate((1, 0, 2, 3, 1)):  # as with every client of Kafka
        of_key = [record for record in records if record.key == b"key-%d" % key]
        assert {record.partition for record in of_key} == {partition}
        assert values(of_key) == [b"%d" % n for n in range(key, 50, 5)]


def test_what_cannot_be_sent_is_an_error(port: Port, topic_name: str) -> None:
    topic, producer = port.topic(max_message_bytes=1000), port.producer()
    reported: list[Exception | None] = []
    with pytest.raises(BrokerError):
        producer.send(OutgoingRecord(topic, b"x", partition=7), reported.append)
    if port.can.software == "memory":  # the client asks for the topic until its time is up
        with pytest.raises(TopicMissing):
            producer.send(OutgoingRecord(f"not-{topic_name}", b""), reported.append)
    assert reported == []
    if port.can.software != "tansu":
        (refusal,) = outcomes(producer, OutgoingRecord(topic, b"x" * 2000))
        assert isinstance(refusal, MessageTooLarge)


def test_a_reader_knows_where_it_is_and_where_its_partitions_begin_and_end(port: Port) -> None:
    topic = port.topic(partitions=2)
    here, empty = places(topic, 2)
    producer = port.producer()
    for value in (b"0", b"1", b"2"):
        write(producer, topic, value)
    reader = port.reader(here, empty)
    assert reader.assigned() == {here, empty}
    assert reader.begins([here, empty]) == {here: 0, empty: 0}
    if port.can.exact_end_offsets:
        assert reader.ends([here, empty]) == {here: 3, empty: 0}
    assert reader.fetched_end(here) is None
    assert values(read(reader, 3)) == [b"0", b"1", b"2"]
    assert (reader.position(here), reader.position(empty)) == (3, 0)
    assert reader.fetched_end(here) == 3
    reader.seek(here, 1)
    assert reader.position(here) == 1
    polled = reader.poll(10.0, 1)  # no more than it is asked for
    assert values(polled[here] + read(reader, 1)) == [b"1", b"2"]
    assert reader.poll(0.1) == {}
    assert reader.partitions(topic) == 2
    reader.assign([here])
    assert (reader.position(here), reader.position(empty)) == (3, None)


def test_the_offset_of_a_time_goes_by_timestamps(port: Port) -> None:
    topic = port.topic(partitions=2, retention_ms=-1)  # the times are long ago
    here, empty = places(topic, 2)
    producer = port.producer()
    for time in (1000, 3000, 2000, 4000):
        outcomes(producer, OutgoingRecord(topic, b"", partition=0, timestamp_ms=time))
    reader = port.reader(here, empty)
    if port.can.exact_times:
        for time, offset in ((0, 0), (1000, 0), (1001, 1), (3500, 3)):
            assert reader.at_time([here, empty], time) == {here: offset}
        assert reader.at_time([here, empty], 5000) == {}


def test_readers_see_what_is_committed_and_wait_where_an_open_transaction_begins(
    port: Port, topic_name: str
) -> None:
    topic, producer = port.topic(), port.transactions(topic_name)
    place = TopicPartition(topic, 0)
    producer.begin()
    write(producer, topic, b"aborted")
    producer.abort()
    producer.begin()
    write(producer, topic, b"committed")
    producer.commit()
    write(port.producer(), topic, b"on its own")
    producer.begin()
    write(producer, topic, b"held")
    write(port.producer(), topic, b"after")
    if port.can.hides_aborted:
        reader = port.reader(place)
        assert values(read(reader, 2)) == [b"committed", b"on its own"]
        assert reader.poll(0.3) == {}
        assert reader.position(place) == 5  # two ends of transactions count
        assert (reader.ends([place])[place], reader.fetched_end(place)) == (5, 7)
        producer.commit()
        assert values(read(reader, 2)) == [b"held", b"after"]


def test_who_takes_a_name_over_ends_the_transaction_of_its_former_self_and_fences_it(
    port: Port, topic_name: str
) -> None:
    topic, former = port.topic(), port.transactions(topic_name)
    former.begin()
    write(former, topic, b"former")
    latter = port.transactions(topic_name)
    latter.begin()
    write(latter, topic, b"latter")
    latter.commit()
    if port.can.hides_aborted:
        with pytest.raises(Fenced):
            former.commit()
        assert values(read(port.reader(TopicPartition(topic, 0)), 1)) == [b"latter"]


def test_a_member_that_is_alone_has_everything_and_the_next_one_reads_on(port: Port) -> None:
    topic = port.topic(partitions=3)
    place = TopicPartition(topic, 0)
    write(port.producer(), topic, b"0", b"1", b"2")
    member, ours = port.member(topic)
    assert (member.group().member_id, member.group().is_settled) == ("", False)
    assert values(read(member, 3)) == [b"0", b"1", b"2"]
    share(topic, 3, (member, ours))
    assert member.assigned() == ours.partitions
    assert member.group().member_id
    assert member.silence_s() < 60
    assert member.committed(place, 10.0) is None
    member.commit({place: 2}, 10.0)
    assert member.committed(place, 10.0) == 2
    member.close()
    next_member, _ = port.member(topic)
    assert values(read(next_member, 1)) == [b"2"]
    assert committed(port, topic) == {place: 2}


def test_two_members_share_and_a_leaver_hands_over(port: Port) -> None:
    topic = port.topic(partitions=4)
    first, its = port.member(topic)
    share(topic, 4, (first, its))
    alone, older = set(its.partitions), first.group()
    second = port.member(topic)
    share(topic, 4, (first, its), second)
    assert len(its.partitions) == len(second[1].partitions) == 2
    assert its.partitions < alone  # what one has, it keeps
    assert first.group().generation > older.generation
    if port.can.hides_aborted:  # a transaction of the older generation is refused
        producer, (lost, ours) = port.transactions(topic), places(topic, 2)
        producer.begin()
        with pytest.raises(GroupMovedOn):
            producer.send_offsets({lost: 3}, older)
        producer.abort()
        producer.begin()  # and its offsets do not go into the next one
        producer.send_offsets({ours: 1}, first.group())
        producer.commit()
        assert committed(port, topic) == {ours: 1}
    second[0].close()
    share(topic, 4, (first, its))


def test_a_member_that_is_stopped_while_it_joins_keeps_nobody_out(port: Port) -> None:
    """The embedded broker kept its place for as long as a rebalance may last, five minutes."""
    topic = port.topic(partitions=3)
    stopped, _ = port.member(topic)
    stopped.poll(0.2)
    stopped.close()
    share(topic, 3, port.member(topic))


def test_what_is_paused_does_not_come(port: Port) -> None:
    topic = port.topic(partitions=2)
    held, free = places(topic, 2)
    member, ours = port.member(topic)
    share(topic, 2, (member, ours))
    member.pause(held)
    write(port.producer(), topic, b"held")
    write(port.producer(), topic, b"free", partition=1)
    assert values(read(member, 1)) == [b"free"]
    assert member.poll(0.3) == {}
    member.seek(held, 0)
    member.resume(held)
    assert values(read(member, 1)) == [b"held"]
    for change in (member.pause, member.resume):
        change(TopicPartition(topic, 9))  # not ours: nothing happens
    member.seek(TopicPartition(topic, 9), 0)
    assert free in ours.partitions


@pytest.mark.brokers("memory", "kafka")  # the embedded one waits for who does not poll
def test_who_was_thrown_out_cannot_commit_and_loses_what_it_had(port: Port) -> None:
    topic = port.topic()
    place = TopicPartition(topic, 0)
    sleeper, its = port.member(topic, max_poll_interval_s=1.0)
    share(topic, 1, (sleeper, its))
    other, ours = port.member(topic)
    wait_until(lambda: other.poll(0.1) == {} and ours.partitions == {place})
    with pytest.raises((GroupMovedOn, BrokerUnavailable)):
        sleeper.commit({place: 1}, 2.0)
    assert other.committed(place, 10.0) is None
    assert sleeper.poll(0.1) == {}
    wait_until(lambda: sleeper.poll(0.1) == {} and not its.partitions & ours.partitions)


def committed(port: Port, topic: str) -> Offsets:
    """What the topic's group has committed."""
    with connect(port.broker.settings()).admin() as admin:
        return admin.group_offsets(f"group-{topic}")


def test_positions_are_committed_with_a_transaction_or_not_at_all(port: Port) -> None:
    topic = port.topic()
    place = TopicPartition(topic, 0)
    member, ours = port.member(topic)
    share(topic, 1, (member, ours))
    if not port.can.hides_aborted:
        return
    producer = port.transactions(topic)
    producer.begin()
    producer.send_offsets({place: 1}, member.group())
    producer.abort()
    assert committed(port, topic).get(place) is None
    producer.begin()
    producer.send_offsets({place: 2}, member.group())
    with pytest.raises(BrokerUnavailable):
        member.committed(place, 0.5)
    producer.commit()
    assert member.committed(place, 10.0) == 2


def test_a_group_is_moved_only_while_nobody_works_in_it(port: Port) -> None:
    topic = port.topic()
    group, place = f"group-{topic}", TopicPartition(topic, 0)
    member, ours = port.member(topic)
    share(topic, 1, (member, ours))
    member.commit({place: 0}, 10.0)
    with connect(port.broker.settings()).admin() as admin:
        if port.can.software != "tansu":  # it moves them all the same
            with pytest.raises(BrokerError, match="still has running members"):
                admin.move_group(group, {place: 5})
            assert list(admin.members(group).values()) == ["stream-icd"]
        member.close()
        admin.move_group(group, {place: 5})
        assert admin.group_offsets(group) == {place: 5}
        assert admin.begins([place]) == {place: 0}
