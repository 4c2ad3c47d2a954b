"""Read with kafka-python's consumer: partitions, or as a member of a group."""

from __future__ import annotations

import concurrent.futures
import contextlib
import logging
import time
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import kafka
from kafka import errors as client
from kafka.structs import MemberState

from stream_icd.core.errors import (
    BrokerUnavailable,
    ClientStuck,
    MessageTooLarge,
    OffsetGone,
    StreamIcdError,
    TopicMissing,
)
from stream_icd.kafka.client.connections import all_theirs, milliseconds, their_offsets
from stream_icd.kafka.client.translate import GROUP_MOVED_ON, translate, translated
from stream_icd.kafka.client.workarounds import ConsumerParts
from stream_icd.kafka.port import (
    GroupMetadata,
    GroupMovedOn,
    Leaderless,
    Listener,
    Offsets,
    Partitions,
    Polled,
    TopicPartition,
)
from stream_icd.kafka.record import Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.waiting import BUSY_S, IDLE_S, Stop, TaskThread

_log = logging.getLogger(__name__)

# A fetch waits for new records as long as its poll may; while records come, at most this long. The
# client has one request to a broker at a time, so the next fetch from a partition with a backlog
# waits until the fetch from the empty ones returns: with the usual 500 ms, a detector is idle for a
# fifth of the time.
_FETCH_WAIT_S = 0.1
_LOOK_EVERY_S = 1.0
CLOSE_TIMEOUT_S = 2.0
_LAST_JOIN_S = 3.0


class ClientReader:
    """Implements the port's Reader; closes the client's consumer.

    The client polls in a thread of its own, which dies with the process: neither a poll nor the end
    blocks forever if the client never returns. A poll is taken as never returning once it takes
    longer than `max_poll_interval_s`, when the group removes the member.
    """

    def __init__(self, consumer: Any, settings: KafkaSettings, stop: Stop | None) -> None:
        self._consumer, self._parts = consumer, ConsumerParts(consumer)
        self._settings, self._stop = settings, stop
        self._thread = TaskThread("poll")
        self._is_stuck = self._is_closed = False
        self._topic_ids: dict[str, int] = {}

    def partitions(self, topic: str) -> int:
        return self._parts.partitions_of(topic)

    def assign(self, partitions: Partitions) -> None:
        with translated("read"):
            self._consumer.assign(all_theirs(partitions))

    def assigned(self) -> frozenset[TopicPartition]:
        return frozenset(_all_ours(self._consumer.assignment()))

    def seek(self, partition: TopicPartition, offset: int) -> None:
        _if_assigned(self._consumer.seek, partition, offset)

    def poll(self, timeout_s: float, max_records: int | None = None) -> Polled:
        with translated("read"):
            return self._polled(timeout_s, max_records)

    def position(self, partition: TopicPartition) -> int | None:
        return _known(partial(self._consumer.position, timeout_ms=0), partition)

    def fetched_end(self, partition: TopicPartition) -> int | None:
        return _known(self._consumer.highwater, partition)

    def begins(self, partitions: Partitions, timeout_s: float | None = None) -> Offsets:
        return self._offsets(self._consumer.beginning_offsets, partitions, timeout_s)

    def ends(self, partitions: Partitions, timeout_s: float | None = None) -> Offsets:
        return self._offsets(self._consumer.end_offsets, partitions, timeout_s)

    def _offsets(self, ask: Any, partitions: Partitions, timeout_s: float | None) -> Offsets:
        timeout_ms = milliseconds(timeout_s or self._settings.connect_timeout_s)
        try:
            with translated("read"):
                offsets = ask(all_theirs(partitions), timeout_ms=timeout_ms)
        except KeyError as error:  # the client (3.0.12) leaves out a partition without a leader
            raise Leaderless(f"no broker leads {TopicPartition(*error.args[0])} now") from error
        return {partition: int(offsets[partition]) for partition in partitions}

    def at_time(self, partitions: Partitions, timestamp_ms: int) -> Offsets:
        times = dict.fromkeys(all_theirs(partitions), timestamp_ms)
        with translated("read"):
            firsts = self._consumer.offsets_for_times(
                times, milliseconds(self._settings.connect_timeout_s)
            )
        return {p: int(firsts[p].offset) for p in partitions if firsts.get(p)}

    def close(self) -> None:
        """Close the client after its current poll; abandon it if it does not return."""
        if self._is_closed:
            return
        self._is_closed = True
        # The client is not made for several threads: this waits for the poll in progress.
        close = partial(self._consumer.close, timeout_ms=milliseconds(CLOSE_TIMEOUT_S))
        closing = self._thread.submit(close)
        self._thread.close()
        patience_s = 0.0 if self._is_stuck else self._settings.shutdown_timeout_s
        if not concurrent.futures.wait([closing], patience_s).done:
            _log.warning("the Kafka client does not close; ending without closing it")
            return
        try:
            closing.result()
        except client.KafkaError as error:  # it is closed all the same, and earlier work is valid
            _log.warning("closing the Kafka client: %s", error)

    def _polled(self, timeout_s: float, max_records: int | None) -> Polled:
        wait_s = timeout_s if timeout_s >= IDLE_S else min(timeout_s, _FETCH_WAIT_S)
        self._parts.let_broker_wait(milliseconds(wait_s))
        try:
            polled = self._poll_client(timeout_s, max_records)
        except (client.OffsetOutOfRangeError, client.LogTruncationError) as error:
            raise OffsetGone(str(error)) from error
        # After the poll, which renews what is known of topics, and before anybody gets its records.
        self._check_topics()
        return {TopicPartition(*p): [_ours(r) for r in records] for p, records in polled.items()}

    def _poll_client(self, timeout_s: float, max_records: int | None = None) -> dict[Any, Any]:
        """Poll in the client's thread; raises its errors, MessageTooLarge or ClientStuck."""
        timeout_ms = milliseconds(timeout_s)
        poll = partial(self._consumer.poll, timeout_ms=timeout_ms, max_records=max_records)
        polling = self._thread.submit(poll)
        waited_s = 0.0  # counted, not measured, so that a suspended machine does not count
        while not concurrent.futures.wait([polling], _LOOK_EVERY_S).done:
            waited_s += _LOOK_EVERY_S
            # Not less: the client (3.0.12) resolves names of brokers in a poll, which may take
            # minutes if no name server answers.
            patience_s = self._settings.max_poll_interval_s
            if self._stop is not None and self._stop.is_set():
                patience_s = min(patience_s, self._settings.shutdown_timeout_s)
            if waited_s >= patience_s:
                self._is_stuck = True
                next_offsets = self._parts.reads_next().items()
                places = ", ".join(f"{TopicPartition(*p)} at offset {at}" for p, at in next_offsets)
                raise ClientStuck(
                    f"the Kafka client has not returned for {waited_s:.0f} s while reading "
                    f"{places}. Start again. If it stops at the same offset again, skip that record"
                )
        polled: dict[Any, Any] = polling.result()
        if not polled:  # else the last failure may be older than these records
            self._check_room()
        return polled

    def _check_topics(self) -> None:
        """Raise an error if a topic is another one by now: our offsets are not in it."""
        for topic in {partition.topic for partition in self.assigned()}:
            topic_id = self._parts.topic_id(topic)
            if topic_id and self._topic_ids.setdefault(topic, topic_id) != topic_id:
                raise TopicMissing(
                    f"topic {topic} was deleted and created again: start again, to read it from "
                    "its beginning"
                )

    def _check_room(self) -> None:
        """Raise an error if a poll was empty because the next record is too large.

        The client (3.0.12) only logs this, and requests the record again forever.
        """
        failure = self._parts.last_failure()
        # While partitions are paused, every poll is empty.
        if isinstance(failure, client.InvalidReceiveError) and not self._consumer.paused():
            raise MessageTooLarge(
                f"the next record of {', '.join(map(str, sorted(self.assigned())))} is too large: "
                "a response may have at most "
                f"{self._consumer.config['receive_message_max_bytes']} bytes ({failure.args[0]}). "
                "Set STREAM_ICD_MAX_MESSAGE_BYTES to that length here, and a claim store where "
                "large snapshots are sent (docs/big_snapshots.md)"
            )


class ClientMember(ClientReader):
    """Implements the port's Member."""

    _topic = ""

    def __init__(self, consumer: Any, settings: KafkaSettings, stop: Stop) -> None:
        super().__init__(consumer, settings, stop)
        interval_s = settings.heartbeat_interval_s
        self._idle_interval_s = max(interval_s, min(IDLE_S, settings.session_timeout_s / 3))
        # To be read from their beginning, since the group never committed them; nothing was yet.
        self._unread: set[TopicPartition] = set()

    def subscribe(self, topic: str, listener: Listener) -> None:
        self._topic = topic
        self._consumer.subscribe([topic], listener=_Told(listener, self._unread))

    def poll(self, timeout_s: float, max_records: int | None = None) -> Polled:
        is_idle = timeout_s >= IDLE_S
        interval_s = self._idle_interval_s if is_idle else self._settings.heartbeat_interval_s
        self._parts.set_heartbeat_interval(milliseconds(interval_s))
        try:
            polled = self._polled(timeout_s, max_records)
            self._parts.keep_joining()
            # From here on, a gap would lose records that the group has not seen: it is an error.
            self._unread.difference_update(polled)
            return polled
        except client.NoOffsetForPartitionError as error:
            self._begin(_all_ours(error.args[0]))
            return {}
        except OffsetGone as error:
            refused = error.__cause__
            if not isinstance(refused, client.OffsetOutOfRangeError):
                raise
            gone = _all_ours(refused.args[0])
            if not self._unread.issuperset(gone):
                raise
            places = ", ".join(map(str, gone))
            _log.warning("retention removed the beginning of %s: reading what is left", places)
            self._begin(gone)
            return {}
        except client.RetriableError as error:  # also if a topic is briefly unknown
            raise BrokerUnavailable(str(error)) from error
        except client.KafkaError as error:
            raise translate(error, f"consume {self._topic}") from error

    def _begin(self, partitions: Partitions) -> None:
        for partition in partitions:
            self._unread.add(partition)
            _if_assigned(self._consumer.seek_to_beginning, partition)

    def close(self) -> None:
        until = time.monotonic() + _LAST_JOIN_S
        # First finish a join, or the embedded broker keeps a member that is gone, and nobody else
        # would get a partition for five minutes.
        with contextlib.suppress(client.KafkaError, StreamIcdError):
            while self._parts.is_joining() and time.monotonic() < until:
                self._poll_client(BUSY_S)
        super().close()

    def pause(self, partition: TopicPartition) -> None:
        _if_assigned(self._consumer.pause, partition)

    def resume(self, partition: TopicPartition) -> None:
        _if_assigned(self._consumer.resume, partition)

    def group(self) -> GroupMetadata:
        ours = self._consumer.group_metadata()
        stable = ours.state == MemberState.STABLE
        return GroupMetadata(ours.group_id, ours.generation_id, ours.member_id, stable)

    def silence_s(self) -> float:
        return time.monotonic() - self._parts.last_heard()

    def commit(self, offsets: Mapping[TopicPartition, int], timeout_s: float) -> None:
        try:
            self._consumer.commit(their_offsets(offsets), timeout_ms=milliseconds(timeout_s))
        except GROUP_MOVED_ON as error:
            raise GroupMovedOn(str(error)) from error
        except client.RetriableError as error:
            raise BrokerUnavailable(str(error)) from error
        except client.KafkaError as error:
            places = ", ".join(f"{place} up to {offset}" for place, offset in offsets.items())
            raise translate(error, f"commit {places}") from error

    def committed(self, partition: TopicPartition, timeout_s: float) -> int | None:
        (theirs,), timeout_ms = all_theirs([partition]), milliseconds(timeout_s)
        with translated("look up what is committed"):
            offset = self._consumer.committed(theirs, timeout_ms=timeout_ms)
        return None if offset is None else int(offset)


class _Told(kafka.ConsumerRebalanceListener):  # type: ignore[misc]
    """Notifies a listener of the port; the client calls this in its I/O thread."""

    def __init__(self, listener: Listener, unread: set[TopicPartition]) -> None:
        self._listener = listener
        self._unread = unread

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        # Others may have committed them since we had them last.
        self._unread.difference_update(_all_ours(assigned))
        self._listener.assigned(_all_ours(assigned))

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        self._listener.revoked(_all_ours(revoked))


def _known(ask: Any, partition: TopicPartition) -> int | None:
    try:
        offset = ask(kafka.TopicPartition(*partition))
    except (client.KafkaError, AssertionError):  # it was revoked, or has no position yet
        return None
    return None if offset is None else int(offset)


def _if_assigned(change: Any, partition: TopicPartition, *rest: int) -> None:
    """Make the change, unless the client has revoked the partition without telling us yet."""
    try:
        change(kafka.TopicPartition(*partition), *rest)
    except (KeyError, ValueError, client.IllegalStateError):
        return


def _all_ours(partitions: Iterable[Any]) -> list[TopicPartition]:
    return [TopicPartition(*partition) for partition in partitions]


def _ours(record: Any) -> Record:
    headers = tuple((str(name), b"" if value is None else value) for name, value in record.headers)
    where = record.topic, record.partition, record.offset
    return Record(*where, record.timestamp, record.key, record.value, headers)
