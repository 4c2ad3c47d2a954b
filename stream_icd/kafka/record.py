"""Records as types of this project: the Kafka client's types stay in `stream_icd.kafka.client`."""

from __future__ import annotations

from dataclasses import dataclass

from stream_icd.core.headers import Headers

_HEADER_BYTES = 10  # the lengths of its parts


@dataclass(frozen=True, slots=True)
class Record:
    """One record as a broker holds it.

    `timestamp_ms` is in milliseconds since 1970 UTC, by the producer's clock, so it may go
    backwards from one offset to the next; by the broker's in a topic with `broker_clock`.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()

    @property
    def place(self) -> str:
        """`topic[partition]@offset`, as logs and error messages name a record."""
        return f"{self.topic}[{self.partition}]@{self.offset}"

    @property
    def key_text(self) -> str:
        """The key as text, whose length and form are not checked yet; it names a graph, usually."""
        return (self.key or b"").decode(errors="replace")


@dataclass(frozen=True, slots=True)
class OutgoingRecord:
    """One record to publish. Without a `partition`, equal keys go to the same partition.

    If `timestamp_ms` is None, it is the time of publishing. Retention counts from the timestamp, so
    put the time that a snapshot is *about* into its headers.
    """

    topic: str
    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None

    @property
    def size(self) -> int:
        """Bytes of key, value and headers, which the size limits apply to."""
        sizes = [
            len(name.encode(errors="surrogateescape")) + len(value) for name, value in self.headers
        ]
        return len(self.key or b"") + len(self.value or b"") + sum(sizes)

    @property
    def size_as_sent(self) -> int:
        """Its size with the client's overhead, to compare with a topic's limit."""
        return self.size + len(self.headers) * _HEADER_BYTES
