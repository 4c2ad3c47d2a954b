"""The interface to a broker for all code above the port."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from stream_icd.kafka.clock import Stop
from stream_icd.kafka.port.admin import Admin
from stream_icd.kafka.port.member import Member
from stream_icd.kafka.port.producer import Producer, TransactionalProducer
from stream_icd.kafka.port.reader import Reader


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
