"""What all subscriptions share: their options; each result once, in order, with gaps reported."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from threading import Event, Lock
from typing import Any, Literal, Self, TypedDict, TypeVar

from stream_icd.core.communities import Communities
from stream_icd.core.errors import BadInput, BadSettings
from stream_icd.core.events import CommunityEvents
from stream_icd.core.imports import with_pandas
from stream_icd.core.printable import did_you_mean, printable
from stream_icd.core.snapshot import Window
from stream_icd.core.times import Gap, missed_windows, too_far_ahead, utc_now
from stream_icd.kafka.messages.claims import ClaimSettings, Decode, MessageReader
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.tracing import Tracing
from stream_icd.kafka.waiting import Stop, TaskThread
from stream_icd.streaming.subscribers.group_reader import open_group_reader
from stream_icd.streaming.subscribers.seen_results import (
    MixedModels,
    SeenResults,
    result_of,
)
from stream_icd.wire.events import is_late
from stream_icd.wire.limits import Limits

_Start = Literal["beginning", "latest"] | datetime
_Until = Literal["forever", "end"]
_Revisions = Literal["newest", "all"]
_OnBad = Callable[[Record, BadInput], None]
_OnGap = Callable[[Gap], None]

# The standard library's: without a configuration it writes warnings to standard error, where they
# do not mix with results.
_LOG = logging.getLogger(__name__)


class SubscribeOptions(TypedDict, total=False):
    """The keyword arguments that all subscribe functions take; `subscribe` explains them.

    None is the same as leaving one out.
    """

    model: str | None
    start: _Start | None
    until: _Until | None
    limit: int | None
    group: str | None
    revisions: _Revisions | None
    settings: KafkaSettings | None
    topic: str | None
    limits: Limits | None
    claims: ClaimSettings | None
    on_bad: _OnBad | None
    on_gap: _OnGap | None


def log_bad(record: Record, error: BadInput) -> None:
    _LOG.warning("skipped %s: %s", record.place, printable(str(error)))


def _log_gap(gap: Gap) -> None:
    _LOG.warning("%s", printable(str(gap)))


@dataclass(frozen=True, slots=True)
class _ReadOptions:
    topic: str
    graph: str | None = None
    model: str | None = None
    start: _Start | None = None
    until: _Until = "forever"
    limit: int | None = None
    group: str | None = None
    revisions: _Revisions = "newest"
    settings: KafkaSettings = field(default_factory=KafkaSettings)
    reader: MessageReader = field(default_factory=MessageReader)
    on_bad: _OnBad = log_bad
    on_gap: _OnGap = _log_gap

    def __post_init__(self) -> None:
        starts = isinstance(self.start, datetime) or self.start in (None, "beginning", "latest")
        limits = self.limit is None or (hasattr(self.limit, "__index__") and self.limit >= 1)
        for name in ("topic", "graph", "model", "group"):
            text = getattr(self, name)
            sayable = isinstance(text, str) and text.encode(errors="replace").decode() == text
            if text is not None and not (text and sayable):
                raise BadSettings(f"{name}={text!r}: it must be a name, or left out")
        for name, good, rule in (
            ("start", starts, "beginning, latest or a datetime with a zone"),
            ("until", self.until in ("forever", "end"), "forever or end"),
            ("revisions", self.revisions in ("newest", "all"), "newest or all"),
            ("limit", limits, "a whole number, at least 1"),
            ("on_bad", callable(self.on_bad), "a function"),
            ("on_gap", callable(self.on_gap), "a function"),
        ):
            if not good:
                raise BadSettings(f"{name}={getattr(self, name)!r}: it must be {rule}")
        if self.group is not None and (self.start is not None or self.until == "end"):
            raise BadSettings(
                f"group {self.group!r} continues at its position and does not end: leave out start "
                f"(--from) and until (--until), or the group"
            )

    def want(self, record: Record) -> bool:
        """Return whether a record is requested; one without a value, whatever the model is."""
        if self.graph is not None and record.key != self.graph.encode():
            return False
        if self.model is None or record.value is None:
            return True
        version = dict(record.headers).get("icd_model", b"").decode(errors="replace")
        return self.model in (version, version.rpartition("@")[0])


def _read_options(graph: str | None, topic: str, arguments: SubscribeOptions) -> _ReadOptions:
    """Return the keyword arguments of a subscriber with their defaults, checked."""
    names = SubscribeOptions.__annotations__
    if unknown := arguments.keys() - names:
        name = min(unknown)
        raise TypeError(f"subscribe functions have no argument {name!r}{did_you_mean(name, names)}")
    chosen: dict[str, Any] = {name: value for name, value in arguments.items() if value is not None}
    for name, kind in _TYPES.items():
        if not isinstance(value := chosen.get(name), kind | None):  # which may hold a password
            raise BadSettings(f"{name}={type(value).__name__}(…): it must be {kind.__name__}(…)")
    claims, limits = chosen.pop("claims", None), chosen.pop("limits", None)
    reader = MessageReader(claims or ClaimSettings(), limits or Limits())
    if chosen.get("until") == "end":  # from the latest on, there would be nothing
        chosen.setdefault("start", "beginning")
    return _ReadOptions(graph=graph, reader=reader, **{"topic": topic, **chosen})


_TYPES = {"settings": KafkaSettings, "limits": Limits, "claims": ClaimSettings}

_Item = TypeVar("_Item")
_Published = TypeVar("_Published", Communities, CommunityEvents)

_END: Any = object()


class Subscription(Iterator[_Item], AsyncIterator[_Item]):
    """An iterator over new items, with `for` or with `async for`, but not both at a time.

    It connects when the first item is requested. If you leave the loop early, resources are freed
    when the subscription is closed or garbage-collected; a `with` block closes it at its end.
    `async for` waits in a thread: the event loop continues, and a cancelled wait (a timeout) loses
    no item. Tasks that share a subscription share its items, each of which one of them gets; so do
    threads.
    """

    def __init__(self, open_items: Callable[[Event], Generator[_Item, None, None]]) -> None:
        self._worker: TaskThread | None = None
        self._stop = Event()
        self._items = open_items(self._stop)
        self._awaited: Future[_Item] | None = None
        self._turn = asyncio.Lock()  # of the tasks that wait
        self._turn_of_threads = Lock()

    def __next__(self) -> _Item:
        try:
            with self._turn_of_threads:
                return next(self._items)
        except ValueError:
            if self._stop.is_set():  # another thread is closing it
                raise StopIteration from None
            raise

    async def __anext__(self) -> _Item:
        async with self._turn:
            self._worker = self._worker or TaskThread("subscription")
            # What a cancelled wait requested is still awaited: its item belongs to the next one.
            if self._awaited is None:
                # Without a reference to us: the thread would keep a subscription that nobody has.
                self._awaited = self._worker.submit(partial(next, self._items, _END))
            item = await asyncio.shield(asyncio.wrap_future(self._awaited))
            self._awaited = None
        if item is _END:
            self.close()
            raise StopAsyncIteration
        return item

    def close(self) -> None:
        """Close the subscription: pending requests get no item, and the connection is closed."""
        self._stop.set()  # first: it ends the wait of a thread or task that holds the generator
        if self._worker is not None:
            # In its thread, after a request that is waiting there.
            self._worker.submit(self._end)
            self._worker.close()
            self._worker = None
        else:
            self._end()

    def __del__(self) -> None:
        if self._worker is not None:  # whose thread keeps the generator alive
            self.close()

    def _end(self) -> None:
        with suppress(ValueError):  # the generator is running; `stop` ends it
            self._items.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


def _group_of(name: str | None, graph: str | None, **filters: object) -> str | None:
    """Return the consumer group of readers with this name and these filters; None without a name.

    Readers with different filters need different groups: a group's position also passes records
    that a member filters out.

    >>> _group_of("dashboard", "as733", model="as", event=None)
    'dashboard-as733-model=as'
    >>> _group_of("dashboard", None)
    'dashboard'
    """
    if name is None:
        return None
    of_graph = [] if graph is None else [graph]
    of_filters = [f"{key}={value}" for key, value in filters.items() if value is not None]
    return "-".join([name, *of_graph, *of_filters])


def following(
    graph: str | None,
    topic: str,
    arguments: SubscribeOptions,
    decode: Decode[_Published],
    items: Callable[[Iterator[_Published]], Iterator[_Item]],
    **filters: object,
) -> Subscription[_Item]:
    """Return a subscription to the results, which `items` converts, and filters by `filters`.

    Raises `TypeError` for an unknown keyword, `BadSettings` for a wrong value or combination.
    """
    options = _read_options(graph, topic, arguments)
    group = _group_of(options.group, options.graph, model=options.model, **filters)
    options = replace(options, group=group)

    def all_items(stop: Stop) -> Iterator[_Item]:
        with_pandas()  # Arrow would import it amid the first result, and drop a Ctrl-C meanwhile
        # Before the results: a correction of the past follows what it corrects.
        superseded = _superseded(options, stop)
        with _open(options, stop) as parts:
            # Anew for each part: another member may have read records between two of them.
            for records in parts:
                yield from items(_results(options, decode, superseded, records))

    def open_items(stop: Event) -> Generator[_Item, None, None]:
        return _limited(all_items(stop), options.limit, stop)

    return Subscription(open_items)


@contextmanager
def _open(options: _ReadOptions, stop: Stop) -> Iterator[Iterable[Iterator[Record]]]:
    """Give the records, in the parts of `open_group_reader`; without a group there is one."""
    settings, topic = options.settings, options.topic
    if options.group is not None:
        with open_group_reader(settings, topic, options.group, stop) as parts:
            yield parts
        return
    start = "latest" if options.start is None else options.start
    with open_reader(settings, topic, start=start, until=options.until, stop=stop) as records:
        yield [records]


def _results(
    options: _ReadOptions,
    decode: Decode[_Published],
    superseded: Callable[[Record], bool],
    records: Iterator[Record],
) -> Iterator[_Published]:
    """Yield each result once; report gaps, and graphs with alternating results of two models."""
    seen_results, models, tracing = SeenResults(), MixedModels(), Tracing.if_on()
    last: dict[str, Window] = {}
    for record in filter(options.want, records):
        if record.value is None:  # an operator reset the graph
            last.pop(record.key_text, None)
            seen_results.forget(record.key)
            continue
        try:
            with nullcontext() if tracing is None else tracing.receiving(record, options.group):
                result = options.reader.decoded(record, decode)
        except BadInput as error:
            options.on_bad(record, error)
            continue
        if not seen_results.is_new(result_of(record)):
            continue
        # Before a superseded result is left out: its window is not missing.
        _report_gap(options, last, result)
        if not superseded(record):
            if warning := models.look_at(result.graph, result.model):
                _LOG.warning("%s; choose one with model= (--model)", printable(warning))
            yield result


def _superseded(options: _ReadOptions, stop: Stop) -> Callable[[Record], bool]:
    """Return a test for past records that a newer revision replaces; a group gets all results."""
    start, topic = options.start, options.topic
    if start is None or start == "latest" or options.revisions == "all":
        return lambda _: False
    seen_results, newest = SeenResults(), dict[object, tuple[int, int]]()
    with open_reader(options.settings, topic, start=start, until="end", stop=stop) as records:
        for record in filter(options.want, records):
            result = result_of(record)
            if record.value is None:  # what is published again is new
                seen_results.forget(record.key)
            # `is_new` first: `_results` counts repetitions of late windows, too.
            elif seen_results.is_new(result) and not is_late(record.headers):
                newest[result.name] = record.partition, record.offset

    def is_superseded(record: Record) -> bool:
        partition, offset = newest.get(result_of(record).name, (-1, -1))
        return partition == record.partition and record.offset < offset

    return is_superseded


def _report_gap(
    options: _ReadOptions, last: dict[str, Window], result: Communities | CommunityEvents
) -> None:
    before = last.get(result.graph)
    if too_far_ahead(result.window, utc_now()):
        return  # else it would report a false gap, and hide later ones
    if before is not None and result.window.end <= before.end:
        return  # late, or the same window by another model
    if before is not None and (missed := missed_windows(before, result.window)):
        options.on_gap(Gap(result.graph, before, result.window, missed))
    last[result.graph] = result.window


def _limited(
    items: Iterator[_Item], limit: int | None, stop: Event
) -> Generator[_Item, None, None]:
    """Yield at most `limit` items; the last is acknowledged when another one is requested."""
    for count, item in enumerate(items, start=1):
        yield item
        # After the caller came back for more: a group commits the record of the last item, too.
        if count == limit:
            stop.set()
