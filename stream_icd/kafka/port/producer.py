"""Send records, and report whether each one arrived."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from stream_icd.kafka.port.group_metadata import GroupMetadata
from stream_icd.kafka.port.partition import TopicPartition
from stream_icd.kafka.record import OutgoingRecord

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
