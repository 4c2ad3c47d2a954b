"""Handle fetched records that the client cannot decode.

Seen in kafka-python 3.0.12:

- A header name that is not UTF-8 raises UnicodeDecodeError (`DefaultRecordBatch._read_msg`).
  Brokers accept such names, so one record stops a partition for every reader. Here, non-UTF-8
  bytes become lone surrogates (PEP 383), and become the same bytes again when sent.
- After any error in the middle of a fetch the client loops forever inside `poll`
  (`PartitionRecords.take` continues with an iterator that has ended). Here, every poll raises the
  error again, with the partition and the offsets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kafka import TopicPartition
from kafka.consumer.fetcher import Fetcher
from kafka.record.default_records import DefaultRecordBatch

from stream_icd.kafka import port


class HeaderName(str):
    """A header's name that keeps non-UTF-8 bytes."""

    __slots__ = ()

    def encode(self, encoding: str = "utf-8", errors: str = "surrogateescape") -> bytes:
        """The original bytes; the client calls this to send them."""
        return super().encode(encoding, errors)


def raise_what_cannot_be_decoded(consumer: Any) -> None:
    """Make a consumer decode fetched records as this file describes, or raise `Undecodable`."""
    consumer._fetcher.PartitionRecords = _FetchedRecords


def reads_next(consumer: Any) -> dict[TopicPartition, int]:
    """The offset of the next record of the partition that is decoded now, or of each partition.

    Makes no request and takes no lock, so you can call it while the client hangs.
    """
    decoded = consumer._fetcher._next_partition_records
    if decoded is not None:
        return {decoded.topic_partition: decoded.next_fetch_offset}
    assignment = dict(consumer._subscription.assignment)
    return {p: state.position.offset for p, state in assignment.items() if state.position}


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
    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        return _Name(found) if isinstance(found, bytearray) else found


class _Name(bytearray):
    def decode(self, encoding: str = "utf-8", _: str = "strict") -> HeaderName:
        return HeaderName(super().decode(encoding, "surrogateescape"))
