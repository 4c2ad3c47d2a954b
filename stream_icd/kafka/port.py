"""What is needed of a broker: types, contracts, and errors that only the calling code can handle.

`client` implements the contracts with kafka-python, `in_process` within the process.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from stream_icd.core.errors import BadSettings, BrokerUnavailable, DeliveryFailed, RecordUndecodable
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.settings import MEBIBYTE
from stream_icd.kafka.waiting import Stop

DAY_MS = 24 * 3600 * 1000
_FRAME_ROOM = MEBIBYTE  # a record's frame also holds batch and partition headers
DEAD_LETTER_ROOM = 2 * _FRAME_ROOM  # a record, perhaps framed by another program, with the reason
_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")


def dead_letter_topic(topic: str) -> str:
    """The name of the dead-letter topic of `topic`, for records that can never succeed."""
    return f"{topic}.dlq"


def is_dead_letter_topic(topic: str) -> bool:
    return topic.endswith(".dlq")


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic's name and settings; the broker chooses values that are None.

    `max_message_bytes` is the broker's limit for one batch: the limit for a record
    (`KafkaSettings.max_message_bytes`) plus 1 MiB for its framing. With `broker_clock`, a record's
    timestamp is when the broker appended it, whatever the producer's clock says, so that timestamps
    are in the order of offsets. (The embedded broker keeps the producer's.)
    """

    name: str
    partitions: int = 1
    retention_ms: int | None = None
    max_message_bytes: int = 16 * MEBIBYTE + _FRAME_ROOM
    cleanup_policy: str = "delete"
    segment_bytes: int | None = None
    min_compaction_lag_ms: int | None = None
    broker_clock: bool = False

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise BadSettings(
                f"{self.name!r} cannot name a topic: use letters, digits, '.', '_', '-'"
            )
        if self.partitions < 1:
            raise BadSettings(
                f"topic {self.name} needs at least one partition, not {self.partitions}"
            )

    def configs(self) -> dict[str, str]:
        """These settings under the broker's names."""
        chosen = {
            "cleanup.policy": self.cleanup_policy,
            "max.message.bytes": self.max_message_bytes,
            "retention.ms": self.retention_ms,
            "segment.bytes": self.segment_bytes,
            "min.compaction.lag.ms": self.min_compaction_lag_ms,
            "message.timestamp.type": "LogAppendTime" if self.broker_clock else None,
        }
        return {name: str(value) for name, value in chosen.items() if value is not None}

    def with_dead_letters(self) -> tuple[TopicSpec, TopicSpec]:
        """This topic, and its dead-letter topic: for 30 days, with room for the reason."""
        return self, TopicSpec(
            dead_letter_topic(self.name),
            retention_ms=30 * DAY_MS,
            max_message_bytes=self.max_message_bytes + DEAD_LETTER_ROOM,
            broker_clock=self.broker_clock,
        )


@dataclass(frozen=True, slots=True)
class ExistingTopic:
    """The broker's description of a topic; `max_message_bytes` is None if not reported."""

    name: str
    partitions: int
    max_message_bytes: int | None
    is_compacted: bool = False  # as far as the broker tells

    def unlike(self, spec: TopicSpec) -> list[str]:
        """Each setting of the topic that is not as `spec` needs it, and what it should be."""
        differences = []
        if self.is_compacted != (spec.cleanup_policy == "compact"):
            differences.append(f"cleanup.policy should be {spec.cleanup_policy}")
        if (limit := self.max_message_bytes) is not None and limit < spec.max_message_bytes:
            differences.append(f"max.message.bytes is {limit}, should be {spec.max_message_bytes}")
        return differences


class TopicPartition(NamedTuple):
    """A partition, numbered from 0 in its topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]"


Partitions = Collection[TopicPartition]
Offsets = dict[TopicPartition, int]
"""One offset for each partition; a position is the offset of the *next* record."""
Polled = dict[TopicPartition, list[Record]]
"""Records by partition, in the order of their offsets; no list is empty."""


class GroupMovedOn(Exception):
    """The group gave our partitions to another member, or is about to: the call had no effect."""


class Leaderless(BrokerUnavailable):
    """No broker leads a partition now: nothing is read there until one does."""


class Fenced(DeliveryFailed):
    """The broker refused because another producer owns the transactions: open another producer."""


class Undecodable(RecordUndecodable):
    """Fetched records that cannot be decoded, up to, not including, the offset `end`."""

    def __init__(self, message: str, partition: TopicPartition, end: int) -> None:
        super().__init__(message)
        self.partition = partition
        self.end = end


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """A member's view of its group at one moment."""

    group: str
    generation: int  # grows with each rebalance; -1 before the first
    member_id: str  # "" before it has joined
    stable: bool  # it is a member now, and no rebalance is in progress

    @property
    def is_settled(self) -> bool:
        """Whether the member knows the group's generation and no rebalance is in progress."""
        return self.stable and self.generation >= 0


class Reader(Protocol):
    """Sees only committed records, if the broker can tell. Never jumps to another offset.

    `seek` does nothing if the partition was revoked. No request is made by `partitions`, `position`
    and `fetched_end`.
    """

    def partitions(self, topic: str) -> int:
        """How many partitions an assigned topic has, known half a minute late at most; 0: it is
        not known."""

    def assign(self, partitions: Partitions) -> None:
        """Read these partitions; what is known of others is forgotten."""

    def assigned(self) -> frozenset[TopicPartition]: ...

    def seek(self, partition: TopicPartition, offset: int) -> None: ...

    def poll(self, timeout_s: float, max_records: int | None = None) -> Polled:
        """Return the available records; if there are none, wait up to `timeout_s` for some.

        Raises:
            OffsetGone: retention removed the position, or the broker lost it.
            TopicMissing: a topic was deleted, also if another one has its name now.
            Undecodable: the next records cannot be decoded.
            MessageTooLarge: the next record is larger than any accepted fetch response.
            ClientStuck: the client does not return.
            BrokerUnavailable: no broker answers now.
        """

    def position(self, partition: TopicPartition) -> int | None:
        """The offset of the next record to read, if known."""

    def fetched_end(self, partition: TopicPartition) -> int | None:
        """The partition's end at the last poll, including open transactions; None before."""

    def begins(self, partitions: Partitions, timeout_s: float | None = None) -> Offsets:
        """The first offset that is still available, by partition."""

    def ends(self, partitions: Partitions, timeout_s: float | None = None) -> Offsets:
        """The offset after the last record that can be read now, by partition."""

    def at_time(self, partitions: Partitions, timestamp_ms: int) -> Offsets:
        """The offset of the first record at or after a time, for partitions that have one."""

    def close(self) -> None:
        """Stop reading; always returns, and may be called again."""


class Listener(Protocol):
    """Called when partitions become ours or are ours no longer, by any thread, at any time."""

    def assigned(self, partitions: Partitions) -> None: ...

    def revoked(self, partitions: Partitions) -> None: ...


class Member(Reader, Protocol):
    """Stays in its group as long as it polls. A partition without a committed offset is read from
    its beginning. `pause` and `resume` do nothing if the partition was revoked."""

    def subscribe(self, topic: str, listener: Listener) -> None:
        """Subscribe to a topic; later polls join the group."""

    def pause(self, partition: TopicPartition) -> None: ...

    def resume(self, partition: TopicPartition) -> None: ...

    def group(self) -> GroupMetadata:
        """The current view of the group; makes no request."""

    def silence_s(self) -> float:
        """Seconds since the broker last answered a heartbeat, or let us join."""

    def commit(self, offsets: Mapping[TopicPartition, int], timeout_s: float) -> None:
        """Commit the group's positions. Raises GroupMovedOn, BrokerUnavailable or BrokerError."""

    def committed(self, partition: TopicPartition, timeout_s: float) -> int | None:
        """The group's position, None if there is none; BrokerUnavailable while an open transaction
        may change it."""


Settled = Callable[[Exception | None], None]
"""Called once per record: with None if it is safe at the broker, else with the broker's refusal."""


class Producer(Protocol):
    """Sends in order, waits for all replicas, and never repeats a record. Thread-safe."""

    def send(self, record: OutgoingRecord, settled: Settled) -> None:
        """Queue a record; `settled` is called later, in any thread, with None, MessageTooLarge,
        NotAllowed, Fenced, or another BrokerError. It is not if this raises: the record was not
        queued."""

    def close(self, timeout_s: float) -> None:
        """Stop; records that are not settled yet may or may not have arrived."""


class TransactionalProducer(Producer, Protocol):
    """Also sends records and a group's positions in transactions, one after the other.

    All but `send` raise GroupMovedOn, NotAllowed, Fenced, or DeliveryFailed if the outcome is
    unknown.
    """

    def begin(self) -> None:
        """Begin a transaction: records sent from now on become visible when it is committed."""

    def send_offsets(self, offsets: Mapping[TopicPartition, int], group: GroupMetadata) -> None:
        """Commit a group's positions together with the transaction."""

    def commit(self) -> None:
        """Commit the transaction; return when all of it is visible."""

    def abort(self) -> None:
        """Abort the transaction; return when none of it can become visible."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The guarantees of a broker.

    Attributes:
        hides_aborted: readers of committed records never see those of aborted transactions;
            exactly-once depends on this. None: not known.
        joins_at_once: a group assigns partitions as soon as its members have asked for them; else
            only after half their session timeout, in whole seconds.
    """

    software: str  # "tansu" is the embedded broker, "memory" the in-memory one
    hides_aborted: bool | None
    exact_end_offsets: bool = True  # a request for a partition's end offset returns the true end
    exact_times: bool = True  # a request for the offset of a time uses the records' timestamps
    joins_at_once: bool = True


KAFKA = Capabilities("kafka", hides_aborted=True)
IN_MEMORY = Capabilities("memory", hides_aborted=True)
UNKNOWN = Capabilities("unknown", hides_aborted=None)
TANSU = Capabilities("tansu", False, False, False, False)


class Admin(Protocol):
    """One connection, without state between calls.

    Each method raises BrokerUnavailable if no broker answers, NotAllowed if we lack the permission,
    and BrokerError if the broker refuses for any other reason.
    """

    def known_capabilities(self) -> Capabilities: ...

    def topic_names(self) -> list[str]:
        """All topics that we may see, sorted by name."""

    def describe_topic(self, topic: str) -> ExistingTopic | None:
        """None if the topic does not exist."""

    def create_topics(self, specs: Sequence[TopicSpec]) -> frozenset[str]:
        """Create missing topics, wait until all are usable, and return the names of the new ones.
        Fails without the permission to create topics only if one is missing."""

    def delete_topic(self, topic: str) -> None: ...

    def begins(self, partitions: Partitions) -> Offsets: ...

    def ends(self, partitions: Partitions) -> Offsets:
        """The offset after the last record, by partition, including open transactions."""

    def group_offsets(self, group: str) -> Offsets:
        """A group's committed offsets; does not wait for transactions that may change them."""

    def move_group(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Change the committed offsets of a group; BrokerError if it has running members."""

    def members(self, group: str) -> dict[str, str]:
        """The name of each member of a group, by its id; ValueError if it cannot be read."""


class Broker(Protocol):
    """Opens connections, all with the same settings.

    Raises:
        BrokerUnavailable: no broker answered within `connect_timeout_s`.
        BadSettings: a broker answered, but refuses our login or cannot be trusted.
    """

    def admin(self) -> AbstractContextManager[Admin]: ...

    def producer(self) -> Producer: ...

    def transactional_producer(self, name: str) -> TransactionalProducer:
        """Take over the name, which no two at the same time may share, and end its open
        transaction."""

    def reader(self, stop: Stop | None = None) -> Reader:
        """A reader without a group. Once `stop` is set, it waits at most `shutdown_timeout_s` for a
        client that does not return."""

    def member(self, group: str, max_records: int, stop: Stop) -> Member:
        """A group member that reads at most `max_records` records per poll."""
