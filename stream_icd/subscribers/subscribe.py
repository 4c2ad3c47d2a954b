"""Following what is published: communities, their events, and one node's way through them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from stream_icd.communities import Communities
from stream_icd.errors import BadSettings
from stream_icd.events import KINDS, CommunityEvents
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import COMMUNITIES, EVENTS
from stream_icd.messages.claim_settings import ClaimSettings
from stream_icd.messages.reader import reader_of
from stream_icd.subscribers.following import following
from stream_icd.subscribers.read_options import (
    OnBad,
    OnGap,
    ReadOptions,
    Revisions,
    Start,
    Until,
    log_bad,
    log_gap,
)
from stream_icd.subscribers.subscription import Subscription
from stream_icd.tracking.node_changes import NodeChange, node_changes
from stream_icd.wire.communities import decode_communities
from stream_icd.wire.events import decode_events
from stream_icd.wire.limits import Limits


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
    options = ReadOptions(
        topic,
        graph,
        model,
        start,
        until,
        limit,
        group,
        revisions,
        settings or KafkaSettings(),
        reader_of(claims, limits),
        on_bad or log_bad,
        on_gap or log_gap,
    )
    return following(options, decode_communities, iter)


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
    options = ReadOptions(
        topic,
        graph,
        model,
        start,
        until,
        limit,
        group,
        revisions,
        settings or KafkaSettings(),
        reader_of(claims, limits),
        on_bad or log_bad,
        on_gap or log_gap,
    )
    return following(
        options,
        decode_events,
        lambda found: _filtered(found, community, kinds),
        community=community,
        event=_named(kinds),
    )


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
    options = ReadOptions(
        topic,
        graph,
        model,
        start,
        until,
        limit,
        group,
        revisions,
        settings or KafkaSettings(),
        reader_of(claims, limits),
        on_bad or log_bad,
        on_gap or log_gap,
    )
    return following(options, decode_events, lambda found: node_changes(found, node), node=node)


def _kinds(event: str | Collection[str] | None) -> frozenset[str] | None:
    if event is None:
        return None
    kinds = frozenset([event] if isinstance(event, str) else event)
    if unknown := kinds - set(KINDS):
        raise BadSettings(f"unknown event {min(unknown)!r}: choose from {', '.join(KINDS)}")
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
