"""The contract of the port, on every implementation: in-memory (also with a prefix), embedded,
Apache Kafka.

What a broker cannot do (`Capabilities`), it is not asked for here.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack

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

pytestmark = pytest.mark.brokers("memory", "tenant", "embedded", "kafka")


class Port:
    """A broker's port, of which everything that is opened is closed at the end."""

    def __init__(self, broker: Broker, make_topic: MakeTopic, stack: ExitStack) -> None:
        self.broker, self.topic, self._stack = broker, make_topic, stack
        with connect(broker.settings()).admin() as admin:
            self.can = admin.known_capabilities()

    def reader(self, *partitions: TopicPartition, start: int | None = 0) -> Reader:
        reader = connect(self.broker.settings()).reader()
        self._stack.callback(reader.close)
        reader.assign(partitions)
        if start is not None:
            for partition in partitions:
                reader.seek(partition, start)
        return reader

    def producer(self) -> Producer:
        producer = connect(self.broker.settings()).producer()
        self._stack.callback(producer.close, 1.0)
        return producer

    def transactions(self, name: str, timeout_s: float = 60.0) -> TransactionalProducer:
        settings = self.broker.settings(transaction_timeout_s=timeout_s)
        producer = connect(settings).transactional_producer(name)
        self._stack.callback(producer.close, 1.0)
        return producer

    def member(
        self, topic: str, group: str, max_records: int = 100, **settings: float
    ) -> tuple[Member, Ours]:
        known = self.broker.steady(**settings)
        member, ours = connect(known).member(group, max_records, threading.Event()), Ours()
        self._stack.callback(member.close)
        member.subscribe(topic, ours)
        return member, ours


@pytest.fixture
def port(broker: Broker, make_topic: MakeTopic) -> Iterator[Port]:
    with ExitStack() as stack:
        yield Port(broker, make_topic, stack)


class Outcomes:
    """The outcomes of sent records, in the order in which they were reported."""

    def __init__(self) -> None:
        self.reported: list[Exception | None] = []

    def send(self, producer: Producer, *records: OutgoingRecord) -> None:
        """Send them and wait until all are settled."""
        wanted = len(self.reported) + len(records)
        for record in records:
            producer.send(record, self.reported.append)
        wait_until(lambda: len(self.reported) == wanted)


def write(producer: Producer, topic: str, *values: bytes, partition: int = 0) -> None:
    outcomes = Outcomes()
    outcomes.send(producer, *[OutgoingRecord(topic, v, partition=partition) for v in values])
    assert outcomes.reported == [None] * len(values)


def read(reader: Reader, count: int) -> list[Record]:
    """The next so many records."""
    found: list[Record] = []

    def read_enough() -> bool:
        for records in reader.poll(0.1).values():
            found.extend(records)
        return len(found) >= count

    wait_until(read_enough)
    return found


def values(records: list[Record]) -> list[bytes | None]:
    return [record.value for record in records]


def share(topic: str, count: int, *members: tuple[Member, Ours]) -> None:
    """Poll until the members have all partitions between them, each once.

    Each polls in a thread of its own, as members do.
    """
    everything = sorted(TopicPartition(topic, number) for number in range(count))

    def is_shared() -> bool:
        owned = sorted(p for _, ours in members for p in ours.partitions)
        settled = all(member.group().is_settled for member, _ in members)
        return owned == everything and settled and all(ours.partitions for _, ours in members)

    shared = threading.Event()

    def take_part(member: Member) -> None:
        while not shared.is_set():
            member.poll(0.05)

    threads = [threading.Thread(target=take_part, args=[member]) for member, _ in members]
    for thread in threads:
        thread.start()
    try:
        wait_until(is_shared)
    finally:
        shared.set()
        for thread in threads:
            thread.join()


def test_topics_come_and_go(port: Port, topic_name: str) -> None:
    spec = TopicSpec(topic_name, partitions=3)
    with connect(port.broker.settings()).admin() as admin:
        assert admin.describe_topic(topic_name) is None
        assert admin.create_topics([spec]) == {topic_name}
        assert admin.create_topics([spec]) == frozenset()
        found = admin.describe_topic(topic_name)
        assert found is not None
        assert found.partitions == 3
        assert found.max_message_bytes in (None, spec.max_message_bytes)
        assert topic_name in admin.topic_names()
        admin.delete_topic(topic_name)
        wait_until(lambda: admin.describe_topic(topic_name) is None)


def test_a_record_comes_back_as_it_was_sent(port: Port) -> None:
    topic = port.topic(partitions=2, retention_ms=-1)  # the times are long ago
    odd = b"caf\xe9".decode(errors="surrogateescape")
    outcomes = Outcomes()
    outcomes.send(
        port.producer(),
        OutgoingRecord(topic, b"value", b"key", (("name", b"1"), (odd, b"\xff")), 1, 123_000),
        OutgoingRecord(topic, None, b"key", partition=1, timestamp_ms=124_000),
        OutgoingRecord(topic, b"", b"", partition=1, timestamp_ms=124_000),
    )
    assert outcomes.reported == [None, None, None]
    place = TopicPartition(topic, 1)
    assert read(port.reader(place), 3) == [
        Record(topic, 1, 0, 123_000, b"key", b"value", (("name", b"1"), (odd, b"\xff"))),
        Record(topic, 1, 1, 124_000, b"key", None),
        Record(topic, 1, 2, 124_000, b"", b""),
    ]


def test_equal_keys_share_a_partition_and_keep_their_order(port: Port) -> None:
    topic = port.topic(partitions=4)
    places = [TopicPartition(topic, number) for number in range(4)]
    Outcomes().send(
        port.producer(), *[OutgoingRecord(topic, b"%d" % n, b"key-%d" % (n % 5)) for n in range(50)]
    )
    found = read(port.reader(*places), 50)
    for key, partition in enumerate((1, 0, 2, 3, 1)):  # as with every client of Kafka
        of_key = [record for record in found if record.key == b"key-%d" % key]
        assert {record.partition for record in of_key} == {partition}
        assert values(of_key) == [b"%d" % n for n in range(key, 50, 5)]


def test_what_cannot_be_sent_is_an_error(port: Port) -> None:
    topic, producer, outcomes = port.topic(max_message_bytes=1000), port.producer(), Outcomes()
    with pytest.raises(BrokerError):
        producer.send(OutgoingRecord(topic, b"x", partition=7), outcomes.reported.append)
    assert outcomes.reported == []
    if port.can.software != "tansu":
        outcomes.send(producer, OutgoingRecord(topic, b"x" * 2000))
        assert isinstance(outcomes.reported[0], MessageTooLarge)


def test_a_reader_knows_where_it_is_and_where_its_partitions_begin_and_end(port: Port) -> None:
    topic = port.topic(partitions=2)
    here, empty = TopicPartition(topic, 0), TopicPartition(topic, 1)
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
    assert values(read(reader, 2)) == [b"1", b"2"]
    assert reader.poll(0.1) == {}
    assert reader.partitions(topic) == 2
    reader.assign([here])
    assert (reader.position(here), reader.position(empty)) == (3, None)


def test_a_poll_gives_no_more_than_it_is_asked_for(port: Port) -> None:
    topic = port.topic()
    write(port.producer(), topic, *[b"%d" % n for n in range(10)])
    reader, polled = port.reader(TopicPartition(topic, 0)), list[Record]()
    while len(polled) < 10:
        batch = [record for records in reader.poll(1.0, 3).values() for record in records]
        assert len(batch) <= 3
        polled += batch
    assert values(polled) == [b"%d" % n for n in range(10)]


def test_the_offset_of_a_time_goes_by_timestamps(port: Port) -> None:
    topic = port.topic(partitions=2, retention_ms=-1)  # the times are long ago
    here, empty = TopicPartition(topic, 0), TopicPartition(topic, 1)
    times = (1000, 3000, 2000, 4000)
    producer = port.producer()
    for time in times:
        Outcomes().send(producer, OutgoingRecord(topic, b"", partition=0, timestamp_ms=time))
    reader = port.reader(here, empty)
    if port.can.exact_times:
        for time, offset in ((0, 0), (1000, 0), (1001, 1), (3500, 3)):
            assert reader.at_time([here, empty], time) == {here: offset}
        assert reader.at_time([here, empty], 5000) == {}


def test_readers_see_what_is_committed_and_nothing_that_was_aborted(
    port: Port, topic_name: str
) -> None:
    topic, producer = port.topic(), port.transactions(topic_name)
    producer.begin()
    write(producer, topic, b"aborted")
    producer.abort()
    producer.begin()
    write(producer, topic, b"committed")
    producer.commit()
    write(port.producer(), topic, b"on its own")
    if port.can.hides_aborted:
        reader = port.reader(TopicPartition(topic, 0))
        assert values(read(reader, 2)) == [b"committed", b"on its own"]
        assert reader.poll(0.1) == {}
        assert reader.position(TopicPartition(topic, 0)) == 5  # two ends of transactions count


def test_readers_wait_where_an_open_transaction_begins(port: Port, topic_name: str) -> None:
    topic, producer = port.topic(), port.transactions(topic_name)
    place = TopicPartition(topic, 0)
    write(port.producer(), topic, b"before")
    producer.begin()
    write(producer, topic, b"held")
    write(port.producer(), topic, b"after")
    if port.can.hides_aborted:
        reader = port.reader(place)
        assert values(read(reader, 1)) == [b"before"]
        assert reader.poll(0.3) == {}
        assert (reader.ends([place])[place], reader.fetched_end(place)) == (1, 3)
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


def test_a_member_that_is_alone_has_everything_and_begins_at_the_beginning(port: Port) -> None:
    topic = port.topic(partitions=3)
    write(port.producer(), topic, b"0", b"1")
    member, ours = port.member(topic, f"group-{topic}")
    assert (member.group().member_id, member.group().is_settled) == ("", False)
    assert values(read(member, 2)) == [b"0", b"1"]
    share(topic, 3, (member, ours))
    assert member.assigned() == ours.partitions
    assert member.group().member_id
    assert member.silence_s() < 60


def test_two_members_share_and_a_leaver_hands_over(port: Port) -> None:
    topic = port.topic(partitions=4)
    group = f"group-{topic}"
    first = port.member(topic, group)
    share(topic, 4, first)
    alone, before = set(first[1].partitions), first[0].group().generation
    second = port.member(topic, group)
    share(topic, 4, first, second)
    assert len(first[1].partitions) == len(second[1].partitions) == 2
    assert first[1].partitions < alone  # what one has, it keeps
    assert first[0].group().generation > before
    second[0].close()
    share(topic, 4, first)


def test_a_group_reads_on_where_it_has_committed(port: Port) -> None:
    topic = port.topic()
    group, place = f"group-{topic}", TopicPartition(topic, 0)
    write(port.producer(), topic, b"0", b"1", b"2")
    former, _ = port.member(topic, group)
    read(former, 3)
    assert former.committed(place, 10.0) is None
    former.commit({place: 2}, 10.0)
    assert former.committed(place, 10.0) == 2
    former.close()
    latter, _ = port.member(topic, group)
    assert values(read(latter, 1)) == [b"2"]
    with connect(port.broker.settings()).admin() as admin:
        assert admin.group_offsets(group) == {place: 2}


def test_what_is_paused_does_not_come(port: Port) -> None:
    topic = port.topic(partitions=2)
    held, free = TopicPartition(topic, 0), TopicPartition(topic, 1)
    member, ours = port.member(topic, f"group-{topic}")
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
    group, place = f"group-{topic}", TopicPartition(topic, 0)
    sleeper, its = port.member(topic, group, max_poll_interval_s=1.0)
    share(topic, 1, (sleeper, its))
    other, ours = port.member(topic, group)
    wait_until(lambda: other.poll(0.1) == {} and ours.partitions == {place})
    with pytest.raises((GroupMovedOn, BrokerUnavailable)):
        sleeper.commit({place: 1}, 2.0)
    assert other.committed(place, 10.0) is None
    assert sleeper.poll(0.1) == {}
    wait_until(lambda: sleeper.poll(0.1) == {} and not its.partitions & ours.partitions)


def committed(port: Port, group: str) -> Offsets:
    with connect(port.broker.settings()).admin() as admin:
        return admin.group_offsets(group)


def test_positions_are_committed_with_a_transaction_or_not_at_all(port: Port) -> None:
    topic = port.topic()
    group, place = f"group-{topic}", TopicPartition(topic, 0)
    member, ours = port.member(topic, group)
    share(topic, 1, (member, ours))
    if not port.can.hides_aborted:
        return
    producer = port.transactions(topic)
    producer.begin()
    producer.send_offsets({place: 1}, member.group())
    producer.abort()
    assert committed(port, group).get(place) is None
    producer.begin()
    producer.send_offsets({place: 2}, member.group())
    with pytest.raises(BrokerUnavailable):
        member.committed(place, 0.5)
    producer.commit()
    assert member.committed(place, 10.0) == 2


def test_a_transaction_of_an_older_generation_is_refused(port: Port) -> None:
    topic = port.topic(partitions=2)
    group, place = f"group-{topic}", TopicPartition(topic, 0)
    first = port.member(topic, group)
    share(topic, 2, first)
    older = first[0].group()
    share(topic, 2, first, port.member(topic, group))
    if not port.can.hides_aborted:
        return
    producer = port.transactions(topic)
    producer.begin()
    with pytest.raises(GroupMovedOn):
        producer.send_offsets({place: 1}, older)
    producer.abort()
    assert committed(port, group).get(place) is None
    producer.begin()
    producer.send_offsets({place: 1}, first[0].group())
    producer.commit()
    assert committed(port, group)[place] == 1


def test_a_group_is_moved_only_while_nobody_works_in_it(port: Port) -> None:
    topic = port.topic()
    group, place = f"group-{topic}", TopicPartition(topic, 0)
    member, ours = port.member(topic, group)
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


def test_a_topic_that_is_not_there_is_missing(port: Port, topic_name: str) -> None:
    if port.can.software == "memory":  # the client asks for it until its time is up
        with pytest.raises(TopicMissing):
            port.producer().send(OutgoingRecord(topic_name, b""), Outcomes().reported.append)
    with connect(port.broker.settings()).admin() as admin:
        assert admin.describe_topic(topic_name) is None
