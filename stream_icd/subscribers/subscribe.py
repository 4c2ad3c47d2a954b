"""Following what is published: communities, their events, and one node's way through them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime
from threading import Event
from typing import Literal, Protocol, TypeVar

from stream_icd.communities import Communities
from stream_icd.errors import BadInput, BadSettings
from stream_icd.events import KINDS, CommunityEvents
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.stop import Stop
from stream_icd.kafka.topics import COMMUNITIES, EVENTS
from stream_icd.messages.claim_settings import ClaimSettings
from stream_icd.messages.clock import utc_now
from stream_icd.messages.reader import Decode, reader_of
from stream_icd.snapshot import Window
from stream_icd.subscribers.group_reader import group_of, open_group_reader
from stream_icd.subscribers.mixed_models import MixedModels
from stream_icd.subscribers.seen_results import SeenResults, Superseded, result_of
from stream_icd.subscribers.subscription import Subscription
from stream_icd.tracking.ahead import too_far_ahead
from stream_icd.tracking.gaps import Gap, missed_windows
from stream_icd.tracking.node_changes import NodeChange, node_changes
from stream_icd.wire.communities import decode_communities
from stream_icd.wire.events import decode_events
from stream_icd.wire.limits import Limits

Start = Literal["beginning", "latest"] | datetime
Until = Literal["forever", "end"]
OnBad = Callable[[Record, BadInput], None]
Revisions = Literal["newest", "all"]
OnGap = Callable[[Gap], None]


def subscribe(
    graph: str | None = None,
    *,
    model: str | None = None,
    start: Start | None = None,
    until: Until = "forever",
    limit: int | None = None,
    group: str | None = None,
    revisions: Revisions = "newest",
    settings: KafkaSettings | None = None,
    topic: str = COMMUNITIES,
    limits: Limits | None = None,
    claims: ClaimSettings | None = None,
    on_bad: OnBad | None = None,
    on_gap: OnGap | None = None,
) -> Subscription[Communities]:
    """Communities as detectors publish them, each result once.

    A result that was published twice (a detector restarted) is yielded once. A correction is
    yielded as well: the same graph, snapshot and model with another `revision`, which replaces the
    one before. Windows that did not come are reported by `on_gap`, before the window that did.

    Args:
        graph: only this graph's; None for all.
        model: only results of this model, by its version (`as@8168f91e`) or its name (`as`).
        start: `beginning`, `latest` (what comes from now on, the default), or a time with its
            zone. Not with a group, which goes on where it was, at first from the beginning.
        until: `forever`, or `end` for what is there now (not with a group).
        limit: stop after so many.
        group: share the stream with the other members of this consumer group, and go on after a
            restart; a result counts as received when the next one is asked for. Without a group
            everybody gets everything. Only readers with the same filters share a group: the
            group's name in Kafka is this one and the filters, such as `NAME-as733` with the graph
            `as733`, or `NAME-as733-model=as` with a model too.
        revisions: of what the topic holds already, `newest` leaves out what was corrected since;
            `all` yields each revision. What comes from now on is yielded in any case, and with a
            group everything is.
        settings: how to reach Kafka; by default from the environment (`STREAM_ICD_…`).
        limits: what a message may make us allocate; by default from the environment.
        claims: where results too big for a message are kept; by default from the environment.
        on_bad: called with a message that is no communities message; by default it is logged.
        on_gap: called with the windows that are missing; by default they are logged.

    Raises:
        BadSettings: options that exclude each other.
        BrokerUnavailable: nobody answers; try again. This and what follows when the first item
            is asked for.
        TopicMissing, OffsetGone: as their texts say.

    Example:
        ```python
        from stream_icd import subscribe

        for communities in subscribe("as733", start="beginning"):
            print(communities.snapshot_id, communities.n_communities, communities.modularity)
        ```

        In asynchronous programs: `async for communities in subscribe("as733"): …`
    """
    source = _Source(
        settings or KafkaSettings(),
        topic,
        start,
        until,
        group_of(group, graph, model=model),
        _Wanted(graph, model),
        revisions,
    )
    watch = _Watch(on_bad or _log_bad, on_gap or _log_gap)
    decode = _reader(decode_communities, claims, limits)
    return Subscription(lambda stop: _limited(_follow(source, decode, watch, stop), limit, stop))


def subscribe_events(
    graph: str | None = None,
    *,
    community: int | None = None,
    event: str | Collection[str] | None = None,
    model: str | None = None,
    start: Start | None = None,
    until: Until = "forever",
    limit: int | None = None,
    group: str | None = None,
    revisions: Revisions = "newest",
    settings: KafkaSettings | None = None,
    topic: str = EVENTS,
    limits: Limits | None = None,
    claims: ClaimSettings | None = None,
    on_bad: OnBad | None = None,
    on_gap: OnGap | None = None,
) -> Subscription[CommunityEvents]:
    """What happened to communities, as trackers publish it, each snapshot once.

    Args:
        community: only events that this community, by its stable id, took part in.
        event: only events of this kind, or of these.

    The other arguments are those of `subscribe`.

    With a filter, `events` holds only what passes it, and snapshots of which nothing passes are
    left out; `nodes` and `communities` are whole in any case.

    Example:
        ```python
        from stream_icd import subscribe_events

        for snapshot in subscribe_events("as733", event={"merged", "split"}):
            for event in snapshot.events:
                print(snapshot.window.end, event.kind, event.community, event.parents)
        ```
    """
    kinds = _kinds(event)
    source = _Source(
        settings or KafkaSettings(),
        topic,
        start,
        until,
        group_of(group, graph, model=model, community=community, event=_named(kinds)),
        _Wanted(graph, model),
        revisions,
    )
    watch = _Watch(on_bad or _log_bad, on_gap or _log_gap)
    decode = _reader(decode_events, claims, limits)

    def open_items(stop: Event) -> Generator[CommunityEvents, None, None]:
        found = _follow(source, decode, watch, stop)
        return _limited(_filtered(found, community, kinds), limit, stop)

    return Subscription(open_items)


def subscribe_node(
    node: int | str,
    graph: str | None = None,
    *,
    model: str | None = None,
    start: Start | None = None,
    until: Until = "forever",
    limit: int | None = None,
    group: str | None = None,
    revisions: Revisions = "newest",
    settings: KafkaSettings | None = None,
    topic: str = EVENTS,
    limits: Limits | None = None,
    claims: ClaimSettings | None = None,
    on_bad: OnBad | None = None,
    on_gap: OnGap | None = None,
) -> Subscription[NodeChange]:
    """Where a node is at first, then each time that it is in another community, or in none.

    Communities are followed by their stable ids: a mere change of labels is no change.

    Args:
        node: the source's own id, such as 701; integers may be given as text.

    The other arguments are those of `subscribe`.

    Example:
        ```python
        from stream_icd import subscribe_node

        for change in subscribe_node(701, "as733"):
            print(f"AS {change.node} left community {change.before} for {change.after}")
        ```
    """
    source = _Source(
        settings or KafkaSettings(),
        topic,
        start,
        until,
        group_of(group, graph, model=model, node=node),
        _Wanted(graph, model),
        revisions,
    )
    watch = _Watch(on_bad or _log_bad, on_gap or _log_gap)
    decode = _reader(decode_events, claims, limits)

    def open_items(stop: Event) -> Generator[NodeChange, None, None]:
        found = _follow(source, decode, watch, stop)
        return _limited(node_changes(found, node), limit, stop)

    return Subscription(open_items)


class _Published(Protocol):
    """What can be followed: a result of one window."""

    @property
    def graph(self) -> str: ...
    @property
    def window(self) -> Window: ...
    @property
    def model(self) -> str: ...


Item = TypeVar("Item")
Published = TypeVar("Published", bound=_Published)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Which results are asked for, by the headers of their records; None for all."""

    graph: str | None
    model: str | None

    def holds(self, record: Record) -> bool:
        if self.graph is not None and record.key != self.graph.encode():
            return False
        if self.model is None:
            return True
        version = dict(record.headers).get("icd_model", b"").decode(errors="replace")
        return self.model in (version, version.rpartition("@")[0])


@dataclass(frozen=True, slots=True)
class _Source:
    """Which records to read."""

    settings: KafkaSettings
    topic: str
    start: Start | None
    until: Until
    group: str | None
    wanted: _Wanted
    revisions: Revisions

    def __post_init__(self) -> None:
        if self.group is not None and (self.start is not None or self.until == "end"):
            raise BadSettings(
                f"group {self.group!r} reads on from where it was, without end: leave out start "
                f"(--from) and until (--until), or the group"
            )

    def open(self, stop: Stop) -> AbstractContextManager[Iterator[Record]]:
        if self.group is not None:
            return open_group_reader(self.settings, self.topic, self.group, stop)
        start = "latest" if self.start is None else self.start
        return open_reader(self.settings, self.topic, start=start, until=self.until, stop=stop)

    def superseded(self, stop: Stop) -> Callable[[Record], bool]:
        """Tells of a record that was there already whether it is an older revision, not asked for.

        Only headers tell, so the past is read twice: a correction comes after what it corrects.
        """
        if self.revisions == "all" or self.group is not None or self.start in (None, "latest"):
            return lambda _: False
        with open_reader(
            self.settings, self.topic, start=self.start, until="end", stop=stop
        ) as records:
            return Superseded(filter(self.wanted.holds, records)).holds


@dataclass(frozen=True, slots=True)
class _Watch:
    """Whom to tell of what is not as it should be."""

    on_bad: OnBad
    on_gap: OnGap
    clock: Callable[[], datetime] = utc_now
    models: MixedModels = field(default_factory=MixedModels)

    def say_models(self, found: _Published) -> None:
        """Warn of a graph that two models take turns in."""
        if said := self.models.look_at(found.graph, found.model):
            import structlog

            structlog.get_logger().warning(f"{said}; choose one with model= (--model)")


def _follow(
    source: _Source, decode: Callable[[Record], Published], watch: _Watch, stop: Stop
) -> Iterator[Published]:
    """Each result once, gaps reported."""
    seen = SeenResults()
    last: dict[str, Window] = {}
    superseded = source.superseded(stop)
    with source.open(stop) as records:
        for record in filter(source.wanted.holds, records):
            if record.value is None:  # an operator made the graph start anew
                last.pop((record.key or b"").decode(errors="replace"), None)
                seen.forget(record.key)
                continue
            try:
                found = decode(record)
            except BadInput as error:
                watch.on_bad(record, error)
                continue
            if seen.is_new(result_of(record)) and not superseded(record):
                _tell_gap(last, found, watch)
                watch.say_models(found)
                yield found


def _tell_gap(last: dict[str, Window], found: _Published, watch: _Watch) -> None:
    before = last.get(found.graph)
    if too_far_ahead(found.window, watch.clock()):
        return  # the gap before it is no gap, and those after it would not be seen
    if before is not None and found.window.end <= before.end:
        return  # late, or the same window by another model
    if before is not None and (missed := missed_windows(before, found.window)):
        watch.on_gap(Gap(found.graph, before, found.window, missed))
    last[found.graph] = found.window


def _limited(items: Iterator[Item], limit: int | None, stop: Event) -> Generator[Item, None, None]:
    """At most `limit`; the last one counts as received, too, once another is asked for."""
    for taken, item in enumerate(items, start=1):
        yield item
        if taken == limit:
            stop.set()


def _reader(
    decode: Decode[Published], claims: ClaimSettings | None, limits: Limits | None
) -> Callable[[Record], Published]:
    reader = reader_of(claims, limits)
    return lambda record: reader.decoded(record, decode)


def _kinds(event: str | Collection[str] | None) -> frozenset[str] | None:
    if event is None:
        return None
    kinds = frozenset([event] if isinstance(event, str) else event)
    if unknown := kinds - set(KINDS):
        raise BadSettings(f"there is no event {min(unknown)!r}; there are {', '.join(KINDS)}")
    return kinds


def _named(kinds: frozenset[str] | None) -> str | None:
    return None if kinds is None else "+".join(sorted(kinds))


def _filtered(
    found: Iterator[CommunityEvents], community: int | None, kinds: frozenset[str] | None
) -> Iterator[CommunityEvents]:
    for one in found:
        events = tuple(
            event
            for event in one.events
            if (kinds is None or event.kind in kinds)
            and (community is None or event.concerns(community))
        )
        if events or (community is None and kinds is None):
            yield replace(one, events=events)


def _log_bad(record: Record, error: BadInput) -> None:
    import structlog  # a tenth of the start, for what hardly ever happens

    structlog.get_logger().warning(
        "not a message of this topic",
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        reason=str(error),
    )


def _log_gap(gap: Gap) -> None:
    import structlog

    structlog.get_logger().warning("windows are missing", graph=gap.graph, gap=str(gap))
