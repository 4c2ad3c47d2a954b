"""Traces of a worker: a span for each record and its stages, and one for each published batch."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from stream_icd.kafka.delivery.handler import BatchDone
from stream_icd.kafka.messages.records import Outcome, Processed, Refused, graph_name
from stream_icd.kafka.record import Record
from stream_icd.kafka.tracing import GROUP, MS, Took, Tracing

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext

    from stream_icd.streaming.workers.step import BatchStep

_MOST_GRAPHS = 10_000
"""The last windows of so many graphs are known, for links."""

_USING_MEMORY = frozenset((b"continued", b"broken", b"damaged", b"late"))
"""What `icd_memory` says of a window that was detected with the memory of the one before."""


@dataclass(slots=True)
class TracedWork:
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
            yield record, self._traced(record, outcome, Took(started, time.time_ns()))
            started = time.time_ns()

    def assigned(self, partitions: Collection[int]) -> None:
        """Forget what was done in these partitions: it was not committed, or others went on."""
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

    def _traced(self, record: Record, outcome: Outcome, took: Took) -> Outcome:
        facts = {f"stream_icd.{name}": value for name, value in self.step.context.items()}
        facts["stream_icd.graph"] = (graph_name(record) or b"").decode(errors="replace")
        if self.group:
            facts[GROUP] = self.group
        error = outcome.error if isinstance(outcome, Refused) else None
        said = f"refused: {outcome.stage}" if isinstance(outcome, Refused) else outcome.event
        before = self._before(record) if _uses_state(outcome) else None
        stages = _stages(outcome)
        span = self.tracing.processed(
            self.step.stages[-1],
            record,
            _took(outcome, stages, took),
            links=[] if before is None else [before],
            stages=stages,
            attributes={**facts, "stream_icd.outcome": said},
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
    said = outcome.facts.get("ms") if isinstance(outcome, Processed) else None
    if not isinstance(said, Mapping):
        return {}
    order = ("decode", "features", "encode", "cluster")
    return {stage: said[stage] for stage in order if said.get(stage)}


def _took(outcome: Outcome, stages: Mapping[str, float], took: Took) -> Took:
    """When a record was worked on: detection in another process ended before its turn came."""
    if not stages or isinstance(outcome, Refused) or not outcome.outgoing:
        return took
    detected_at = dict(outcome.outgoing[0].headers).get("icd_detected_at")
    if detected_at is None:
        return took
    ended = round(1e9 * datetime.fromisoformat(detected_at.decode()).timestamp())
    return Took(ended - round(MS * sum(stages.values())), ended)
