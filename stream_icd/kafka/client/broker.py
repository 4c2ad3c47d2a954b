"""Brokers that kafka-python reaches over the network."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

from stream_icd.kafka.client.admin import ClientAdmin
from stream_icd.kafka.client.connections import open_admin, open_consumer, open_producer
from stream_icd.kafka.client.member import ClientMember
from stream_icd.kafka.client.options import milliseconds
from stream_icd.kafka.client.producer import ClientProducer, ClientTransactionalProducer
from stream_icd.kafka.client.reader import ClientReader
from stream_icd.kafka.clock import Stop
from stream_icd.kafka.settings import KafkaSettings


class ClientBroker:
    """Implements the port's Broker with the addresses, login and timeouts of the settings."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings

    @contextmanager
    def admin(self) -> Iterator[ClientAdmin]:
        with open_admin(self._settings) as admin:
            yield ClientAdmin(admin, self._settings)

    def producer(self) -> ClientProducer:
        return ClientProducer(open_producer(self._settings))

    def transactional_producer(self, name: str) -> ClientTransactionalProducer:
        return ClientTransactionalProducer(open_producer(self._settings, name), name)

    def reader(self, stop: Stop | None = None) -> ClientReader:
        return ClientReader(open_consumer(self._settings), self._settings, stop)

    def member(self, group: str, max_records: int, stop: Stop) -> ClientMember:
        settings = self._settings
        consumer = open_consumer(
            settings,
            group_id=group,
            client_id=settings.member_name,
            max_poll_records=max_records,
            session_timeout_ms=milliseconds(settings.session_timeout_s),
            heartbeat_interval_ms=milliseconds(settings.heartbeat_interval_s),
            max_poll_interval_ms=milliseconds(settings.max_poll_interval_s),
            partition_assignment_strategy=(CooperativeStickyAssignor,),
        )
        return ClientMember(consumer, settings, stop)
