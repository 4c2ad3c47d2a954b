"""Publish to an in-memory broker."""

from __future__ import annotations

from collections.abc import Mapping

from stream_icd.errors import BrokerError, BrokerUnavailable, DeliveryFailed, MessageTooLarge
from stream_icd.kafka.in_process.state import State
from stream_icd.kafka.port.broker import Fenced, GroupMetadata, Settled
from stream_icd.kafka.port.partition import TopicPartition
from stream_icd.kafka.record import OutgoingRecord


class MemoryProducer:
    """Implements the port's Producer; each record is settled before `send` returns."""

    def __init__(self, state: State) -> None:
        self._state = state

    def send(self, record: OutgoingRecord, settled: Settled) -> None:
        refused: BrokerError | None = None
        try:
            with self._state.held():
                self._write(record)
        except (Fenced, MessageTooLarge) as error:
            refused = error
        settled(refused)

    def close(self, timeout_s: float) -> None:  # noqa: ARG002
        return

    def _write(self, record: OutgoingRecord) -> None:
        self._state.write(record, self._state.choose(record), None)


class MemoryTransactionalProducer(MemoryProducer):
    """Implements the port's TransactionalProducer."""

    def __init__(self, state: State, name: str, timeout_s: float) -> None:
        super().__init__(state)
        self._name = name
        self._timeout_s = timeout_s
        self._epoch = 0

    def begin_transactions(self) -> None:
        with self._state.held():
            self._epoch = self._state.take_over(self._name)

    def begin(self) -> None:
        with self._state.changed:
            self._look()
            self._state.begin(self._name, self._epoch, self._timeout_s)

    def send_offsets(self, offsets: Mapping[TopicPartition, int], group: GroupMetadata) -> None:
        with self._state.changed:
            self._look()
            self._state.hold_offsets(self._name, self._epoch, offsets, group)

    def commit(self) -> None:
        self._end(committed=True)

    def abort(self) -> None:
        self._end(committed=False)

    def _end(self, *, committed: bool) -> None:
        with self._state.changed:
            self._look()
            self._state.end(self._name, self._epoch, committed=committed)

    def _write(self, record: OutgoingRecord) -> None:
        self._state.write_in_transaction(self._name, self._epoch, record)

    def _look(self) -> None:
        try:
            self._state.look()
        except BrokerUnavailable as error:
            raise DeliveryFailed(f"the transaction did not succeed: {error}") from error
