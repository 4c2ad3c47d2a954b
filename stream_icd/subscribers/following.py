"""The common part of all subscriptions: each result once, in order, with gaps reported."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from threading import Event
from typing import Protocol, TypeVar

from stream_icd.errors import BadInput
from stream_icd.kafka.clock import Stop
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import Record
from stream_icd.messages.claims import Decode
from stream_icd.printable import printable
from stream_icd.snapshot import Window
from stream_icd.subscribers.group_reader import group_of, open_group_reader
from stream_icd.subscribers.mixed_models import MixedModels
from stream_icd.subscribers.read_options import ReadOptions
from stream_icd.subscribers.seen_results import SeenResults, Superseded, result_of
from stream_icd.subscribers.subscription import Subscription
from stream_icd.times import utc_now
from stream_icd.tracing import tracing_if_on
from stream_icd.tracking.gaps import Gap, missed_windows
from stream_icd.tracking.settings import too_far_ahead

# The standard library's: without a configuration it writes warnings to standard error, where they
# do not mix with results.
LOG = logging.getLogger(__name__)


class Result(Protocol):
    """A result of one window."""

    @property
    def graph(self) -> str: ...
    @property
    def window(self) -> Window: ...
    @property
    def model(self) -> str: ...


Item = TypeVar("Item")
Published = TypeVar("Published", bound=Result)


def following(
    options: ReadOptions,
    decode: Decode[Published],
    items: Callable[[Iterator[Published]], Iterator[Item]],
    **filters: object,
) -> Subscription[Item]:
    """Return a subscription to the requested results.

    Args:
        decode: decodes the messages of this topic.
        items: converts the results, and may filter them.
        filters: the filters in `items`: readers with other filters need another group.
    """
    group = group_of(options.group, options.graph, model=options.model, **filters)

    def open_items(stop: Event) -> Generator[Item, None, None]:
        found = _Following(options, group).results(decode, stop)
        return _limited(items(found), options.limit, stop)

    return Subscription(open_items)


@dataclass(frozen=True, slots=True)
class _Following:
    """The state of one subscription.

    Attributes:
        group: the consumer group's name in Kafka; None: no group, every reader gets all results.
        last: the latest window of each graph.
    """

    options: ReadOptions
    group: str | None
    clock: Callable[[], datetime] = utc_now
    last: dict[str, Window] = field(default_factory=dict)
    models: MixedModels = field(default_factory=MixedModels)

    def results(self, decode: Decode[Published], stop: Stop) -> Iterator[Published]:
        """Yield each result once; report gaps."""
        options, seen, tracing = self.options, SeenResults(), tracing_if_on()
        superseded = self._superseded(stop)
        with self._open(stop) as records:
            for record in filter(options.want, records):
                if record.value is None:  # an operator reset the graph
                    self.last.pop((record.key or b"").decode(errors="replace"), None)
                    seen.forget(record.key)
                    continue
                try:
                    with nullcontext() if tracing is None else tracing.receiving(record):
                        found = options.reader.decoded(record, decode)
                except BadInput as error:
                    options.on_bad(record, error)
                    continue
                if seen.is_new(result_of(record)) and not superseded(record):
                    self._report_gap(found)
                    self._report_models(found)
                    yield found

    def _open(self, stop: Stop) -> AbstractContextManager[Iterator[Record]]:
        options = self.options
        if self.group is not None:
            return open_group_reader(options.settings, options.topic, self.group, stop)
        start = "latest" if options.start is None else options.start
        return open_reader(
            options.settings, options.topic, start=start, until=options.until, stop=stop
        )

    def _superseded(self, stop: Stop) -> Callable[[Record], bool]:
        """Return a test for past records that a newer revision replaces and that are not requested.

        The past is read twice, headers only, because a correction follows what it corrects.
        """
        options = self.options
        start = options.start
        if options.revisions == "all" or self.group is not None or start in (None, "latest"):
            return lambda _: False
        assert start is not None
        with open_reader(
            options.settings, options.topic, start=start, until="end", stop=stop
        ) as records:
            return Superseded(filter(options.want, records)).holds

    def _report_gap(self, found: Result) -> None:
        before = self.last.get(found.graph)
        if too_far_ahead(found.window, self.clock()):
            return  # else it would report a false gap, and hide later ones
        if before is not None and found.window.end <= before.end:
            return  # late, or the same window by another model
        if before is not None and (missed := missed_windows(before, found.window)):
            self.options.on_gap(Gap(found.graph, before, found.window, missed))
        self.last[found.graph] = found.window

    def _report_models(self, found: Result) -> None:
        """Warn of a graph with alternating results of two models."""
        if said := self.models.look_at(found.graph, found.model):
            LOG.warning("%s; choose one with model= (--model)", printable(said))


def _limited(items: Iterator[Item], limit: int | None, stop: Event) -> Generator[Item, None, None]:
    """Yield at most `limit` items; the last is acknowledged when another one is requested."""
    for taken, item in enumerate(items, start=1):
        yield item
        if taken == limit:
            stop.set()
