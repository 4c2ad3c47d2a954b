"""The topics of a stream, and groups' positions in them: create, list, look up, skip."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from stream_icd.core.errors import BadSettings, BrokerError, TopicMissing
from stream_icd.core.printable import listed
from stream_icd.kafka.connect import connect
from stream_icd.kafka.port import DAY_MS, Capabilities, ExistingTopic, TopicPartition, TopicSpec
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
    wanted = list(specs)
    if not wanted:
        return []
    with connect(settings).admin() as admin:
        created = admin.create_topics(wanted)
    return [spec.name for spec in wanted if spec.name in created]


def describe_topic(settings: KafkaSettings, topic: str) -> ExistingTopic:
    """Look `topic` up; raise TopicMissing, which says how to create it, if it does not exist."""
    return look_up(settings, topic)[0]


def look_up(settings: KafkaSettings, topic: str) -> tuple[ExistingTopic, Capabilities]:
    """Look a topic up as `describe_topic`, and with the same connection what its broker can do."""
    with connect(settings).admin() as admin:
        existing, known = admin.describe_topic(topic), admin.known_capabilities()
    if existing is None:
        is_ours = topic in {spec.name for spec in DEFAULT_TOPICS}
        advice = " (stream-icd topics create)" if is_ours else ", or name another one"
        raise TopicMissing(
            f"there is no topic {settings.topic_prefix}{topic} at {settings.bootstrap_servers}: "
            f"create it{advice}"
        )
    return existing, known


def topic_names(settings: KafkaSettings) -> list[str]:
    """All topics that we may see, sorted by name."""
    with connect(settings).admin() as admin:
        return admin.topic_names()


class _Skipped(NamedTuple):
    """Records that a group will never read: from `start` up to, not including, `end`.

    If `end` is smaller, it reads those between them again.
    """

    partition: int
    start: int
    end: int


def skip_what_is_gone(settings: KafkaSettings, topic: str, group: str) -> tuple[_Skipped, ...]:
    """Move `group` to the first remaining record in partitions that do not hold its offset.

    Retention removed it, or the broker lost the end of the partition. Others do not change. No
    member may be running.

    Raises:
        BadSettings: the group has no position in the topic.
        BrokerError: the group has running members.
    """
    describe_topic(settings, topic)
    with connect(settings).admin() as admin:
        offsets = admin.group_offsets(group)
        committed = {place: at for place, at in offsets.items() if place.topic == topic}
        if not committed:
            topics = sorted({place.topic for place in offsets})
            raise BadSettings(
                f"group {group} has no committed position in {topic}; it has one in "
                f"{listed(topics) or 'no topic'}: name another --group or --topic"
            )
        begins = admin.begins(committed)
        exact = admin.known_capabilities().exact_end_offsets
        ends = admin.ends(committed) if exact else committed
        gone = {p: begins[p] for p, at in committed.items() if not begins[p] <= at <= ends[p]}
        admin.move_group(group, gone)
    return tuple(_Skipped(p.partition, committed[p], gone[p]) for p in sorted(gone))


def positions(settings: KafkaSettings, topic: str, group: str) -> dict[int, int]:
    """Return the next offset of a group in each partition of a topic that it has committed."""
    with connect(settings).admin() as admin:
        committed = admin.group_offsets(group)
    return {place.partition: at for place, at in committed.items() if place.topic == topic}


def members_of(settings: KafkaSettings, group: str) -> dict[str, str]:
    """The name of each member of a group, by its id; none if the broker does not say it.

    We may not ask, or the client (3.0.12) cannot read the answer, as that of the embedded broker.
    """
    with suppress(BrokerError, ValueError), connect(settings).admin() as admin:
        return admin.members(group)
    return {}


def check_stopped(settings: KafkaSettings, *groups: str) -> None:
    """Raise BrokerError if one of the groups has running members, as far as the broker tells."""
    for group in groups:
        if members_of(settings, group):
            raise BrokerError(
                f"group {group} still has running members: stop them first. One that was killed "
                "is counted until its session ends (STREAM_ICD_SESSION_TIMEOUT_S)"
            )


def skip_to(
    settings: KafkaSettings, topic: str, group: str, partition: int, offset: int
) -> _Skipped:
    """Make `group` continue at `offset` in one partition, and skip everything before it.

    Raises:
        BadSettings: no such partition, or the offset is behind the group's or beyond the end.
        BrokerError: the group has running members.
    """
    if partition >= (count := describe_topic(settings, topic).partitions):
        raise BadSettings(f"no partition {partition} in {topic}: there are {count}, from 0")
    at = TopicPartition(topic, partition)
    with connect(settings).admin() as admin:
        start = admin.group_offsets(group).get(at, admin.begins([at])[at])
        end = admin.ends([at])[at]
        is_end_exact = admin.known_capabilities().exact_end_offsets
        if offset <= start or (is_end_exact and offset > end):
            raise BadSettings(
                f"group {group} would read {at} from offset {start}, and the topic ends at {end}: "
                f"{offset} skips nothing, or is after the end"
            )
        admin.move_group(group, {at: offset})
    return _Skipped(partition, start, offset)
