"""Kafka records: made of messages, named in log lines, and what became of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal

import structlog

from stream_icd.core.errors import BadInput
from stream_icd.core.printable import shortened
from stream_icd.kafka.port import dead_letter_topic
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.topics import MEMORY
from stream_icd.wire.message import Message
from stream_icd.wire.states import read_state_key

Stage = Literal[
    "decode", "detect", "track", "alert", "deliver", "archive", "budget", "publish", "crashed"
]
"""The processing stage in which a record was refused."""


@dataclass(frozen=True, slots=True)
class Processed:
    """The result of a good record.

    Attributes:
        state: what the worker remembers after the record, for a topic of states. It is published
            even if the results are refused.
    """

    event: str  # name of the log event, such as `detected`
    facts: Mapping[str, object] = field(default_factory=dict)  # fields of the log line
    # The records to publish; empty if there is nothing new.
    outgoing: tuple[OutgoingRecord, ...] = ()
    state: OutgoingRecord | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """The outcome of a bad record: it becomes a dead letter."""

    stage: Stage  # one of those that the step names (`Step.stages`), or of those around it
    error: BadInput

    @property
    def reason(self) -> str:
        return str(self.error)


Outcome = Processed | Refused


def described(record: Record) -> dict[str, str | int]:
    """Return topic, partition and offset, and graph, snapshot and model if the record has them,
    shortened, since their length has not been checked yet."""
    headers = dict(record.headers)
    names = {
        "graph": graph_name(record),
        "snapshot": headers.get("icd_snapshot_id") or headers.get("ce_id"),
        "model": headers.get("icd_model"),
    }
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        **{name: shortened(value) for name, value in names.items() if value},
    }


def graph_name(record: Record) -> bytes | None:
    """Return the name of a record's graph: the key, which of memory names a group, too."""
    if record.topic in (MEMORY, dead_letter_topic(MEMORY)):
        with suppress(BadInput):
            return read_state_key(record.key)[1].encode()
    return record.key


def is_of(record: Record, graph: bytes | None) -> bool:
    """Return whether a record is of this graph; None: of any, and its name is not read."""
    return graph is None or graph_name(record) == graph


@contextmanager
def about(record: Record, **more: str) -> Iterator[None]:
    """Add the record's fields to all log lines in the block, including those of libraries.

    `more` replaces what the record says, such as the model in the headers of a result.
    """
    with structlog.contextvars.bound_contextvars(**described(record) | more):
        yield


def outgoing(topic: str, message: Message, partition: int | None = None) -> OutgoingRecord:
    """Return the message as a record for a topic; by default its key selects the partition."""
    return OutgoingRecord(topic, message.value, message.key, message.headers, partition)
