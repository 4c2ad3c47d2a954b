"""A step: what a worker does to the records of one topic. The extension point for workers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence

from stream_icd.core.headers import Headers
from stream_icd.kafka.delivery.handler import BatchDone
from stream_icd.kafka.messages.records import Outcome, Stage, about
from stream_icd.kafka.record import OutgoingRecord, Record


class BatchStep(ABC):
    """What a worker does to the records of one topic, a batch at a time.

    Most workers process one record after the other: see `Step`.

    For each batch the runner calls `begin`, then `work`, and `done` once the results are published
    and the offsets committed. A batch that could not be committed gets no `done`, and is delivered
    again after `assigned` and another `begin`. So a step with state keeps changes separate until
    `done` (as `stream_icd.streaming.workers.track.Tracker` does), or reads its state again after
    `assigned`. A step with a model gets it in `begin`: the model may change between batches, never
    within one.

    Attributes:
        ahead: whether the next batch may begin before the `done` of this one.
        at_once: number of records that `work` works on at the same time, if each takes its time
            (`Handler.at_once`).
        most_records: number of records in a batch, at most; None: as many as the worker allows.
        place: where records are kept outside Kafka (`Handler.place`).
        stages: the stages in which records are refused; their dead letters are counted from
            the start, since an alert sees only a count that changes.
    """

    ahead: bool = False
    at_once: int | None = None
    most_records: int | None = None
    place: str = ""
    stages: tuple[Stage, ...] = ("decode",)

    @property
    def context(self) -> Mapping[str, str]:
        """Fields of each log line in addition to the record's, such as the model."""
        return {}

    def open(self) -> None:  # noqa: B027
        """See `Handler.open`."""

    def assigned(self, partitions: Collection[int]) -> None:  # noqa: B027
        """Forget what is known of the graphs in these partitions; see `Handler.assigned`."""

    def begin(self, records: Sequence[Record]) -> None:  # noqa: B027
        """Start a batch; its records include those of graphs that are filtered out."""

    @abstractmethod
    def work(self, records: Sequence[Record]) -> Iterator[tuple[Record, Outcome]]:
        """Yield each record and its outcome, in the same order.

        An outcome is `Refused` for bad input. Any exception ends the worker: nothing of the batch
        is published, and its records are delivered again.
        """

    def state_headers(self, record: Record) -> Headers:  # noqa: ARG002
        """Return the headers of the message that the state before this record was read from, for
        the link of a trace to what made it."""
        return ()

    def forget(self, record: Record) -> None:  # noqa: B027
        """Undo the last record, so that it can be sent again: its result is too large."""

    def last_resort(self, record: Record) -> Outcome | None:  # noqa: ARG002
        """Process a record that ended its workers in another way; None: there is none."""
        return None

    def remember(self, record: Record, state: OutgoingRecord) -> None:  # noqa: B027
        """Take over the state of a record's outcome: it is published with this batch."""

    def done(self, batch: BatchDone) -> None:  # noqa: B027
        """Keep the batch's changes: its results are published, and its offsets committed."""


class Step(BatchStep):
    """What a worker does to each record of one topic. Subclass it and write `process`."""

    @abstractmethod
    def process(self, record: Record) -> Outcome:
        """Return the outcome of one record; `Refused` and exceptions mean the same as in `work`."""

    def work(self, records: Sequence[Record]) -> Iterator[tuple[Record, Outcome]]:
        for record in records:
            with about(record, **self.context):
                outcome = self.process(record)
            yield record, outcome
