"""A broker, as everything above the port reaches it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from stream_icd.kafka.port.admin import Admin
from stream_icd.kafka.port.member import Member
from stream_icd.kafka.port.producer import Producer, TransactionalProducer
from stream_icd.kafka.port.reader import Reader
from stream_icd.kafka.stop import Stop


class Broker(Protocol):
    """Opens connections, each by the same settings.

    Raises:
        BrokerUnavailable: nobody answered within `connect_timeout_s`.
        BadSettings: somebody answered, and refuses what we log in with, or is not to be trusted.
    """

    def admin(self) -> AbstractContextManager[Admin]:
        """Topics and groups, for the length of the block."""

    def producer(self) -> Producer:
        """Publishes record by record."""

    def transactional_producer(self, name: str) -> TransactionalProducer:
        """Publishes in transactions; no two at the same time may share a name."""

    def reader(self, stop: Stop | None = None) -> Reader:
        """Reads without a group.

        Args:
            stop: once it is set, a client that does not return is waited for no longer than
                `shutdown_timeout_s`.
        """

    def member(self, group: str, max_records: int, stop: Stop) -> Member:
        """Reads as a member of a group, at most so many records a poll."""
