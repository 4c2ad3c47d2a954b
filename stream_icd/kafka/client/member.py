"""Read as a member of a group with kafka-python's consumer."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping
from typing import Any

from kafka import ConsumerRebalanceListener
from kafka import errors as client
from kafka.structs import MemberState

from stream_icd.errors import BrokerUnavailable, StreamIcdError
from stream_icd.kafka.client.connections import milliseconds, positions, theirs
from stream_icd.kafka.client.reader import ClientReader
from stream_icd.kafka.client.translate import GROUP_MOVED_ON, translate, translated
from stream_icd.kafka.client.workarounds.consumers import (
    is_joining,
    keep_joining,
    last_heard,
    poll_past_heartbeats,
    set_heartbeat_interval,
)
from stream_icd.kafka.clock import BUSY_S, IDLE_S, Stop
from stream_icd.kafka.port import GroupMetadata, GroupMovedOn, Listener, Polled, TopicPartition
from stream_icd.kafka.settings import KafkaSettings

LAST_JOIN_S = 3.0


class ClientMember(ClientReader):
    """Implements the port's Member."""

    _topic = ""

    def __init__(self, consumer: Any, settings: KafkaSettings, stop: Stop) -> None:
        super().__init__(consumer, settings, stop)
        poll_past_heartbeats(consumer)
        self._interval_s = settings.heartbeat_interval_s
        self._idle_interval_s = max(self._interval_s, min(IDLE_S, settings.session_timeout_s / 3))

    def subscribe(self, topic: str, listener: Listener) -> None:
        self._topic = topic
        self._consumer.subscribe([topic], listener=_Told(listener))

    def poll(self, timeout_s: float, max_records: int | None = None) -> Polled:
        interval_s = self._idle_interval_s if timeout_s >= IDLE_S else self._interval_s
        set_heartbeat_interval(self._consumer, milliseconds(interval_s))
        try:
            polled = self._polled(timeout_s, max_records)
            keep_joining(self._consumer)
            return polled
        except client.NoOffsetForPartitionError as error:
            for partition in error.args[0]:  # the group never committed it
                self._if_assigned(self._consumer.seek_to_beginning, TopicPartition(*partition))
            return {}
        except client.RetriableError as error:  # also if a topic is briefly unknown
            raise BrokerUnavailable(str(error)) from error
        except client.KafkaError as error:
            raise translate(error, f"consume {self._topic}") from error

    def close(self) -> None:
        """Leave the group; first finish a join, or the embedded broker keeps a member that is gone.

        There, nobody else would get a partition for five minutes.
        """
        until = time.monotonic() + LAST_JOIN_S
        with contextlib.suppress(client.KafkaError, StreamIcdError):
            while is_joining(self._consumer) and time.monotonic() < until:
                self._poll_client(BUSY_S)
        super().close()

    def pause(self, partition: TopicPartition) -> None:
        self._if_assigned(self._consumer.pause, partition)

    def resume(self, partition: TopicPartition) -> None:
        self._if_assigned(self._consumer.resume, partition)

    def group(self) -> GroupMetadata:
        known = self._consumer.group_metadata()
        stable = known.state == MemberState.STABLE
        return GroupMetadata(known.group_id, known.generation_id, known.member_id, stable)

    def silence_s(self) -> float:
        return time.monotonic() - last_heard(self._consumer)

    def commit(self, offsets: Mapping[TopicPartition, int], timeout_s: float) -> None:
        try:
            self._consumer.commit(positions(offsets), timeout_ms=milliseconds(timeout_s))
        except GROUP_MOVED_ON as error:
            raise GroupMovedOn(str(error)) from error
        except client.RetriableError as error:
            raise BrokerUnavailable(str(error)) from error
        except client.KafkaError as error:
            places = ", ".join(f"{place} up to {offset}" for place, offset in offsets.items())
            raise translate(error, f"commit {places}") from error

    def committed(self, partition: TopicPartition, timeout_s: float) -> int | None:
        with translated("look up what is committed"):
            found = self._consumer.committed(theirs(partition), timeout_ms=milliseconds(timeout_s))
        return None if found is None else int(found)


class _Told(ConsumerRebalanceListener):  # type: ignore[misc]
    """Notifies a listener of the port; the client calls this in its I/O thread."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self._listener.assigned([TopicPartition(*one) for one in assigned])

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        self._listener.revoked([TopicPartition(*one) for one in revoked])
