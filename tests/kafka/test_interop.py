"""Another client library, written in C, reads what we write, and we read what it writes."""

import time

import pytest

from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import OutgoingRecord
from tests.kafka.echo import MakeTopic
from tests.testbed.brokers import Broker

confluent_kafka = pytest.importorskip("confluent_kafka", reason="pip install 'stream-icd[dev]'")

NOW_MS = time.time_ns() // 1_000_000
VALUE = bytes(range(256)) * 4_000  # 1 MB
HEADERS = (
    ("ce_specversion", b"1.0"),
    ("ce_type", b"stream_icd.snapshot.v1"),
    ("ce_id", "as733/1999-04-02/é".encode()),
    ("content-type", b"application/vnd.apache.arrow.stream"),
)


def test_we_read_what_another_client_writes(broker: Broker, make_topic: MakeTopic) -> None:
    topic = make_topic()
    codecs = ["none"]
    if broker.name == "kafka":
        codecs += ["gzip", "lz4", "snappy", "zstd"]
    for codec in codecs:
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "message.max.bytes": 2 * len(VALUE),
                "compression.type": codec,
            }
        )
        producer.produce(topic, VALUE, codec, headers=list(HEADERS), timestamp=NOW_MS)
        assert producer.flush(60) == 0
    with open_reader(broker.settings(), topic, until="end") as records:
        came = [
            (record.key, record.value, record.headers, record.timestamp_ms) for record in records
        ]
    assert came == [(codec.encode(), VALUE, HEADERS, NOW_MS) for codec in codecs]


def test_another_client_reads_what_we_write(broker: Broker, make_topic: MakeTopic) -> None:
    topic = make_topic()
    with Publisher(broker.settings()) as publisher:
        publisher.send(OutgoingRecord(topic, VALUE, b"as733", HEADERS, timestamp_ms=NOW_MS))
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": topic}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    message = consumer.poll(60)
    consumer.close()
    assert message.error() is None
    assert (message.key(), message.value()) == (b"as733", VALUE)
    assert tuple(message.headers()) == HEADERS
    assert message.timestamp()[1] == NOW_MS
