"""Messages of the wire contract as Kafka records, and records in log lines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.printable import shortened
from stream_icd.wire.message import Message


def described(record: Record) -> dict[str, str | int]:
    """Return topic, partition and offset, and graph, snapshot and model if the record has them.

    Names are shortened, since their length has not been checked yet.
    """
    headers = dict(record.headers)
    said = {
        "graph": record.key,
        "snapshot": headers.get("icd_snapshot_id") or headers.get("ce_id"),
        "model": headers.get("icd_model"),
    }
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        **{name: shortened(value) for name, value in said.items() if value},
    }


@contextmanager
def about(record: Record, **more: str) -> Iterator[None]:
    """Add the record's fields to all log lines in the block, including those of libraries."""
    with structlog.contextvars.bound_contextvars(**described(record), **more):
        yield


def outgoing(topic: str, message: Message, partition: int | None = None) -> OutgoingRecord:
    """Return the message as a record for a topic; by default its key selects the partition."""
    return OutgoingRecord(topic, message.value, message.key, message.headers, partition)
