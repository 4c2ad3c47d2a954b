"""Read partitions with kafka-python's consumer."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from kafka import errors as client

from stream_icd.errors import OffsetGone
from stream_icd.kafka.client.connections import all_theirs, milliseconds, theirs
from stream_icd.kafka.client.poll import Poller
from stream_icd.kafka.client.translate import translated
from stream_icd.kafka.client.workarounds import fetched_records as workaround
from stream_icd.kafka.client.workarounds.idle import let_broker_wait
from stream_icd.kafka.clock import IDLE_S, Stop
from stream_icd.kafka.port.broker import Polled, Undecodable
from stream_icd.kafka.port.topic import Offsets, TopicPartition
from stream_icd.kafka.record import Record
from stream_icd.kafka.settings import KafkaSettings

# How long a fetch waits for new records. The client has one request to a broker at a time, so the
# next fetch from a partition with a backlog waits until the fetch from the empty ones returns: with
# the usual 500 ms, a detector is idle for a fifth of the time.
FETCH_WAIT_MS = 100


class ClientReader:
    """Implements the port's Reader; closes the client's consumer."""

    def __init__(self, consumer: Any, settings: KafkaSettings, stop: Stop | None) -> None:
        self._consumer = consumer
        self._poller = Poller(consumer, stop, settings)

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        with translated("read"):
            self._consumer.assign(all_theirs(partitions))

    def assigned(self) -> frozenset[TopicPartition]:
        return frozenset(TopicPartition(*one) for one in self._consumer.assignment())

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._if_assigned(self._consumer.seek, partition, offset)

    def poll(self, timeout_s: float, max_records: int | None = None) -> Polled:
        with translated("read"):
            return self._polled(timeout_s, max_records)

    def position(self, partition: TopicPartition) -> int | None:
        try:
            found = self._consumer.position(theirs(partition), timeout_ms=0)
        except (client.KafkaError, AssertionError):  # it was revoked, or has no position yet
            return None
        return None if found is None else int(found)

    def fetched_end(self, partition: TopicPartition) -> int | None:
        try:
            end = self._consumer.highwater(theirs(partition))
        except (client.KafkaError, AssertionError):  # it was revoked
            return None
        return None if end is None else int(end)

    def begins(
        self, partitions: Collection[TopicPartition], timeout_s: float | None = None
    ) -> Offsets:
        return self._asked(self._consumer.beginning_offsets, partitions, timeout_s)

    def ends(
        self, partitions: Collection[TopicPartition], timeout_s: float | None = None
    ) -> Offsets:
        return self._asked(self._consumer.end_offsets, partitions, timeout_s)

    def at_time(self, partitions: Collection[TopicPartition], timestamp_ms: int) -> Offsets:
        asked = dict.fromkeys(all_theirs(partitions), timestamp_ms)
        with translated("read"):
            found = self._consumer.offsets_for_times(asked)
        return {p: int(found[p].offset) for p in partitions if found.get(p)}

    def close(self) -> None:
        self._poller.close()

    def _polled(self, timeout_s: float, max_records: int | None) -> Polled:
        wait_ms = FETCH_WAIT_MS if timeout_s < IDLE_S else milliseconds(timeout_s)
        let_broker_wait(self._consumer, wait_ms)
        try:
            polled = self._poller.poll(milliseconds(timeout_s), max_records)
        except client.OffsetOutOfRangeError as error:
            raise OffsetGone(str(error)) from error
        except workaround.Undecodable as error:
            raise Undecodable(str(error), TopicPartition(*error.partition), error.end) from error
        return {TopicPartition(*p): [_ours(r) for r in found] for p, found in polled.items()}

    def _asked(
        self, ask: Any, partitions: Collection[TopicPartition], timeout_s: float | None
    ) -> Offsets:
        with translated("read"):
            found = ask(all_theirs(partitions), **_within(timeout_s))
        return {partition: int(found[partition]) for partition in partitions}

    @staticmethod
    def _if_assigned(change: Any, partition: TopicPartition, *rest: int) -> None:
        """Make the change, unless the client has revoked the partition without telling us yet."""
        try:
            change(theirs(partition), *rest)
        except (KeyError, ValueError, client.IllegalStateError):
            return


def _within(timeout_s: float | None) -> dict[str, int]:
    return {} if timeout_s is None else {"timeout_ms": milliseconds(timeout_s)}


def _ours(record: Any) -> Record:
    """Convert the client's record to ours."""
    headers = tuple((str(name), b"" if value is None else value) for name, value in record.headers)
    return Record(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp,
        record.key,
        record.value,
        headers,
    )
