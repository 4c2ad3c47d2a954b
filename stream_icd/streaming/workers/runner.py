"""A step on a stream: the one place that filters, logs, dead-letters and counts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, wait
from contextlib import closing
from dataclasses import dataclass

import structlog

from stream_icd.core.errors import CrashedWorker, LimitExceeded, RecordTooLarge
from stream_icd.kafka.delivery.handler import GIVEN_UP_AFTER, BatchDone, Handler
from stream_icd.kafka.messages.claims import ClaimCheck
from stream_icd.kafka.messages.records import Outcome, Processed, Refused, about, is_of
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.tracing import Tracing
from stream_icd.kafka.waiting import Worker
from stream_icd.streaming.dead_letters.letters import DeadLetterLimit, attempts_before, dead_letter
from stream_icd.streaming.workers.step import BatchStep
from stream_icd.streaming.workers.traced import TracedWork


@dataclass(eq=False)
class Runner(Handler):
    """Runs a step on the records of one topic, for one `run_consumer`."""

    gives_up = True

    step: BatchStep
    dead_letters: DeadLetterLimit  # stops the worker if too many records are bad
    graph: str | None = None  # process only this graph's records; None: all
    claim_check: ClaimCheck | None = None  # None: publish records unchanged, however large
    tracing: Tracing | None = None
    group: str = ""  # the consumer group, which traces name

    def __post_init__(self) -> None:
        step = self.step
        self.ahead, self.at_once, self.place = step.ahead, step.at_once, step.place
        self._key = None if self.graph is None else self.graph.encode()
        self._n_skipped, self._log_skipped_at = 0, 1
        self._traced = (
            None if self.tracing is None else TracedWork(self.tracing, self.step, self.group)
        )

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
        """Return the record of the memory. It fits, unless the broker has just lowered its limit:
        then the batch is not published, and comes again."""
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
