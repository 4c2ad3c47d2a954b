"""A step: what a worker does to the records of one topic. The extension point for workers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence

from stream_icd.core.headers import Headers
from stream_icd.kafka.delivery.handler import Lifecycle
from stream_icd.kafka.messages.records import Outcome, Stage, about
from stream_icd.kafka.record import OutgoingRecord, Record


class BatchStep(Lifecycle, ABC):
    """What a worker does to the records of one topic, a batch at a time.

    Most workers process one record after the other: see `Step`.

    For each batch the runner calls `begin`, then `work`, and `done` once the results are published
    and the offsets committed. A batch that could not be committed gets no `done`, and is delivered
    again after `assigned` and another `begin`. So a step with state keeps changes separate until
    `done` (as `stream_icd.streaming.workers.track.Tracker` does), or reads its state again after
    `assigned`. A step with a model gets it in `begin`: the model may change between batches, never
    within one.

    Attributes:
        most_records: number of records in a batch, at most; None: as many as the worker allows.
        stages: the stages in which records are refused; their dead letters are counted from
            the start, since an alert sees only a count that changes.
    """

    most_records: int | None = None
    stages: tuple[Stage, ...] = ("decode",)

    @property
    def context(self) -> Mapping[str, str]:
        """Fields of each log line in addition to the record's, such as the model."""
        return {}

    def begin(self, records: Sequence[Record]) -> None:
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

    def forget(self, record: Record) -> None:
        """Undo the last record, so that it can be sent again: its result is too large."""

    def last_resort(self, record: Record) -> Outcome | None:  # noqa: ARG002
        """Process a record that ended its workers in another way; None: there is none."""
        return None

    def remember(self, record: Record, state: OutgoingRecord) -> None:
        """Take over the state of a record's outcome: it is published with this batch."""


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
