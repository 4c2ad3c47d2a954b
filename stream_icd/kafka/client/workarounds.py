"""Workarounds for what kafka-python 3.0.12 lacks or does wrong; they also fit its main branch, 3.1.

Only this file uses private parts of the client; tests/kafka/test_private_parts.py names each of
them. If a release drops one, check here whether the workaround is still needed. Four of these
faults have a program in docs/kafka_client.md, which fails once a release mends it. Upstream,
dpkp/kafka-python#3108 is about closing a producer while its broker is unavailable; the main branch
still kept offsets too long in August 2026.

Consumers:

- Two intervals are fixed when a consumer is made, though the best values depend on what it does.
  Each answer costs more than a millisecond of CPU time, and an idle consumer got twelve a second.
  The broker's wait for new records must be short while records come: the client has one fetch to a
  broker at a time, so what is waited for empty partitions is missing for others. The interval
  between heartbeats must be short while the group works: a heartbeat tells a member that others
  join or leave, and they wait for it.
- A poll begins anew whenever a heartbeat is due, though another thread sends it.
- The client does not publish when the broker last answered a heartbeat.
- A member that the broker has removed keeps its partitions and positions if it learns of this from
  the response to a join, because a join is prepared only once. The assignor also claims them as
  owned, without a generation, and so takes them from the members that got them meanwhile. Then
  records were processed twice, or skipped.
- A join for a change of metadata is forgotten if the poll timed out during the assignment; the
  member then never rejoins.
- A request for committed offsets that timed out stays in a table with its response until the same
  partitions are requested again, however much later. A member that got a partition back then
  started at the old offset, and records that others had committed meanwhile were processed twice.
  Kafka's own client uses such a response only within the group generation of the request.
- `partitions_for_topic` waits for the broker, without a timeout, if the topic is unknown (by now).
- A topic that was deleted and created again is read on at the old offset, which skips its records
  before that. The client knows of it, by the topic's id, and only logs it.

Fetched records:

- A header name that is not UTF-8 raises UnicodeDecodeError (`DefaultRecordBatch._read_msg`).
  Brokers accept such names, so one record stops a partition for every reader. Here, non-UTF-8
  bytes become lone surrogates (PEP 383), and become the same bytes again when sent.
- After any error in the middle of a fetch the client loops forever inside `poll`
  (`PartitionRecords.take` continues with an iterator that has ended). Here, every poll raises the
  error again, with the partition and the offsets.

Producers:

- If the broker refuses an offset for a transaction because the group has a new generation, the
  client keeps that offset after the abort. It sends it with the offsets of the next transaction,
  and the broker accepts it, as the producer acts for a member again. So the group went back, or
  forward, in a partition of another member: results came twice, or never. Kafka's own client
  forgets such offsets when the request ends.
- `close` flushes first, and if that takes too long it raises KafkaTimeoutError without closing.

Connections:

- The client retries after any failure, writes the reason only to its log, and finally reports that
  it was "unable to bootstrap". Here, a refusal that no retry can change ends the first connection
  at once, as in Kafka's own clients, and the last reason is kept.
- After it has found the brokers, the client waits a tenth of a second before it looks for a topic's
  partitions, and `retry_backoff_ms` does not reach there. A detector has half a dozen connections.
- A client that is closed while it waits for data reads once more, and logs that it has no socket.
- If an attempt to connect ends with an OSError, as when a starting broker resets a TLS connection
  before the first word, the task that looks for brokers and partitions ends unsaid. The reader then
  never read on: it fetched as from the leader before the restart, and was refused each time.
- What any broker may answer is sent to one of them. If that one is down, it fails, though others
  are there; for ten seconds after a broker is lost, each third command failed.
- While a quota throttles a connection, the client refuses to send on it: commands, and programs
  that start, failed for a pause of ten milliseconds. The broker does not read from it meanwhile
  (KIP-219), so what is sent waits there.
- Where brokers tell clients to connect is known, and not published.
- A TLS handshake has no time limit: a broker that accepts and never answers held the client
  forever, also at its first connection.
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

from kafka import TopicPartition
from kafka import errors as client
from kafka.consumer.fetcher import Fetcher
from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslBytesRequest
from kafka.record.default_records import DefaultRecordBatch
from kafka.structs import MemberState

from stream_icd.kafka import port
from stream_icd.kafka.client.translate import is_final

try:
    from kafka.net.selector import NetworkSelector as NetworkSelector
    from kafka.net.transport import KafkaTCPTransport as KafkaTCPTransport
except ModuleNotFoundError:  # since 3.1
    from kafka.net.backend.selector import NetworkSelector as NetworkSelector
    from kafka.net.backend.transport import KafkaTCPTransport as KafkaTCPTransport

Partitions = Collection[TopicPartition]


def mend_consumer(consumer: Any, *, is_member: bool) -> None:
    """Make a new consumer decode any header name, and raise `Undecodable` where it cannot decode.

    A member also loses its partitions with its membership, and ignores responses that came late.
    """
    consumer._fetcher.PartitionRecords = _FetchedRecords
    if is_member:
        # Its polls wait as long as they may; it commits no offsets by itself.
        consumer._coordinator.time_to_next_poll = lambda: inf
        _lose_partitions_with_membership(consumer)
        _forget_old_answers(consumer)


@dataclass(frozen=True, slots=True)
class ConsumerParts:
    """What a consumer knows and does not publish, and the intervals that it does not let change."""

    _consumer: Any

    def let_broker_wait(self, milliseconds: int) -> None:
        """Make the next fetches wait that long for new records, at most."""
        self._consumer._fetcher.config["fetch_max_wait_ms"] = milliseconds

    def set_heartbeat_interval(self, milliseconds: int) -> None:
        self._consumer._coordinator.heartbeat.config["heartbeat_interval_ms"] = milliseconds

    def last_heard(self) -> float:
        """When the broker last answered a heartbeat, or let us join; by the monotonic clock."""
        heartbeat = self._consumer._coordinator.heartbeat
        return float(max(heartbeat.last_receive, heartbeat.last_reset))

    def is_joining(self) -> bool:
        return bool(self._consumer.group_metadata().state == MemberState.REBALANCING)

    def keep_joining(self) -> None:
        """Make the next poll continue a join that the last poll left unfinished."""
        if self.is_joining():
            self._consumer._coordinator.request_rejoin()

    def partitions_of(self, topic: str) -> int:
        """How many partitions a topic has, as the consumer knows."""
        return len(self._consumer._cluster.partitions_for_topic(topic) or ())

    def topic_id(self, topic: str) -> int:
        """The id of a topic, which is another one if it is created again; 0: it is not known."""
        known = self._consumer._cluster.topic_id(topic)
        return 0 if known is None else int(known.int)

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
    """Make a removed member give up all partitions before it joins again."""
    coordinator = consumer._coordinator
    reset = coordinator.reset_generation

    def reset_generation(*args: str, **member_id: str) -> None:
        reset(*args, **member_id)
        coordinator.rejoining = False  # prepare the next join, which sees the lost generation
        for assignor in coordinator._assignors.values():
            assignor.member_assignment = None

    coordinator.reset_generation = reset_generation


def _forget_old_answers(consumer: Any) -> None:
    """Make a member ignore the response to a request that timed out.

    Exception: to find a start position, it accepts a response from the same group generation. No
    other member commits there meanwhile, and a poll may be shorter than the round trip.
    """
    coordinator = consumer._coordinator
    ask = coordinator.fetch_committed_offsets_async
    requests = coordinator._offset_fetch_futures
    asked_in = _generation(consumer)

    async def ask_in_generation(partitions: Partitions, timeout_ms: float | None = None) -> Any:
        nonlocal asked_in
        generation = _generation(consumer)
        if generation != asked_in:
            requests.clear()
        asked_in = generation
        return await ask(partitions, timeout_ms=timeout_ms)

    async def ask_now(partitions: Partitions, timeout_ms: float | None) -> Any:
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


def encodable(name: str) -> str:
    """A header's name for the client, which encodes it three times: plain ones are faster."""
    return name if name.isascii() else _HeaderName(name)


class _HeaderName(str):
    """A header's name that keeps non-UTF-8 bytes."""

    __slots__ = ()

    def encode(self, encoding: str = "utf-8", errors: str = "surrogateescape") -> bytes:
        """The original bytes; the client calls this to send them."""
        return super().encode(encoding, errors)


class _FetchedRecords(Fetcher.PartitionRecords):  # type: ignore[misc]
    """The records of one partition from one fetch."""

    def _unpack_records(self, partition: TopicPartition, records: Any, *rest: Any) -> Iterator[Any]:
        self._batches = _Batches(records)
        unpacked: Iterator[Any] = super()._unpack_records(partition, self._batches, *rest)
        return unpacked

    def take(self, n: int | None = None) -> list[Any]:
        try:
            taken: list[Any] = super().take(n)
        except Exception as error:
            # Keep the error: the client would otherwise poll its ended iterator forever.
            self._next_inline_exception = self._named(error)
            raise self._next_inline_exception from error
        return taken

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
        taken = super().__getitem__(index)
        return _Buffer(taken) if isinstance(taken, bytearray) else taken

    def decode(self, encoding: str = "utf-8", _: str = "strict") -> _HeaderName:
        return _HeaderName(super().decode(encoding, "surrogateescape"))


_SEND_AGAIN_MS = 500


def mend_producer(producer: Any) -> None:
    """Make each transaction of a producer start without the offsets of the one before.

    Records that a broker refuses for now, as without enough replicas, are not sent again at the
    pace of a transaction's requests: each time is a line in the log.
    """
    transactions = producer._transaction_manager
    begin = transactions.begin_transaction

    def begin_transaction() -> None:
        transactions._pending_txn_offset_commits.clear()
        begin()

    transactions.begin_transaction = begin_transaction
    producer._accumulator.config["retry_backoff_ms"] = _SEND_AGAIN_MS


def close_producer(producer: Any, timeout_s: float) -> None:
    """Close the producer within about twice `timeout_s`, even with unacknowledged records."""
    try:
        producer.close(timeout=timeout_s)
    except client.KafkaTimeoutError:
        producer._sender.force_close()
        with contextlib.suppress(client.KafkaTimeoutError):
            producer.close(timeout=timeout_s)


_LOOK_AGAIN_MS = 20
"""How long after one request for metadata the next may follow."""

_LOGINS = (SaslAuthenticateRequest, SaslBytesRequest, bytes, bytearray, memoryview)


class _Manager(KafkaConnectionManager):  # type: ignore[misc]
    """Remembers the last failure; a final failure stops the first connection.

    Later it always retries: a refusal, such as of a changed password, may be fixed again.
    """

    def __init__(self, net: Any, **config: Any) -> None:
        self.failure: Exception | None = None
        self._was_connected = False
        super().__init__(net, **config)
        self.cluster.config["retry_backoff_ms"] = _LOOK_AGAIN_MS

    def get_connection(self, *arguments: Any, **options: Any) -> Any:
        self._was_connected = self._was_connected or self.bootstrapped
        if not self._was_connected and self.failure is not None and is_final(self.failure):
            raise self.failure
        return super().get_connection(*arguments, **options)

    def send(self, request: Any, node_id: Any = None, request_timeout_ms: Any = None) -> Any:
        if node_id is not None:
            return super().send(request, node_id, request_timeout_ms)
        return self.call_soon(self._send_to_any, request, request_timeout_ms)

    async def _send_to_any(self, request: Any, request_timeout_ms: Any) -> Any:
        """Send to the first broker that lets us connect; after a failure, the client avoids it."""
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
        """Note the reason even if the connection has ended before the reason is known.

        It also stays open to requests while it is throttled, and fails as the client expects if
        the attempt ends with an OSError.
        """
        close, pause = connection.close, connection.pause
        made, lost = connection.connection_made, connection.connection_lost
        connection.pause = lambda reason: None if reason == "throttle" else pause(reason)

        def receive_first_and_begin(transport: Any) -> None:
            _receive_first(transport)
            made(transport)

        def note_and_close(error: Exception | None = None) -> None:
            self._note(error)
            close(error)

        def lose(error: Exception | None) -> None:
            lost(client.KafkaConnectionError(str(error)) if isinstance(error, OSError) else error)

        connection.connection_made, connection.connection_lost = receive_first_and_begin, lose
        connection.close = note_and_close
        connection.close_future.add_errback(self._note)
        await super()._connect(node, connection, **options)

    def _note(self, failure: Exception | None) -> None:
        if failure is not None and not (self.failure and is_final(self.failure)):
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
    """Waits for the other side of a TLS handshake as long as for a broker to bootstrap from."""

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


def advertised(admin: Any) -> list[str]:
    """HOST:PORT of each broker, as the brokers tell clients to connect."""
    brokers = admin._manager.cluster.brokers()
    return sorted(f"{broker.host}:{broker.port}" for broker in brokers)


def _hide_logins(record: logging.LogRecord) -> bool:
    """Keep the client's login requests, and the bytes that it sends, out of the log.

    The client logs both at DEBUG, and with PLAIN they contain the password in clear text.
    """
    arguments = record.args if isinstance(record.args, tuple) else ()
    return not any(isinstance(argument, _LOGINS) for argument in arguments)


def _hide_noise(record: logging.LogRecord) -> bool:
    """Drop the errors of a client that is closed while it asks for metadata or waits for data (its
    socket is None then, or closed), and the warning that its thread did not run for a tenth of a
    second, as on a busy machine."""
    said, error = record.getMessage(), record.exc_info and record.exc_info[1]
    was_closed = "Error receiving network data" in said and isinstance(error, AttributeError)
    was_closed |= isinstance(error, ValueError) and str(error) == "Invalid file descriptor: -1"
    is_cancelled = said == "Metadata refresh: failed Cancelled"
    return not (was_closed or is_cancelled or "blocking the event loop" in said)
