"""The topics of a stream: create, describe and list them."""

from __future__ import annotations

from collections.abc import Iterable

from stream_icd.errors import TopicMissing
from stream_icd.kafka.connect import connect
from stream_icd.kafka.port import DAY_MS, MINUTE_MS, ExistingTopic, TopicSpec
from stream_icd.kafka.settings import MEBIBYTE, KafkaSettings

SNAPSHOTS = "icd.snapshots.v1"
COMMUNITIES = "icd.communities.v1"
LABELS = "icd.labels.v1"
EVENTS = "icd.events.v1"
MODELS = "icd.models.v1"
ATTRIBUTES = "icd.attributes.v1"
WORKERS = "icd.workers.v1"
MEMORY = "icd.memory.v1"

DEFAULT_TOPICS: tuple[TopicSpec, ...] = (
    *TopicSpec(SNAPSHOTS, partitions=6, retention_ms=7 * DAY_MS).with_dead_letters(),
    *TopicSpec(COMMUNITIES, partitions=6, retention_ms=7 * DAY_MS).with_dead_letters(),
    *TopicSpec(LABELS, partitions=6, retention_ms=30 * DAY_MS).with_dead_letters(),
    *TopicSpec(EVENTS, partitions=6, retention_ms=30 * DAY_MS).with_dead_letters(),
    TopicSpec(MODELS, retention_ms=365 * DAY_MS),
    TopicSpec(ATTRIBUTES, cleanup_policy="compact"),
    TopicSpec(WORKERS, cleanup_policy="compact"),
    *TopicSpec(
        MEMORY,
        partitions=6,
        cleanup_policy="compact",
        segment_bytes=64 * MEBIBYTE,
        min_compaction_lag_ms=15 * MINUTE_MS,
    ).with_dead_letters(),
)


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
    with connect(settings).admin() as admin:
        found = admin.describe_topic(topic)
    if found is None:
        raise TopicMissing(
            f"there is no topic {topic} at {settings.bootstrap_servers}: "
            "create it (stream-icd topics create)"
        )
    return found


def topic_names(settings: KafkaSettings) -> list[str]:
    """All topics that we may see, sorted by name."""
    with connect(settings).admin() as admin:
        return admin.topic_names()
