"""Steps, which process a stream, and the one place that filters, logs, dead-letters and counts."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, wait
from contextlib import closing
from dataclasses import dataclass

import structlog

from stream_icd.dead_letters.letters import DeadLetterLimit, attempts_before, dead_letter
from stream_icd.errors import CrashedWorker, LimitExceeded, RecordTooLarge
from stream_icd.kafka.delivery.handler import GIVEN_UP_AFTER, BatchDone, Handler
from stream_icd.kafka.record import Headers, OutgoingRecord, Record
from stream_icd.kafka.waiting import Worker
from stream_icd.messages.claims import ClaimCheck
from stream_icd.messages.records import Outcome, Processed, Refused, Stage, about, is_of
from stream_icd.tracing import Tracing
from stream_icd.workers.traced import TracedWork


class BatchStep(ABC):
    """What a worker does to the records of one topic, a batch at a time.

    Most workers process one record after the other: see `Step`.

    For each batch the runner calls `begin`, then `work`, and `done` once the results are published
    and the offsets committed. A batch that could not be committed gets no `done`, and is delivered
    again after `assigned` and another `begin`. So a step with state keeps changes separate until
    `done` (as `stream_icd.workers.track.Tracker` does), or reads its state again after `assigned`.
    A step with a model gets it in `begin`: the model may change between batches, never within one.

    Attributes:
        ahead: whether the next batch may begin before the `done` of this one.
        at_once: number of records that `work` works on at the same time, if each takes its time
            (`Handler.at_once`).
        place: where records are kept outside Kafka (`Handler.place`).
        stages: the stages in which records are refused; their dead letters are counted from
            the start, since an alert sees only a count that changes.
    """

    ahead: bool = False
    at_once: int | None = None
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


@dataclass(eq=False)
class Runner(Handler):
    """Runs a step on the records of one topic, for one `run_consumer`."""

    gives_up = True

    step: BatchStep
    dead_letters: DeadLetterLimit  # stops the worker if too many records are bad
    graph: str | None = None  # process only this graph's records; None: all
    claim_check: ClaimCheck | None = None  # None: publish records unchanged, however large
    tracing: Tracing | None = None

    def __post_init__(self) -> None:
        step = self.step
        self.ahead, self.at_once, self.place = step.ahead, step.at_once, step.place
        self._key = None if self.graph is None else self.graph.encode()
        self._n_skipped, self._log_skipped_at = 0, 1
        self._traced = None if self.tracing is None else TracedWork(self.tracing, self.step)

    def open(self) -> None:
        self.step.open()

    def handle(self, records: Sequence[Record]) -> Iterator[OutgoingRecord]:
        """Yield the results and dead letters of the records, in the same order.

        TooManyDeadLetters: nearly all recent records were bad. RecordTooLarge: a dead letter is.
        """
        self.step.begin(records)
        work = self.step.work(self._ours(records))
        if self._traced is not None:
            work = self._traced.outcomes(work)
        for record, outcome in work:
            yield from self._published(record, outcome)

    def give_up(self, record: Record, ends: int, how: str) -> Iterator[OutgoingRecord]:
        """Yield the record's dead letter, or its outcome processed in another way."""
        self.step.begin([record])
        if not is_of(record, self._key):
            return
        outcome = self.step.last_resort(record) if ends == GIVEN_UP_AFTER else None
        error = CrashedWorker(
            f"it ended {ends} workers in a row, the last time like this: {how}. See the logs of "
            "these workers. Fix the cause, then run `stream-icd dlq retry`"
        )
        yield from self._published(record, outcome or Refused("crashed", error))

    def learn(self, refused: RecordTooLarge) -> None:
        """Note a result that the broker refused for its size: a retry claims or refuses it."""
        if self.claim_check is None:
            raise refused
        self.claim_check.learn(refused)

    def assigned(self, partitions: Collection[int]) -> None:
        self.step.assigned(partitions)
        if self._traced is not None:
            self._traced.assigned(partitions)

    def done(self, batch: BatchDone) -> None:
        self.step.done(batch)
        if self._traced is not None:
            self._traced.published(batch)

    def _ours(self, records: Sequence[Record]) -> list[Record]:
        ours = [record for record in records if is_of(record, self._key)]
        self._n_skipped += len(records) - len(ours)
        if self._n_skipped >= self._log_skipped_at:
            self._log_skipped_at = 2 * self._n_skipped  # a line for twice as many
            structlog.get_logger().info(
                "skipped records of other graphs", since_start=self._n_skipped
            )
        return ours

    def _published(self, record: Record, outcome: object) -> tuple[OutgoingRecord, ...]:
        if not isinstance(outcome, Outcome):  # a step without a `return`
            raise TypeError(
                f"{type(self.step).__name__} returned {outcome!r:.80} for {record.place}: return "
                "Processed(…) or Refused(…)"
            )
        with about(record, **self.step.context):
            return (*self._concluded(record, outcome), *self._state(record, outcome))

    def _concluded(self, record: Record, outcome: Outcome) -> tuple[OutgoingRecord, ...]:
        """Log an outcome, count it, and return its results, or the record's dead letter."""
        log = structlog.get_logger()
        if isinstance(outcome, Processed):
            try:
                results = tuple(map(self._made_fit, outcome.outgoing))
            except RecordTooLarge as error:
                self.step.forget(record)
                reason = f"its result is too large: {error}. Then run `stream-icd dlq retry`"
                outcome = Refused("publish", LimitExceeded(reason))
            else:
                self.dead_letters.count(dead=False)
                log.info(outcome.event, **outcome.facts)
                return results
        log.warning("dead letter", stage=outcome.stage, reason=outcome.reason)
        if not attempts_before(record):  # its sender expects that it may fail again
            self.dead_letters.count(dead=True, reason=outcome.reason)
        return (self._made_fit(dead_letter(record, outcome.stage, outcome.error)),)

    def _state(self, record: Record, outcome: Outcome) -> tuple[OutgoingRecord, ...]:
        """Return the state after the record, which is too large only if the broker has just refused
        one: then this batch is not published, and its records are delivered again."""
        if isinstance(outcome, Refused) or outcome.state is None:
            return ()
        try:
            made_fit = self._made_fit(outcome.state)
        except RecordTooLarge as error:
            structlog.get_logger().warning("memory is too large", reason=str(error))
            return ()
        self.step.remember(record, outcome.state)
        return (made_fit,)

    def _made_fit(self, record: OutgoingRecord) -> OutgoingRecord:
        return record if self.claim_check is None else self.claim_check(record)


def run_together(loops: Mapping[str, Callable[[], object]], stop: threading.Event) -> None:
    """Run each loop until `stop`: a single one in this thread, several in one thread each, by name.

    If one of several fails, all stop, and its error is raised; those of others are logged.
    """
    if len(loops) == 1:
        (loop,) = loops.values()
        loop()
        return
    running = []
    for name, loop in loops.items():
        with closing(Worker(name)) as worker:  # it ends after this
            running.append(worker.submit(loop))
    failed_first = wait(running, return_when=FIRST_EXCEPTION).done
    stop.set()
    wait(running)
    running.sort(key=failed_first.__contains__, reverse=True)
    errors = [error for future in running if (error := future.exception())]
    for further in errors[1:]:
        structlog.get_logger().error(
            "another stream failed, too", error=f"{type(further).__name__}: {further}"
        )
    if errors:
        raise errors[0]
