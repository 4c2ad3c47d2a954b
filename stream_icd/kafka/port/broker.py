"""What is needed of a broker: types, errors that only the calling code can handle, and contracts.

`stream_icd.kafka.client` and `stream_icd.kafka.in_process` fulfil the contracts.

GroupMovedOn       the group has a new generation: try again in that one
Fenced             another producer owns the transactions: open another producer
Undecodable        a batch cannot be decoded: report where it ends
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from stream_icd.errors import DeliveryFailed, RecordUndecodable
from stream_icd.kafka.clock import Stop
from stream_icd.kafka.port.topic import ExistingTopic, Offsets, TopicPartition, TopicSpec
from stream_icd.kafka.record import OutgoingRecord, Record


class GroupMovedOn(Exception):
    """The group gave our partitions to another member, or is about to: the call had no effect."""


class Fenced(DeliveryFailed):
    """The broker refused because the producer is fenced: its transactions are not its own now."""


class Undecodable(RecordUndecodable):
    """Fetched records that cannot be decoded, up to, not including, the offset `end`."""

    def __init__(self, message: str, partition: TopicPartition, end: int) -> None:
        super().__init__(message)
        self.partition = partition
        self.end = end


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """A member's view of its group at one moment.

    Attributes:
        generation: grows with each rebalance; -1 before the first.
        member_id: the member's id in the group; "" before it has joined.
        stable: it is a member now, and no rebalance is in progress.
    """

    group: str
    generation: int
    member_id: str
    stable: bool

    @property
    def is_settled(self) -> bool:
        """Whether the member knows the group's generation and no rebalance is in progress."""
        return self.stable and self.generation >= 0


Polled = dict[TopicPartition, list[Record]]
"""Records by partition, in the order of their offsets; no list is empty."""


class Reader(Protocol):
    """Sees only committed records, if the broker can tell. Never jumps to another offset."""

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Read exactly these partitions."""

    def assigned(self) -> frozenset[TopicPartition]:
        """The partitions that are read now."""

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read from `offset` next; does nothing if the partition was revoked."""

    def poll(self, timeout_s: float, max_records: int | None = None) -> Polled:
        """Return the available records; if there are none, wait up to `timeout_s` for some.

        Raises:
            OffsetGone: retention removed the position.
            Undecodable: the next records cannot be decoded.
            MessageTooLarge: the next record is larger than any accepted fetch response.
            ClientStuck: the client does not return.
            BrokerUnavailable: no broker answers now.
        """

    def position(self, partition: TopicPartition) -> int | None:
        """The offset of the next record to read, if known; makes no request."""

    def fetched_end(self, partition: TopicPartition) -> int | None:
        """The partition's end, including open transactions; None before the first poll.

        This is the end seen by the last poll; makes no request.
        """

    def begins(
        self, partitions: Collection[TopicPartition], timeout_s: float | None = None
    ) -> Offsets:
        """The first offset that is still available, by partition."""

    def ends(
        self, partitions: Collection[TopicPartition], timeout_s: float | None = None
    ) -> Offsets:
        """The offset after the last record that can be read now, by partition."""

    def at_time(self, partitions: Collection[TopicPartition], timestamp_ms: int) -> Offsets:
        """The offset of the first record at or after a time, for partitions that have one."""

    def close(self) -> None:
        """Stop reading; always returns, and may be called again."""


class Listener(Protocol):
    """Called when partitions are assigned or revoked, by any thread, at any time."""

    def assigned(self, partitions: Collection[TopicPartition]) -> None:
        """These partitions are ours from now on."""

    def revoked(self, partitions: Collection[TopicPartition]) -> None:
        """These partitions are no longer ours."""


class Member(Reader, Protocol):
    """Stays in its group as long as it polls. A partition without a committed offset is read from
    its beginning."""

    def subscribe(self, topic: str, listener: Listener) -> None:
        """Subscribe to a topic; later polls join the group."""

    def pause(self, partition: TopicPartition) -> None:
        """Stop returning its records; does nothing if the partition was revoked."""

    def resume(self, partition: TopicPartition) -> None:
        """Return its records again; does nothing if the partition was revoked."""

    def group(self) -> GroupMetadata:
        """The current view of the group; makes no request."""

    def silence_s(self) -> float:
        """Seconds since the broker last answered a heartbeat, or let us join."""

    def commit(self, offsets: Mapping[TopicPartition, int], timeout_s: float) -> None:
        """Commit the group's positions.

        Raises:
            GroupMovedOn: the group has a new generation, or is about to have one.
            BrokerUnavailable: no broker answers now.
            BrokerError: the broker refuses.
        """

    def committed(self, partition: TopicPartition, timeout_s: float) -> int | None:
        """The group's position, once no open transaction may change it; None if there is none.

        Raises:
            BrokerUnavailable: the position is not available now.
        """


Settled = Callable[[Exception | None], None]
"""Called once per record: with None if it is safe at the broker, else with the broker's refusal."""


class Producer(Protocol):
    """Sends in order, waits for all replicas, and never repeats a record. Thread-safe."""

    def send(self, record: OutgoingRecord, settled: Settled) -> None:
        """Queue a record; `settled` is called later, in any thread.

        It gets None, MessageTooLarge, NotAllowed, Fenced, or another BrokerError.

        Raises:
            BrokerUnavailable, BrokerError: the record was not queued; `settled` is not called.
        """

    def close(self, timeout_s: float) -> None:
        """Stop; records that are not settled yet may or may not have arrived."""


class TransactionalProducer(Producer, Protocol):
    """Also sends records and a group's positions in transactions, one after the other.

    Of all producers with the same name, only the last one may continue.

    `begin`, `send_offsets`, `commit` and `abort` raise GroupMovedOn, NotAllowed, Fenced, or
    DeliveryFailed if the outcome is unknown.
    """

    def begin_transactions(self) -> None:
        """Take over the name, and end the transaction left open under it. Call this first.

        Raises:
            NotAllowed, BrokerUnavailable, BrokerError: as their texts say.
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
        software: "kafka", "tansu" (the embedded broker), "memory" (the in-memory one), or
            "unknown".
        hides_aborted: readers of committed records never see those of aborted transactions;
            exactly-once depends on this. None: not known.
        exact_end_offsets: a request for a partition's end offset returns the true end.
        exact_times: a request for the offset of a time uses the records' timestamps.
        enforces_message_size: the broker itself refuses records above `max.message.bytes`.
        joins_at_once: a group assigns partitions as soon as its members have asked for them; else
            only after half their session timeout.
    """

    software: str
    hides_aborted: bool | None
    exact_end_offsets: bool = True
    exact_times: bool = True
    enforces_message_size: bool = True
    joins_at_once: bool = True


KAFKA = Capabilities("kafka", hides_aborted=True)
MEMORY = Capabilities("memory", hides_aborted=True)
UNKNOWN = Capabilities("unknown", hides_aborted=None)
TANSU = Capabilities("tansu", False, False, False, False, False)


class Admin(Protocol):
    """One connection, without state between calls.

    Each method raises BrokerUnavailable if no broker answers, NotAllowed if we lack the permission,
    and BrokerError if the broker refuses for any other reason.
    """

    def known_capabilities(self) -> Capabilities:
        """The known capabilities of this kind of broker; writes nothing."""

    def topic_names(self) -> list[str]:
        """All topics that we may see, sorted by name."""

    def describe_topic(self, topic: str) -> ExistingTopic | None:
        """The broker's description of a topic; None if the topic does not exist."""

    def create_topics(self, specs: Sequence[TopicSpec]) -> frozenset[str]:
        """Create missing topics, wait until all are usable, and return the names of the new ones.

        Without the permission to create topics, this fails only if one is missing.
        """

    def delete_topic(self, topic: str) -> None:
        """Delete a topic and its records."""

    def begins(self, partitions: Collection[TopicPartition]) -> Offsets:
        """The first offset that is still available, by partition."""

    def ends(self, partitions: Collection[TopicPartition]) -> Offsets:
        """The offset after the last record, by partition."""

    def group_offsets(self, group: str) -> Offsets:
        """A group's committed offsets; does not wait for transactions that may change them."""

    def move_group(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Change the committed offsets of a group that has no running members.

        Raises:
            BrokerError: the group has running members.
        """

    def members(self, group: str) -> dict[str, str]:
        """The name of each member of a group, by the member id from the broker.

        Raises:
            ValueError: the broker's answer cannot be read.
        """


class Broker(Protocol):
    """Opens connections, all with the same settings.

    Raises:
        BrokerUnavailable: no broker answered within `connect_timeout_s`.
        BadSettings: a broker answered, but refuses our login or cannot be trusted.
    """

    def admin(self) -> AbstractContextManager[Admin]:
        """Access to topics and groups, for the length of the block."""

    def producer(self) -> Producer:
        """A producer that publishes record by record."""

    def transactional_producer(self, name: str) -> TransactionalProducer:
        """A producer that uses transactions; no two at the same time may share a name."""

    def reader(self, stop: Stop | None = None) -> Reader:
        """A reader without a group.

        Args:
            stop: once it is set, wait at most `shutdown_timeout_s` for a client that does not
                return.
        """

    def member(self, group: str, max_records: int, stop: Stop) -> Member:
        """A group member that reads at most `max_records` records per poll."""
