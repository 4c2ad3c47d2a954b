"""Publish with kafka-python's producer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kafka import errors as client
from kafka.structs import ConsumerGroupMetadata

from stream_icd.errors import BrokerError, DeliveryFailed, MessageTooLarge
from stream_icd.kafka.client.connections import NULL, positions
from stream_icd.kafka.client.translate import (
    GROUP_MOVED_ON,
    TOO_LARGE,
    lacks_right,
    translate,
    translated,
)
from stream_icd.kafka.client.workarounds.fetched_records import HeaderName
from stream_icd.kafka.client.workarounds.producers import close_producer
from stream_icd.kafka.port import Fenced, GroupMetadata, GroupMovedOn, Settled, TopicPartition
from stream_icd.kafka.record import OutgoingRecord


class ClientProducer:
    """Implements the port's Producer; closes the client's producer."""

    def __init__(self, producer: Any) -> None:
        self._producer = producer

    def send(self, record: OutgoingRecord, settled: Settled) -> None:
        try:
            future = self._producer.send(
                record.topic,
                value=NULL if record.value is None and record.key is None else record.value,
                key=record.key,
                headers=[(HeaderName(name), value) for name, value in record.headers],
                partition=record.partition,
                timestamp_ms=record.timestamp_ms,
            )
        except client.KafkaError as error:
            raise translate(error, f"publish to {record.topic}") from error
        except ValueError as error:
            raise BrokerError(f"publish to {record.topic}: {error}") from error
        future.add_callback(lambda _: settled(None))
        future.add_errback(lambda error: settled(_refusal(error, record.topic)))

    def close(self, timeout_s: float) -> None:
        close_producer(self._producer, timeout_s)


class ClientTransactionalProducer(ClientProducer):
    """Implements the port's TransactionalProducer, under one name."""

    def __init__(self, producer: Any, name: str) -> None:
        super().__init__(producer)
        self._name = name

    def begin_transactions(self) -> None:
        with translated(f"begin transactions as {self._name}"):
            self._producer.init_transactions()

    def begin(self) -> None:
        self._in_transaction(self._producer.begin_transaction)

    def send_offsets(self, offsets: Mapping[TopicPartition, int], group: GroupMetadata) -> None:
        generation = ConsumerGroupMetadata(group.group, group.generation, group.member_id)
        send = self._producer.send_offsets_to_transaction
        self._in_transaction(send, positions(offsets), generation)

    def commit(self) -> None:
        self._in_transaction(self._producer.commit_transaction)

    def abort(self) -> None:
        self._in_transaction(self._producer.abort_transaction)

    def _in_transaction(self, call: Callable[..., object], *arguments: object) -> None:
        try:
            call(*arguments)
        except GROUP_MOVED_ON as error:
            raise GroupMovedOn(str(error)) from error
        except client.KafkaError as error:
            if lacks_right(error):
                raise translate(error, f"publish in a transaction as {self._name}") from error
            kind = Fenced if _is_fenced(error) else DeliveryFailed
            raise kind(f"the transaction did not succeed: {error}") from error


def _is_fenced(error: Exception) -> bool:
    fenced = (client.ProducerFencedError, client.InvalidProducerEpochError)
    in_words = client.ProducerFencedError.__name__  # if the client itself refuses
    return isinstance(error, fenced) or in_words in str(error)


def _refusal(error: Exception, topic: str) -> Exception:
    """The error that says why the broker refused a record."""
    if isinstance(error, TOO_LARGE):
        refused: Exception = MessageTooLarge(str(error))
    elif lacks_right(error):
        refused = translate(error, f"publish to {topic}")
    else:
        refused = Fenced(str(error)) if _is_fenced(error) else BrokerError(str(error))
    refused.__cause__ = error
    return refused
