"""Subscribe to communities, to lifecycle events, or to the changes of one node."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, Unpack

import pyarrow as pa

from stream_icd.core.communities import Communities
from stream_icd.core.errors import BadSettings
from stream_icd.core.events import EVENT_KINDS, CommunityEvent, CommunityEvents
from stream_icd.core.snapshot import Window
from stream_icd.kafka.topics import COMMUNITIES, EVENTS
from stream_icd.methods.tracking.confirmation import confirmed as only_confirmed
from stream_icd.streaming.subscribers.subscription import (
    SubscribeOptions,
    Subscription,
    following,
)
from stream_icd.wire.communities import decode_communities
from stream_icd.wire.events import decode_events

_MOST_CONFIRMED = 100
"""So many windows of a graph wait in memory at most."""


def subscribe(
    graph: str | None = None, **options: Unpack[SubscribeOptions]
) -> Subscription[Communities]:
    """Yield the communities that detectors publish, each result once.

    A result that was published twice, because a detector restarted, is yielded once. A correction
    is yielded too: it has the same graph, snapshot and model and another `revision`, and replaces
    the previous result. Missing windows are reported with `on_gap`, before the next window.

    Args:
        graph: only results of this graph. Default: all graphs.
        model: only results of this model: its version (`as@b4b47a3e`) or its name (`as`).
        start: `beginning` (the default with `until="end"`), `latest` (new results only, otherwise
            the default), or a datetime with a zone. Not with a group: a group continues at its
            position, and a new group at the beginning.
        until: `forever`, or `end` to stop after the results that the topic holds now (not with a
            group).
        limit: stop after this number of results, at least 1.
        group: name of a consumer group. Its members share the results, and a restarted member
            continues; a result counts as received when the next one is requested. Default: no
            group; each subscriber gets all results. Only subscribers with the same filters share
            a group: the filters are added to its name in Kafka, such as `NAME-as733` with the
            graph `as733`, or `NAME-as733-model=as` with a model too.
        revisions: past results that were corrected: `newest` yields the newest revision only,
            `all` yields each. New results are always yielded, and with a group all results.
        settings: connection to Kafka. Default: from the environment (`STREAM_ICD_…`).
        limits: sizes that a message may have. Default: from the environment.
        claims: the claim store. Default: from the environment.
        on_bad: called with each message that is not a communities message. Default: log it.
        on_gap: called with missing windows. Default: log them.

    Raises:
        BadSettings: an option is wrong, or the options exclude each other.
        BrokerUnavailable: no broker answers; try again. This error and the following ones are
            raised when the first item is requested.
        TopicMissing, OffsetGone: see these classes.

    Example:
        ```python
        from stream_icd import subscribe

        for communities in subscribe("as733", start="beginning"):
            print(communities.snapshot_id, communities.n_communities, communities.modularity)
        ```

        In asynchronous programs: `async for communities in subscribe("as733"): …`
    """
    return following(graph, COMMUNITIES, options, decode_communities, iter)


def subscribe_events(
    graph: str | None = None,
    *,
    community: int | None = None,
    event: str | Collection[str] | None = None,
    least_bits: float | None = None,
    confirmed: int | None = None,
    **options: Unpack[SubscribeOptions],
) -> Subscription[CommunityEvents]:
    """Yield the lifecycle events that trackers publish, each snapshot once.

    Args:
        community: only events of the community with this stable id.
        event: only events of this kind, or of these kinds.
        least_bits: only events of at least this strength (`CommunityEvent.bits`); those without a
            strength are left out.
        confirmed: only events that have lasted for so many windows, and these windows later: a
            snapshot is yielded when so many later ones are there (`tracking.confirmation`). Not
            with a group: a restarted member would miss the events that waited.

    The other keyword arguments are those of `subscribe`.

    With a filter, `events` holds only matching events, and snapshots without any are left out.
    `nodes` and `communities` are always complete.

    Example:
        ```python
        from stream_icd import subscribe_events

        for snapshot in subscribe_events("as733", event={"merged", "split"}):
            for event in snapshot.events:
                print(snapshot.window.end, event.kind, event.community, event.parents)
        ```
    """
    return following_events(iter, graph, community, event, least_bits, confirmed, options)


def following_events(
    around: Callable[[Iterator[CommunityEvents]], Iterator[CommunityEvents]],
    graph: str | None,
    community: int | None,
    event: str | Collection[str] | None,
    least_bits: float | None,
    confirmed: int | None,
    options: SubscribeOptions,
) -> Subscription[CommunityEvents]:
    """Return `subscribe_events` with windows that `around` has converted before they are filtered.

    Confirmed ones are `FollowedEvents` already.
    """
    kinds = _kinds(event)
    numbers: tuple[tuple[str, Any, Any, str], ...] = (
        ("community", community, Integral, "a whole number"),
        ("confirmed", confirmed, Integral, "a whole number"),
        ("least_bits", least_bits, Real, "a number"),
    )
    for name, number, kind, expected in numbers:
        if number is not None and (not isinstance(number, kind) or math.isnan(number)):
            raise BadSettings(f"{name}={number!r}: it must be {expected}")
    if confirmed is not None and not 1 <= confirmed <= _MOST_CONFIRMED:
        raise BadSettings(f"confirmed={confirmed}: it must be from 1 to {_MOST_CONFIRMED}")
    if confirmed is not None and options.get("group") is not None:
        raise BadSettings(
            "confirmed events wait for later windows, and a restarted member of a group would miss "
            "them: leave out the group, or confirmed"
        )

    def chosen(events: Iterator[CommunityEvents]) -> Iterator[CommunityEvents]:
        # Before the filter: how long an event lasts shows in windows without such events.
        lasting = around(events) if confirmed is None else only_confirmed(events, int(confirmed))
        return _filtered(lasting, community, kinds, least_bits)

    return following(
        graph,
        EVENTS,
        options,
        decode_events,
        chosen,
        community=community,
        event=None if kinds is None else "+".join(sorted(kinds)),
        bits=least_bits,
    )


@dataclass(frozen=True, slots=True, eq=False)
class NodeChange:
    """A change of one node's community; communities are named by stable ids.

    Attributes:
        graph, snapshot_id, window, model, revision: the result that shows the change.
        node: the source's own id, as the caller gave it.
        before: its community in the window before; None if it was absent, or is seen for the
            first time: by a member of a group, after each start and after partitions of the topic
            came to it from another member.
        after: its community now; None if it is absent.
        events: the events of these two communities.
        window_events: all events of the window.
    """

    graph: str
    snapshot_id: str
    window: Window
    model: str
    node: int | str
    before: int | None
    after: int | None
    events: tuple[CommunityEvent, ...]
    revision: str
    window_events: CommunityEvents

    def members_of(self, community: int | None) -> pa.Array:
        """The nodes of a community of the window, ascending; empty if it is absent."""
        return self.window_events.members_of(community)


def subscribe_node(
    node: int | str, graph: str | None = None, **options: Unpack[SubscribeOptions]
) -> Subscription[NodeChange]:
    """Yield the first community of a node, then each change: to another community, or to none.

    Communities are compared by their stable ids, so another label alone is not a change.

    Args:
        node: the source's own id of the node, such as 701; integers may be given as text.

    The keyword arguments are those of `subscribe`.

    Raises:
        BadSettings: the node is neither an integer nor a text, or as `subscribe`.

    Example:
        ```python
        from stream_icd import subscribe_node

        for change in subscribe_node(701, "as733"):
            print(f"AS {change.node} left community {change.before} for {change.after}")
        ```
    """
    if not isinstance(node, Integral | str):
        raise BadSettings(f"node={node!r}: it must be the id of a node, an integer or a text")
    return following(
        graph,
        EVENTS,
        options,
        decode_events,
        lambda events: _node_changes(events, node),
        node=node,
    )


def _kinds(event: str | Collection[str] | None) -> frozenset[str] | None:
    if event is None:
        return None
    kinds = [event] if isinstance(event, str) or not isinstance(event, Collection) else event
    if unknown := [kind for kind in kinds if kind not in EVENT_KINDS]:
        raise BadSettings(f"unknown event {unknown[0]!r}: choose from {', '.join(EVENT_KINDS)}")
    if not kinds:
        raise BadSettings(f"event={event!r} names no kind: choose from {', '.join(EVENT_KINDS)}")
    return frozenset(kinds)


def _filtered(
    windows: Iterator[CommunityEvents],
    community: int | None,
    kinds: frozenset[str] | None,
    least_bits: float | None,
) -> Iterator[CommunityEvents]:
    for window in windows:
        events = tuple(
            event
            for event in window.events
            if (kinds is None or event.kind in kinds)
            and (community is None or event.concerns(community))
            and (least_bits is None or (event.bits is not None and event.bits >= least_bits))
        )
        if events or (community is None and kinds is None and least_bits is None):
            yield replace(window, events=events)


def _node_changes(tracked: Iterator[CommunityEvents], node: int | str) -> Iterator[NodeChange]:
    """Yield the node's first community, then each change, in each graph; ignore late windows."""
    communities: dict[str, int | None] = {}
    for window in tracked:
        if window.late:
            continue
        before, after = communities.get(window.graph), window.community_of(node)
        if before == after:
            continue
        communities[window.graph] = after
        concerned = [community for community in (before, after) if community is not None]
        yield NodeChange(
            graph=window.graph,
            snapshot_id=window.snapshot_id,
            window=window.window,
            model=window.model,
            node=node,
            before=before,
            after=after,
            events=tuple(event for event in window.events if any(map(event.concerns, concerned))),
            revision=window.revision,
            window_events=window,
        )
