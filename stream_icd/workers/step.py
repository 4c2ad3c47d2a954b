"""The interface between a worker and the runner: how each record of a stream is processed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence

from stream_icd.kafka.delivery.handler import BatchDone
from stream_icd.kafka.record import Headers, OutgoingRecord, Record
from stream_icd.messages.records import Outcome, Stage, about


class BatchStep(ABC):
    """What a worker does to the records of one topic, a batch at a time.

    Most workers process one record after the other: see `Step`.

    The runner (`stream_icd.workers.runner`) does the rest: it filters by graph, adds the record to
    each log line, publishes dead letters for bad records, and counts.

    For each batch the runner calls `begin`, then `work`, and `done` once the results are published
    and the offsets committed. A batch that could not be committed gets no `done`, and is delivered
    again after `assigned` and another `begin`. So a step with state keeps changes separate until
    `done` (as `stream_icd.workers.track.Tracker` does), or reads its state again after `assigned`.
    A step with a model gets it in `begin`: the model may change between batches, never within one.

    Attributes:
        ahead: whether the next batch may begin before the `done` of this one.
        stages: the stages in which records are refused; their dead letters are counted from
            the start, since an alert sees only a count that changes.
    """

    ahead: bool = False
    stages: tuple[Stage, ...] = ("decode",)

    @property
    def context(self) -> Mapping[str, str]:
        """Fields of each log line in addition to the record's, such as the model."""
        return {}

    def assigned(self, partitions: Collection[int]) -> None:  # noqa: B027
        """Called before the first batch after these partitions were assigned to this worker.

        What the step knows of the graphs in them may be wrong: another worker may have processed
        records, or a batch could not be committed.
        """

    def begin(self, records: Sequence[Record]) -> None:  # noqa: B027
        """Start a batch; its records include those of graphs that are filtered out."""

    @abstractmethod
    def work(self, records: Sequence[Record]) -> Iterator[tuple[Record, Outcome]]:
        """Yield each record and its outcome, in the same order.

        An outcome is `Refused` for bad input. Any exception ends the worker: nothing of the batch
        is published, and its records are delivered again.
        """

    def state_headers(self, record: Record) -> Headers:  # noqa: ARG002
        """Return the headers of the message that the state before this record was read from.

        A trace has a link to what made this message. Empty if the state was not read.
        """
        return ()

    def forget(self, record: Record) -> None:  # noqa: B027
        """Undo the last processed record: it becomes a dead letter, its result is too large.

        A step that remembers results removes this one, so that the record can be sent again.
        """

    def last_resort(self, record: Record) -> Outcome | None:  # noqa: ARG002
        """Process a record that ended its workers once more, in another way; None: there is none.

        Without an outcome, it becomes a dead letter of stage `crashed`.
        """
        return None

    def remember(self, record: Record, state: OutgoingRecord) -> None:  # noqa: B027
        """Take over the state of a record's outcome: it is published with this batch."""

    def done(self, batch: BatchDone) -> None:  # noqa: B027
        """Called when the batch's results are published and its offsets are committed."""


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
