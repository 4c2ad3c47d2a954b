"""What a consumer does with its records, and who observes it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from stream_icd.core.errors import RecordTooLarge
from stream_icd.kafka.record import OutgoingRecord, Record


@dataclass(frozen=True, slots=True)
class BatchDone:
    """A batch whose results were published and whose offsets were committed."""

    records: tuple[Record, ...]
    outgoing: tuple[OutgoingRecord, ...]
    publish_seconds: float


GIVEN_UP_AFTER = 3
"""A record that ended this many workers in a row is given up."""

DIED = "the process died"
"""How a worker ended, or a process of it, if nothing more is known."""


class Lifecycle:
    """What a consumer tells those who work on its records, besides the records.

    Attributes:
        ahead: the next batch may begin while the results of one are published. That batch is
            dropped if the one before fails or cannot be committed, or if the consumer stops.
        at_once: number of records that are worked on at the same time: if these take long, a batch
            has few of them, but not fewer. None: how long a batch takes hardly depends on their
            number.
        place: where records are kept outside Kafka; "": nowhere. It is logged if the group kept
            them elsewhere before.
    """

    ahead: bool = False
    at_once: int | None = None
    place: str = ""

    def open(self) -> None:
        """Get ready for the first records. It may be called again, once it has returned."""

    def assigned(self, partitions: Collection[int]) -> None:
        """Forget what is known of these partitions, all that we have now: it may be wrong.

        Called before the first records that come after partitions were assigned to us, or after a
        batch could not be committed.
        """

    def done(self, batch: BatchDone) -> None:
        """Called after each commit; from then on, the state that a batch changed is valid."""


class Handler(Lifecycle, ABC):
    """What is called with the records of a consumer, in a thread of its own, one batch at a time.

    Attributes:
        gives_up: `give_up` gets a record that ended three workers in a row. If False, such a record
            is retried forever.
        graph: the only graph whose records are processed; None: all. Its group keeps to it, if it
            gives up.
    """

    gives_up: bool = False
    graph: str | None = None

    @abstractmethod
    def handle(self, records: Sequence[Record], /) -> Iterable[OutgoingRecord]:
        """Return the records to publish for a batch.

        If it raises, nothing of its batch is published or committed, and the consumer ends with the
        error, so it should dead-letter bad records rather than raise. `CrashedWorker` (a process of
        the worker ended) does not end the consumer if the handler gives up: the records come again,
        one by one.
        """

    def give_up(self, record: Record, ends: int, how: str) -> Iterable[OutgoingRecord]:  # noqa: ARG002
        """Return what to publish for a record that ended `ends` workers in a row, three or more.

        A worker ends by `kill -9`, or by an error from `handle` that the record may have caused;
        `how` tells it of the last one.
        """
        return ()

    def learn(self, refused: RecordTooLarge) -> None:
        """Note a result that its topic does not accept, or raise the error.

        If this returns, nothing of the batch is committed, and `handle` gets it again; it must not
        return a result of that size again.
        """
        raise refused


class Watcher:
    """Gets the events of a consumer's loop; this base class ignores them.

    Methods are called in the loop's thread: each must return at once, and raise nothing.
    """

    def polled(self, generation: int | None, silence_s: float) -> None:
        """The loop has polled once; also called while work is in hand.

        Args:
            generation: grows with each rebalance; None while we are not a settled member.
            silence_s: seconds since the broker last answered a heartbeat of the group.
        """

    def lagged(self, lag: Mapping[int, int]) -> None:
        """The number of waiting and in-hand records by partition; called about once a second."""

    def done(self, batch: BatchDone) -> None:
        """A batch was published and committed."""
