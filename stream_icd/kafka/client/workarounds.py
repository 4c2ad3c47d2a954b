"""Workarounds for what kafka-python 3.0.12 lacks or does wrong; they also fit its main branch, 3.1.

Only this file uses private parts of the client; tests/kafka/test_private_parts.py names each of
them. If a release drops one, check here whether the workaround is still needed. Four of these
faults have a program in docs/kafka_client.md, which fails once a release mends it. Upstream,
dpkp/kafka-python#3108 is about closing a producer while its broker is unavailable; the main branch
still kept offsets too long in August 2026.
"""

from __future__ import annotations

import contextlib
import logging
import ssl
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from math import inf
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka import errors as client
from kafka.consumer.fetcher import Fetcher
from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslBytesRequest
from kafka.record.default_records import DefaultRecordBatch
from kafka.serializer import SerializeWrapper
from kafka.structs import MemberState

from stream_icd.core.headers import Headers
from stream_icd.kafka import port
from stream_icd.kafka.client.translate import final_reason

try:
    from kafka.net.selector import NetworkSelector as NetworkSelector
    from kafka.net.transport import KafkaTCPTransport as KafkaTCPTransport
except ModuleNotFoundError:  # since 3.1
    from kafka.net.backend.selector import NetworkSelector as NetworkSelector
    from kafka.net.backend.transport import KafkaTCPTransport as KafkaTCPTransport

Partitions = Collection[TopicPartition]


def mend(opened: Any) -> None:
    """Mend a new consumer or producer; other clients need nothing."""
    if isinstance(opened, KafkaConsumer):
        _mend_consumer(opened)
    if isinstance(opened, KafkaProducer):
        _mend_producer(opened)


def _mend_consumer(consumer: Any) -> None:
    """Make it decode any header name, and raise `Undecodable` where it cannot decode.

    A member also loses its partitions with its membership, and ignores responses that came late.
    """
    consumer._fetcher.PartitionRecords = _FetchedRecords
    if consumer.config["group_id"] is not None:
        # A poll would begin anew whenever a heartbeat is due, though another thread sends it. No
        # offset is committed by itself, so nothing else is due.
        consumer._coordinator.time_to_next_poll = lambda: inf
        _lose_partitions_with_membership(consumer)
        _forget_old_answers(consumer)


@dataclass(frozen=True, slots=True)
class ConsumerParts:
    """What a consumer knows and does not publish, and the intervals that it does not let change.

    The best intervals depend on what a consumer does. Each answer costs more than a millisecond of
    CPU time, and an idle consumer got twelve a second.
    """

    _consumer: Any

    def let_broker_wait(self, milliseconds: int) -> None:
        """Make the next fetches wait that long for new records, at most."""
        # Short while records come: the client has one fetch to a broker at a time, so what is
        # waited for empty partitions is missing for others.
        self._consumer._fetcher.config["fetch_max_wait_ms"] = milliseconds

    def set_heartbeat_interval(self, milliseconds: int) -> None:
        # Short while the group works: a heartbeat tells a member that others join or leave, and
        # they wait for it.
        self._consumer._coordinator.heartbeat.config["heartbeat_interval_ms"] = milliseconds

    def last_heard(self) -> float:
        """When the broker last answered a heartbeat, or let us join; by the monotonic clock."""
        heartbeat = self._consumer._coordinator.heartbeat
        return float(max(heartbeat.last_receive, heartbeat.last_reset))

    def is_joining(self) -> bool:
        return bool(self._consumer.group_metadata().state == MemberState.REBALANCING)

    def keep_joining(self) -> None:
        """Make the next poll continue a join that the last poll left unfinished."""
        # The client forgets a join for a change of metadata if the poll timed out during the
        # assignment; the member would never join again.
        if self.is_joining():
            self._consumer._coordinator.request_rejoin()

    def partitions_of(self, topic: str) -> int:
        """How many partitions a topic has, as the consumer knows."""
        # The client's own `partitions_for_topic` waits for the broker, without a timeout, if the
        # topic is unknown (by now).
        return len(self._consumer._cluster.partitions_for_topic(topic) or ())

    def topic_id(self, topic: str) -> int:
        """The id of a topic, which is another one if it is created again; 0: it is not known."""
        # The client only logs that a topic was created again, and reads on at the old offset.
        topic_id = self._consumer._cluster.topic_id(topic)
        return 0 if topic_id is None else int(topic_id.int)

    def reads_next(self) -> dict[TopicPartition, int]:
        """The offset of the next record of the partition that is decoded now, or of each partition;
        also while the client hangs."""
        decoded = self._consumer._fetcher._next_partition_records
        if decoded is not None:
            return {decoded.topic_partition: decoded.next_fetch_offset}
        assignment = dict(self._consumer._subscription.assignment)
        return {p: state.position.offset for p, state in assignment.items() if state.position}

    def last_failure(self) -> Exception | None:
        """Why the last connection failed; None if none did."""
        network: Network = self._consumer._client
        return network.failure


def _lose_partitions_with_membership(consumer: Any) -> None:
    """Make a removed member give up all partitions before it joins again.

    If the member learned of its removal from the response to a join, it would keep its partitions
    and positions, and records were processed twice, or skipped.
    """
    coordinator = consumer._coordinator
    reset = coordinator.reset_generation

    def reset_generation(*args: str, **member_id: str) -> None:
        reset(*args, **member_id)
        # A join is prepared only once. Prepare the next one, too: it sees the lost generation.
        coordinator.rejoining = False
        for assignor in coordinator._assignors.values():
            # Else it claims the partitions as owned, without a generation, and takes them from
            # the members that got them meanwhile.
            assignor.member_assignment = None

    coordinator.reset_generation = reset_generation


def _forget_old_answers(consumer: Any) -> None:
    """Make a member ignore the response to a request that timed out.

    The client keeps it until the same partitions are requested again, however much later. A member
    that got a partition back then started at the old offset, and records that others had committed
    meanwhile were processed twice.

    Exception: to find a start position, it accepts a response from the same group generation, as
    Kafka's own client does. No other member commits there meanwhile, and a poll may be shorter than
    the round trip.
    """
    coordinator = consumer._coordinator
    ask = coordinator.fetch_committed_offsets_async
    requests = coordinator._offset_fetch_futures
    last_generation = _generation(consumer)

    async def ask_in_generation(partitions: Partitions, timeout_ms: float | None = None) -> Any:
        nonlocal last_generation
        generation = _generation(consumer)
        if generation != last_generation:
            requests.clear()
        last_generation = generation
        return await ask(partitions, timeout_ms=timeout_ms)

    async def ask_now(partitions: Partitions, timeout_ms: float | None) -> Any:
        # Before: what an earlier call left. After: what this one leaves if it times out.
        requests.pop(frozenset(partitions), None)
        try:
            return await ask(partitions, timeout_ms=timeout_ms)
        finally:
            requests.pop(frozenset(partitions), None)

    def ask_now_and_wait(partitions: Partitions, timeout_ms: float | None = None) -> Any:
        return coordinator._net.run(ask_now, partitions, timeout_ms)

    coordinator.fetch_committed_offsets_async = ask_in_generation  # for start positions
    coordinator.fetch_committed_offsets = ask_now_and_wait  # KafkaConsumer.committed


def _generation(consumer: Any) -> tuple[int, str]:
    """The group's generation and our member id; a removed member gets a new id."""
    membership = consumer.group_metadata()
    return membership.generation_id, membership.member_id


class _HeaderName(str):
    """A header's name that keeps non-UTF-8 bytes: as lone surrogates (PEP 383).

    Brokers accept such names, and the client raises UnicodeDecodeError: one record stopped a
    partition for every reader.
    """

    __slots__ = ()

    def encode(self, encoding: str = "utf-8", errors: str = "surrogateescape") -> bytes:
        """The original bytes; the client calls this to send them."""
        return super().encode(encoding, errors)


class _FetchedRecords(Fetcher.PartitionRecords):  # type: ignore[misc]
    def _unpack_records(self, partition: TopicPartition, records: Any, *rest: Any) -> Iterator[Any]:
        self._batches = _Batches(records)
        unpacked: Iterator[Any] = super()._unpack_records(partition, self._batches, *rest)
        return unpacked

    def take(self, n: int | None = None) -> list[Any]:
        try:
            records: list[Any] = super().take(n)
        except Exception as error:
            # Keep the error, so that every poll raises it again: after any error in the middle of a
            # fetch, the client would loop forever inside `poll`, over an iterator that has ended.
            self._next_inline_exception = self._named(error)
            raise self._next_inline_exception from error
        return records

    def _named(self, error: Exception) -> port.Undecodable:
        """The error with the offsets of the undecodable batch, from the next record on."""
        if isinstance(error, port.Undecodable):
            return error
        partition, offset = port.TopicPartition(*self.topic_partition), self.next_fetch_offset
        end = max(offset + 1, self._batches.end)
        return port.Undecodable(
            f"{partition} holds records that cannot be decoded, from offset {offset} up to, not "
            f"including, {end} ({type(error).__name__}: {error})",
            partition,
            end,
        )


class _Batches:
    """The batches of a fetch; `end` is the end of the current batch."""

    def __init__(self, records: Any) -> None:
        self._records = records
        self.end = 0

    def next_batch(self) -> Any:
        batch = self._records.next_batch()
        if isinstance(batch, DefaultRecordBatch):
            self.end = batch.next_offset
            return _Batch(batch._buffer)
        return batch


class _Batch(DefaultRecordBatch):  # type: ignore[misc]
    """Decodes as the client does; after the first header name that fails, accepts any name."""

    _buffer: bytearray

    def _read_msg(self) -> Any:
        try:
            return super()._read_msg()
        except UnicodeDecodeError:  # nothing was consumed from the buffer
            self._buffer = _Buffer(self._buffer)
            return super()._read_msg()


class _Buffer(bytearray):
    """Bytes whose slices decode to a _HeaderName."""

    def __getitem__(self, index: Any) -> Any:
        part = super().__getitem__(index)
        return _Buffer(part) if isinstance(part, bytearray) else part

    def decode(self, encoding: str = "utf-8", _: str = "strict") -> _HeaderName:
        return _HeaderName(super().decode(encoding, "surrogateescape"))


_SEND_AGAIN_MS = 500
_NULL = object()


def _mend_producer(producer: Any) -> None:
    """Make it take any record, close in time, and forget refused offsets."""
    transactions = producer._transaction_manager
    begin = transactions.begin_transaction

    def begin_transaction() -> None:
        # If the broker refuses an offset because the group has a new generation, the client keeps
        # it after the abort, and sends it with the next transaction. The broker accepts it then: so
        # the group went back, or forward, in a partition of another member, and results came twice,
        # or never. Kafka's own client forgets such offsets when the request ends.
        transactions._pending_txn_offset_commits.clear()
        begin()

    def send_any(topic: str, value: Any = None, headers: Headers = (), **named: Any) -> Any:
        # The client encodes a name three times: plain ones are faster.
        plain = [(name if name.isascii() else _HeaderName(name), text) for name, text in headers]
        # The client refuses to send a record with both key and value None.
        value = _NULL if value is None and named.get("key") is None else value
        return KafkaProducer.send(producer, topic, value, headers=plain, **named)

    def close_in_time(timeout: float | None = None, **options: Any) -> None:
        """Close within about twice `timeout`, even with unacknowledged records."""
        try:
            KafkaProducer.close(producer, timeout=timeout, **options)
        except client.KafkaTimeoutError:  # it flushes first, and is still open if that takes long
            producer._sender.force_close()
            with contextlib.suppress(client.KafkaTimeoutError):
                KafkaProducer.close(producer, timeout=timeout, **options)

    transactions.begin_transaction = begin_transaction
    producer.send, producer.close = send_any, close_in_time
    as_sent = SerializeWrapper(lambda value: None if value is _NULL else value)
    producer.config["value_serializer"] = as_sent
    # Records that a broker refuses for now, as without enough replicas, are not sent again at the
    # pace of a transaction's requests: each time is a line in the log.
    producer._accumulator.config["retry_backoff_ms"] = _SEND_AGAIN_MS


_LOOK_AGAIN_MS = 20
"""How long after one request for metadata the next may follow."""

_LOGINS = (SaslAuthenticateRequest, SaslBytesRequest, bytes, bytearray, memoryview)


class _Manager(KafkaConnectionManager):  # type: ignore[misc]
    """Remembers the last failure; a final failure stops the first connection.

    The client retries after any failure, writes the reason only to its log, and finally reports
    that it was "unable to bootstrap". Kafka's own clients stop at once, too.
    """

    def __init__(self, net: Any, **config: Any) -> None:
        self.failure: Exception | None = None
        self._was_connected = False
        super().__init__(net, **config)
        # After it has found the brokers, the client waits a tenth of a second before it looks for a
        # topic's partitions, and its option `retry_backoff_ms` does not reach there.
        self.cluster.config["retry_backoff_ms"] = _LOOK_AGAIN_MS

    def get_connection(self, *arguments: Any, **options: Any) -> Any:
        self._was_connected = self._was_connected or self.bootstrapped
        # Once connected, always retry: a refusal, as of a changed password, may be fixed again.
        if not self._was_connected and self.failure and final_reason(self.failure):
            raise self.failure
        return super().get_connection(*arguments, **options)

    def send(self, request: Any, node_id: Any = None, request_timeout_ms: Any = None) -> Any:
        if node_id is not None:
            return super().send(request, node_id, request_timeout_ms)
        return self.call_soon(self._send_to_any, request, request_timeout_ms)

    async def _send_to_any(self, request: Any, request_timeout_ms: Any) -> Any:
        """Send to the first broker that lets us connect; after a failure, the client avoids it.

        The client asks one broker what any may answer, and fails if that one is down: for ten
        seconds after a broker was lost, each third command failed.
        """
        failure: Exception = client.NodeNotReadyError("no broker is known")
        for _ in self.cluster.brokers():
            try:
                connection = await self.get_connection(self.least_loaded_node())
            except client.RetriableError as error:
                failure = error
            else:
                return await connection.send_request(request, request_timeout_ms)
        raise failure

    async def _connect(self, node: Any, connection: Any, **options: Any) -> None:
        close, pause = connection.close, connection.pause
        begin, lose = connection.connection_made, connection.connection_lost

        def pause_unless_throttled(reason: str) -> None:
            # The client would refuse to send while a quota throttles the connection: commands, and
            # programs that start, failed for a pause of ten milliseconds. The broker does not read
            # from it meanwhile (KIP-219), so what is sent waits there.
            if reason != "throttle":
                pause(reason)

        def receive_first_and_begin(transport: Any) -> None:
            _receive_first(transport)
            begin(transport)

        def note_and_close(error: Exception | None = None) -> None:
            self._note(error)
            close(error)

        def lose_as_expected(error: Exception | None) -> None:
            # At an OSError, as when a starting broker resets a TLS connection before the first
            # word, the client's task that looks for brokers and partitions would end unsaid. The
            # reader then fetched as from the leader before the restart, and was refused for ever.
            lose(client.KafkaConnectionError(str(error)) if isinstance(error, OSError) else error)

        connection.pause = pause_unless_throttled
        connection.connection_made = receive_first_and_begin
        connection.connection_lost = lose_as_expected
        connection.close = note_and_close
        # The connection may have ended before its reason is known; then nobody calls `close`.
        connection.close_future.add_errback(self._note)
        await super()._connect(node, connection, **options)

    def _note(self, failure: Exception | None) -> None:
        # A final failure is the reason to tell; what follows it, such as a hang-up, is not.
        if failure is not None and not (self.failure and final_reason(self.failure)):
            self.failure = failure


def _receive_first(transport: Any) -> None:
    """Read data that arrived before the broker closed the connection, such as the reason."""
    transport = getattr(transport, "_transport", transport)  # that below TLS, since 3.1
    receive = transport._sock_recv

    def receive_first() -> tuple[bytes, Exception | None]:
        received, error = receive()
        return received, None if received else error  # the next call finds the error again

    transport._sock_recv = receive_first


class _Selector(NetworkSelector):  # type: ignore[misc]
    """Waits for the other side of a TLS handshake as long as for a broker to bootstrap from.

    The client would wait forever, also at its first connection.
    """

    def __init__(self, **config: Any) -> None:
        self._handshake_s = config["bootstrap_timeout_ms"] / 1000
        super().__init__(**config)

    def wait_read(self, fileobj: Any, timeout_at: float | None = None) -> Any:
        if timeout_at is None and isinstance(fileobj, ssl.SSLSocket) and not fileobj.version():
            timeout_at = time.monotonic() + self._handshake_s
        return super().wait_read(fileobj, timeout_at)


class Network(KafkaNetClient):  # type: ignore[misc]
    def __init__(self, **config: Any) -> None:
        for name in ("kafka.net.connection", "kafka.protocol.parser"):
            logging.getLogger(name).addFilter(_hide_logins)
        for name in ("kafka.cluster", NetworkSelector.__module__, KafkaTCPTransport.__module__):
            logging.getLogger(name).addFilter(_hide_noise)
        config.pop("net", None)  # since 3.1: the kind of event loop
        net = _Selector(**config)
        super().__init__(net, _Manager(net, **config), **config)

    @property
    def failure(self) -> Exception | None:
        """Why the last connection failed; None if none did."""
        return self._manager.failure  # type: ignore[no-any-return]

    @property
    def advertised(self) -> list[str]:
        """HOST:PORT of each broker, as the brokers tell clients to connect."""
        return sorted(f"{at.host}:{at.port}" for at in self._manager.cluster.brokers())


def _hide_logins(record: logging.LogRecord) -> bool:
    """Keep the client's login requests, and the bytes that it sends, out of the log.

    The client logs both at DEBUG, and with PLAIN they contain the password in clear text.
    """
    arguments = record.args if isinstance(record.args, tuple) else ()
    return not any(isinstance(argument, _LOGINS) for argument in arguments)


def _hide_noise(record: logging.LogRecord) -> bool:
    """Drop the errors of a client that is closed while it asks for metadata or waits for data, and
    the warning that its thread did not run for a tenth of a second, as on a busy machine."""
    message, error = record.getMessage(), record.exc_info and record.exc_info[1]
    # It reads once more from its socket, which is None then, or closed.
    was_closed = "Error receiving network data" in message and isinstance(error, AttributeError)
    was_closed |= isinstance(error, ValueError) and str(error) == "Invalid file descriptor: -1"
    is_cancelled = message == "Metadata refresh: failed Cancelled"
    return not (was_closed or is_cancelled or "blocking the event loop" in message)
