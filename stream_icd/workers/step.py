"""The contract between a worker and the runner: what is done to each record of a stream."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence

from stream_icd.kafka.batch_done import BatchDone
from stream_icd.kafka.record import Record
from stream_icd.messages.outcome import Outcome
from stream_icd.workers.record_log import about


class Step(ABC):
    """What a worker does to the records of one topic. Subclass it and write `process`.

    The runner (`stream_icd.workers.runner`) does the rest: it filters by graph, names the record
    in every line of the log, sends bad records to the dead letters, and counts.

    For each batch the runner calls `begin`, then `work`, and `done` once the results are published
    and the offsets committed. A batch that could not be committed gets no `done`, and comes again
    after another `begin`. So a step that remembers something keeps it apart until `done`:
    `stream_icd.workers.per_graph.PerGraph` does that for each graph. A step that uses a model
    asks for it in `begin`: the model may change between batches, never within one.

    Attributes:
        ahead: whether the next batch may begin before the `done` of this one.
    """

    ahead: bool = False

    @property
    def context(self) -> Mapping[str, str]:
        """What each line of the log says beside the record, such as the model."""
        return {}

    def begin(self, records: Sequence[Record]) -> None:  # noqa: B027
        """A batch begins.

        Args:
            records: all records of the batch, also those of graphs that are filtered out.
        """

    @abstractmethod
    def process(self, record: Record) -> Outcome:
        """The outcome of one record.

        Bad input is an outcome (`Refused`). Any exception ends the worker: nothing of the batch
        is published, and its records come again.
        """

    def work(self, records: Sequence[Record]) -> Iterator[tuple[Record, Outcome]]:
        """Each record and its outcome, in the same order.

        Override this to work on several records at once.
        """
        for record in records:
            with about(record, **self.context):
                outcome = self.process(record)
            yield record, outcome

    def forget(self, record: Record) -> None:  # noqa: B027
        """The record processed last becomes a dead letter: its result is too large to publish.

        A step that remembers results takes this one back, so that the record can be sent again.
        """

    def done(self, batch: BatchDone) -> None:  # noqa: B027
        """The results of the batch are published, and its offsets are committed."""
