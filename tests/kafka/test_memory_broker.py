"""What only the in-memory broker promises; the rest of its contract is test_port_contract's."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from stream_icd.core.errors import BadSettings, BrokerUnavailable
from stream_icd.kafka.connect import connect
from stream_icd.kafka.in_process.broker import memory_broker
from stream_icd.kafka.port import Fenced, GroupMovedOn, TopicPartition, TopicSpec
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import create_topics, topic_names
from stream_icd.kafka.waiting import Clock
from tests.kafka.echo import Ours, publish, values

PLACE = TopicPartition("t", 0)


def at(name: str, **options: float) -> KafkaSettings:
    return KafkaSettings(bootstrap_servers=f"memory://{name}", **options)


def test_settings_find_it_by_its_name_until_its_block_ends() -> None:
    with memory_broker("one") as broker, memory_broker() as other:
        assert broker.bootstrap_servers == "memory://one"
        create_topics(at("one"), [TopicSpec("t")])
        assert topic_names(at("one")) == ["t"]
        assert topic_names(KafkaSettings(bootstrap_servers=other.bootstrap_servers)) == []
        with pytest.raises(BadSettings, match="one is running"), memory_broker("one"):
            pass
        reader = connect(at("one")).reader()
        reader.assign([PLACE])
        publisher = Publisher(at("one"))
    with pytest.raises(BrokerUnavailable, match=r"no in-memory broker named one .* start one"):
        topic_names(at("one"))
    with pytest.raises(BrokerUnavailable, match="one has stopped"):
        reader.poll(0.0)
    with pytest.raises(BrokerUnavailable, match="one"):
        publisher.send(OutgoingRecord("t", b""))


def test_the_same_calls_in_the_same_order_have_the_same_outcome() -> None:
    outcomes: list[list[Record]] = []
    for name in ("one", "other"):
        with memory_broker(name, wall_clock=lambda: 123.0):
            create_topics(at(name), [TopicSpec("t", partitions=3)])
            with Publisher(at(name)) as publisher:
                for number in range(30):
                    key = None if number % 2 else b"key-%d" % number
                    publisher.send(OutgoingRecord("t", b"%d" % number, key))
            with open_reader(at(name), "t", until="end") as records:
                outcomes.append(list(records))
    assert outcomes[0] == outcomes[1]
    assert len(outcomes[0]) == 30
    assert {record.timestamp_ms for record in outcomes[0]} == {123_000}
    unkeyed = [record for record in outcomes[0] if record.key is None]
    assert {record.partition for record in unkeyed} == {0, 1, 2}  # in turn


def test_what_takes_too_long_by_its_clock_is_ended() -> None:
    """A transaction is aborted, and its producer fenced; a member that does not poll loses all."""
    now = 0.0
    with memory_broker("one", clock=Clock(now=lambda: now)):
        create_topics(at("one"), [TopicSpec("t")])
        port = connect(at("one", transaction_timeout_s=10, max_poll_interval_s=10))
        producer, outcomes = port.transactional_producer("p"), list[Exception | None]()
        producer.begin()
        producer.send(OutgoingRecord("t", b"late"), outcomes.append)
        assert outcomes == [None]
        member, other = (port.member("g", 10, threading.Event()) for _ in range(2))
        member.subscribe("t", Ours())
        member.poll(0.0)
        now = 10.0
        publish(at("one"), "t", 1)
        assert values(at("one"), "t", until="end") == []  # it is held back until then
        member.commit({PLACE: 0}, 1.0)
        now = 10.5
        assert values(at("one"), "t") == [0]
        with pytest.raises(Fenced):
            producer.commit()
        other.subscribe("t", Ours())
        other.poll(0.0)
        assert other.assigned() == {PLACE}
        with pytest.raises(GroupMovedOn):
            member.commit({PLACE: 1}, 1.0)
        member.poll(0.0)
        assert member.assigned() == frozenset()


def test_nothing_of_the_kafka_client_is_loaded_for_it() -> None:
    program = (
        "import sys\n"
        "from stream_icd import KafkaSettings, memory_broker\n"
        "from stream_icd.kafka.consumer import run_consumer\n"
        "from stream_icd.kafka.topics import create_topics\n"
        "with memory_broker() as broker:\n"
        "    create_topics(KafkaSettings(bootstrap_servers=broker.bootstrap_servers))\n"
        "assert 'kafka' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
