"""Sends records, and tells of each whether it arrived."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from stream_icd.kafka.port.group_metadata import GroupMetadata
from stream_icd.kafka.port.partition import TopicPartition
from stream_icd.kafka.record import OutgoingRecord

Settled = Callable[[Exception | None], None]
"""Told once of a record: None, it is safe at the broker; else why the broker refused it."""


class Producer(Protocol):
    """Sends in order, waits for all replicas, never repeats a record. Safe with several threads."""

    def send(self, record: OutgoingRecord, settled: Settled) -> None:
        """Queue a record; `settled` is called later, in any thread.

        It is told of MessageTooLarge, NotAllowed, Fenced, or another BrokerError.

        Raises:
            BrokerUnavailable, BrokerError: it was not queued, and `settled` will not be called.
        """

    def close(self, timeout_s: float) -> None:
        """Stop; what was not settled by now may or may not have arrived."""


class TransactionalProducer(Producer, Protocol):
    """Also sends records and a group's positions in transactions, one after the other.

    Its name makes it one with its former selves: only the last of them may go on.

    `begin`, `send_offsets`, `commit` and `abort` raise GroupMovedOn, NotAllowed, Fenced, or
    DeliveryFailed where it is not known what happened.
    """

    def begin_transactions(self) -> None:
        """Take the name over, and end what a former self left open; to be called first.

        Raises:
            NotAllowed, BrokerUnavailable, BrokerError: as their texts say.
        """

    def begin(self) -> None:
        """Begin a transaction: what is sent from now on counts once it is committed."""

    def send_offsets(self, offsets: Mapping[TopicPartition, int], group: GroupMetadata) -> None:
        """Let a group's positions be committed with the transaction."""

    def commit(self) -> None:
        """Return when all of the transaction counts."""

    def abort(self) -> None:
        """Return when nothing of the transaction ever counts."""
