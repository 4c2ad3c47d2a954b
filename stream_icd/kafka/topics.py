"""The topics of a stream, and groups' positions in them: create, look up, skip."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from stream_icd.core.errors import BadSettings, BrokerError, TopicMissing
from stream_icd.core.printable import listed
from stream_icd.kafka.connect import connect
from stream_icd.kafka.port import (
    DAY_MS,
    Admin,
    Capabilities,
    ExistingTopic,
    TopicPartition,
    TopicSpec,
)
from stream_icd.kafka.settings import MEBIBYTE, KafkaSettings

SNAPSHOTS = "icd.snapshots.v1"
COMMUNITIES = "icd.communities.v1"
LABELS = "icd.labels.v1"
EVENTS = "icd.events.v1"
ALERTS = "icd.alerts.v1"
MODELS = "icd.models.v1"
KNOWN = "icd.known.v1"
WORKERS = "icd.workers.v1"
MEMORY = "icd.memory.v1"
MEMBERS = "icd.members.v1"


def messages_topic(name: str, partitions: int = 1, days: int | None = None) -> TopicSpec:
    """Return a topic whose messages replace each other: the one that the broker got last counts."""
    retention_ms = None if days is None else days * DAY_MS
    return TopicSpec(name, partitions, retention_ms=retention_ms, broker_clock=True)


DEFAULT_TOPICS: tuple[TopicSpec, ...] = (
    *messages_topic(SNAPSHOTS, 6, days=7).with_dead_letters(),
    *messages_topic(COMMUNITIES, 6, days=7).with_dead_letters(),
    *messages_topic(LABELS, 6, days=30).with_dead_letters(),
    *messages_topic(EVENTS, 6, days=30).with_dead_letters(),
    *messages_topic(ALERTS, days=30).with_dead_letters(),
    TopicSpec(MODELS, retention_ms=365 * DAY_MS),
    TopicSpec(MEMBERS, partitions=6, cleanup_policy="compact"),
    TopicSpec(KNOWN, cleanup_policy="compact"),
    TopicSpec(WORKERS, cleanup_policy="compact"),
    *TopicSpec(
        MEMORY,
        partitions=6,
        cleanup_policy="compact",
        segment_bytes=64 * MEBIBYTE,
        min_compaction_lag_ms=15 * 60_000,
    ).with_dead_letters(),
)


def check_topic_for(topic: str, own: str) -> None:
    """Raise `BadSettings` if the topic is one of `DEFAULT_TOPICS`, but not `own`, that of the
    messages."""
    if topic != own and topic in {spec.name for spec in DEFAULT_TOPICS}:
        raise BadSettings(f"{topic} holds other messages than {own}: give a topic of another name")


def create_topics(
    settings: KafkaSettings, specs: Iterable[TopicSpec] = DEFAULT_TOPICS
) -> list[str]:
    """Create the topics that do not exist yet, wait until all are usable, and name the new ones.

    If the broker refuses a topic, the BrokerError says which and why.
    """
    specs = list(specs)
    if not specs:
        return []
    with connect(settings).admin() as admin:
        created = admin.create_topics(specs)
    return [spec.name for spec in specs if spec.name in created]


def describe_topic(settings: KafkaSettings, topic: str) -> ExistingTopic:
    """Look `topic` up; raise TopicMissing, which says how to create it, if it does not exist."""
    return look_up(settings, topic)[0]


def look_up(settings: KafkaSettings, topic: str) -> tuple[ExistingTopic, Capabilities]:
    """Look a topic up as `describe_topic`, and with the same connection what its broker can do."""
    with connect(settings).admin() as admin:
        existing, capabilities = admin.describe_topic(topic), admin.known_capabilities()
    if existing is None:
        is_ours = topic in {spec.name for spec in DEFAULT_TOPICS}
        advice = " (stream-icd topics create)" if is_ours else ", or name another one"
        raise TopicMissing(
            f"there is no topic {settings.topic_prefix}{topic} at {settings.bootstrap_servers}: "
            f"create it{advice}"
        )
    return existing, capabilities


class _Skipped(NamedTuple):
    """Records that a group will never read: from `start` up to, not including, `end`.

    If `end` is smaller, it reads those between them again.
    """

    partition: int
    start: int
    end: int


def skip(
    settings: KafkaSettings, topic: str, group: str, to: tuple[int, int] | None = None
) -> list[_Skipped]:
    """Move `group` past records that it cannot read; no member may be running.

    Args:
        to: the partition, and the offset in it to continue at. None: the first remaining record in
            each partition that does not hold the group's offset, since retention removed it, or the
            broker lost the end of the partition. Other partitions do not change.

    Raises:
        BadSettings: no such partition, or the offset is behind the group's or beyond the end.
            Without `to`: the group has no position in the topic.
        BrokerError: the group has running members.
    """
    n_partitions = describe_topic(settings, topic).partitions
    if to is not None and to[0] >= n_partitions:
        raise BadSettings(f"no partition {to[0]} in {topic}: there are {n_partitions}, from 0")
    with connect(settings).admin() as admin:
        if to is None:
            skipped = _what_is_gone(admin, topic, group)
        else:
            skipped = [_up_to(admin, group, TopicPartition(topic, to[0]), to[1])]
        admin.move_group(group, {TopicPartition(topic, gap.partition): gap.end for gap in skipped})
    return skipped


def _what_is_gone(admin: Admin, topic: str, group: str) -> list[_Skipped]:
    offsets = admin.group_offsets(group)
    committed = {place: at for place, at in offsets.items() if place.topic == topic}
    if not committed:
        topics = sorted({place.topic for place in offsets})
        raise BadSettings(
            f"group {group} has no committed position in {topic}; it has one in "
            f"{listed(topics) or 'no topic'}: name another --group or --topic"
        )
    begins = admin.begins(committed)
    # An end that the broker only estimates may be too low: the group's position may be right.
    exact = admin.known_capabilities().exact_end_offsets
    ends = admin.ends(committed) if exact else committed
    return [
        _Skipped(place.partition, at, begins[place])
        for place, at in sorted(committed.items())
        if not begins[place] <= at <= ends[place]
    ]


def _up_to(admin: Admin, group: str, place: TopicPartition, offset: int) -> _Skipped:
    start = admin.group_offsets(group).get(place, admin.begins([place])[place])
    end = admin.ends([place])[place]
    is_end_exact = admin.known_capabilities().exact_end_offsets
    if offset <= start or (is_end_exact and offset > end):
        raise BadSettings(
            f"group {group} would read {place} from offset {start}, and the topic ends at {end}: "
            f"{offset} skips nothing, or is after the end"
        )
    return _Skipped(place.partition, start, offset)


def positions(settings: KafkaSettings, topic: str, group: str) -> dict[int, int]:
    """Return the next offset of a group in each partition of a topic that it has committed."""
    with connect(settings).admin() as admin:
        committed = admin.group_offsets(group)
    return {place.partition: at for place, at in committed.items() if place.topic == topic}


def group_members(settings: KafkaSettings, group: str) -> dict[str, str]:
    """The name of each member of a group, by its id; none if the broker does not say it.

    We may not ask, or the client (3.0.12) cannot read the answer, as that of the embedded broker.
    """
    with suppress(BrokerError, ValueError), connect(settings).admin() as admin:
        return admin.members(group)
    return {}
