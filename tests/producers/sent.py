"""What producers have sent of a graph, in topics that all tests share."""

from __future__ import annotations

from stream_icd.core.snapshot import Snapshot
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import Record
from stream_icd.kafka.topics import SNAPSHOTS
from stream_icd.wire.snapshots import decode_snapshot
from tests.testbed.brokers import Broker


def records(broker: Broker, graph: str, topic: str = SNAPSHOTS) -> list[Record]:
    """All records of the graph."""
    with open_reader(broker.settings(), topic, until="settled") as found:
        return [record for record in found if record.key == graph.encode()]


def decoded(record: Record) -> Snapshot:
    return decode_snapshot(record.key, record.value, record.headers)


def sent(broker: Broker, graph: str, topic: str = SNAPSHOTS) -> list[Snapshot]:
    """All snapshots of the graph."""
    return [decoded(record) for record in records(broker, graph, topic)]
