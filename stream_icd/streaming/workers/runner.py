"""A step on a stream: the one place that filters, logs, dead-letters, counts and traces."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, wait
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

import structlog

from stream_icd.core.communities import STAGES
from stream_icd.core.errors import CrashedWorker, LimitExceeded, RecordTooLarge
from stream_icd.kafka.delivery.handler import GIVEN_UP_AFTER, BatchDone, Handler
from stream_icd.kafka.messages.claims import ClaimCheck
from stream_icd.kafka.messages.records import Outcome, Processed, Refused, about, graph_name, is_of
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.tracing import GROUP, MS, Tracing
from stream_icd.kafka.waiting import TaskThread
from stream_icd.streaming.dead_letters.letters import DeadLetterLimit, dead_letter
from stream_icd.streaming.workers.step import BatchStep

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext

_MOST_GRAPHS = 10_000
"""The last windows of so many graphs are known, for links."""

_USING_MEMORY = frozenset((b"continued", b"broken", b"damaged", b"late"))
"""What `icd_memory` says of a window that was detected with the memory of the one before."""


@dataclass(eq=False)
class Runner(Handler):
    """Runs a step on the records of one topic, for one `run_consumer`."""

    gives_up = True

    step: BatchStep
    # Stops the worker if too many records are bad.
    dead_letters: DeadLetterLimit = field(default_factory=DeadLetterLimit)
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
            None if self.tracing is None else _TracedWork(self.tracing, self.step, self.group)
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
                # Before the next record, which would build on a result that nobody sees.
                self.step.forget(record)
                reason = f"its result is too large: {error}. Then run `stream-icd dlq retry`"
                outcome = Refused("publish", LimitExceeded(reason))
            else:
                self.dead_letters.count(record)
                log.info(outcome.event, **outcome.facts)
                return results
        # Before it is counted, which may end the worker.
        log.warning("dead letter", stage=outcome.stage, reason=outcome.reason)
        self.dead_letters.count(record, dead_because=outcome.reason)
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
        self.step.remember(record, outcome.state)  # not `made_fit`, whose value may be a claim
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
        with closing(TaskThread(name)) as worker:  # it ends after this
            running.append(worker.submit(loop))
    failed_first = wait(running, return_when=FIRST_EXCEPTION).done
    stop.set()  # or the other loops would go on without the failed one
    wait(running)
    running.sort(key=failed_first.__contains__, reverse=True)
    errors = [error for future in running if (error := future.exception())]
    for further in errors[1:]:
        structlog.get_logger().error(
            "another stream failed, too", error=f"{type(further).__name__}: {further}"
        )
    if errors:
        raise errors[0]


@dataclass(slots=True)
class _TracedWork:
    """The spans of one step, whose last stage names the operation, such as `detect`.

    A window whose result depends on the state after an earlier one has a link to the span of that
    one, which another worker may have made.
    """

    tracing: Tracing
    step: BatchStep
    group: str = ""  # the consumer group; empty if it is not known
    _last: OrderedDict[bytes | None, tuple[int, SpanContext]] = field(default_factory=OrderedDict)
    _unpublished: dict[tuple[int, int], SpanContext] = field(default_factory=dict)

    def outcomes(self, work: Iterator[tuple[Record, Outcome]]) -> Iterator[tuple[Record, Outcome]]:
        """Yield each record and its outcome, whose messages have the context of its span."""
        started = time.time_ns()
        for record, outcome in work:
            yield record, self._traced(record, outcome, started, time.time_ns())
            started = time.time_ns()

    def assigned(self, partitions: Collection[int]) -> None:
        """Forget what was done in these partitions: it was not committed, or others went on."""
        # These spans would stay for ever if another worker goes on with the partition.
        for place in [place for place in self._unpublished if place[0] in partitions]:
            del self._unpublished[place]
        for graph in [key for key, last in self._last.items() if last[0] in partitions]:
            del self._last[graph]

    def published(self, batch: BatchDone) -> None:
        """Make the span of a batch that was published and committed."""
        places = [(record.partition, record.offset) for record in batch.records]
        links = [self._unpublished.pop(place) for place in places if place in self._unpublished]
        if links:
            self.tracing.published(batch.publish_seconds, links)

    def _traced(self, record: Record, outcome: Outcome, started_ns: int, ended_ns: int) -> Outcome:
        facts = {f"stream_icd.{name}": value for name, value in self.step.context.items()}
        facts["stream_icd.graph"] = (graph_name(record) or b"").decode(errors="replace")
        if self.group:
            facts[GROUP] = self.group
        if isinstance(outcome, Refused):
            error, summary = outcome.error, f"refused: {outcome.stage}"
        else:
            error, summary = None, outcome.event
        before = self._before(record) if _uses_state(outcome) else None
        stages = _stages(outcome)
        started_ns, ended_ns = _detected(outcome, stages) or (started_ns, ended_ns)
        span = self.tracing.processed(
            self.step.stages[-1],
            record,
            started_ns,
            ended_ns,
            links=[] if before is None else [before],
            stages=stages,
            attributes={**facts, "stream_icd.outcome": summary},
            error=error,
        )
        context = span.get_span_context()
        self._unpublished[record.partition, record.offset] = context
        if isinstance(outcome, Refused):
            return outcome
        state = None if outcome.state is None else self.tracing.sent_by(span, outcome.state)
        if state is not None or outcome.event == "tracked":
            self._last[record.key] = record.partition, context
            self._last.move_to_end(record.key)
            if len(self._last) > _MOST_GRAPHS:
                self._last.popitem(last=False)
        sent = tuple(self.tracing.sent_by(span, result) for result in outcome.outgoing)
        return replace(outcome, outgoing=sent, state=state)

    def _before(self, record: Record) -> SpanContext | None:
        """The span that made the state before a record, here or in another worker."""
        last = self._last.get(record.key)
        if last is not None:
            return last[1]
        return self.tracing.maker_of(self.step.state_headers(record))


def _uses_state(outcome: Outcome) -> bool:
    """Whether the state after an earlier window was used."""
    if isinstance(outcome, Refused):
        return False
    memory = [dict(record.headers).get("icd_memory") for record in outcome.outgoing]
    return outcome.event == "tracked" or not _USING_MEMORY.isdisjoint(memory)


def _stages(outcome: Outcome) -> dict[str, float]:
    """Milliseconds of each stage of a detection, in any process."""
    milliseconds = outcome.facts.get("ms") if isinstance(outcome, Processed) else None
    if not isinstance(milliseconds, Mapping):
        return {}
    return {stage: milliseconds[stage] for stage in STAGES if milliseconds.get(stage)}


def _detected(outcome: Outcome, stages: Mapping[str, float]) -> tuple[int, int] | None:
    """When a detection began and ended: in another process, that is before its record's turn."""
    if not stages or isinstance(outcome, Refused) or not outcome.outgoing:
        return None
    detected_at = dict(outcome.outgoing[0].headers).get("icd_detected_at")
    if detected_at is None:
        return None
    ended = round(1e9 * datetime.fromisoformat(detected_at.decode()).timestamp())
    return ended - round(MS * sum(stages.values())), ended
