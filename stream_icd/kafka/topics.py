"""The topics of a stream: their names, their settings, and how they come to be."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kafka import errors as client
from kafka.admin import ConfigResource, ConfigResourceType

from stream_icd.errors import BadSettings, TopicMissing
from stream_icd.kafka.clients import DEAD_LETTER_ROOM, FRAME_ROOM, open_admin
from stream_icd.kafka.settings import MEBIBYTE, KafkaSettings, milliseconds
from stream_icd.kafka.translate import translate, translated

SNAPSHOTS = "icd.snapshots.v1"
COMMUNITIES = "icd.communities.v1"
LABELS = "icd.labels.v1"
EVENTS = "icd.events.v1"
MODELS = "icd.models.v1"
WORKERS = "icd.workers.v1"

DAY_MS = 24 * 3600 * 1000
_EXISTS = client.TopicAlreadyExistsError.errno
_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")


def dead_letter_topic(topic: str) -> str:
    """Where the records of `topic` go that can never succeed."""
    return f"{topic}.dlq"


def is_dead_letter_topic(topic: str) -> bool:
    """Whether that is what a topic is for."""
    return topic.endswith(".dlq")


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic's name and settings; what is None or -1 is left to the broker.

    `max_message_bytes` bounds what the broker takes as one batch: a record's own limit
    (`KafkaSettings.max_message_bytes`) and 1 MiB for its framing.
    """

    name: str
    partitions: int = 1
    replication: int = -1
    retention_ms: int | None = None
    max_message_bytes: int = 16 * MEBIBYTE + FRAME_ROOM
    cleanup_policy: str = "delete"

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise BadSettings(
                f"{self.name!r} cannot name a topic: use letters, digits, '.', '_', '-'"
            )
        if self.partitions < 1:
            raise BadSettings(
                f"topic {self.name} needs at least one partition, not {self.partitions}"
            )

    def configs(self) -> dict[str, str]:
        """The broker's names for these settings."""
        configs = {
            "cleanup.policy": self.cleanup_policy,
            "max.message.bytes": str(self.max_message_bytes),
        }
        if self.retention_ms is not None:
            configs["retention.ms"] = str(self.retention_ms)
        return configs

    def with_dead_letters(self) -> tuple[TopicSpec, TopicSpec]:
        """This topic and its dead-letter topic, which keeps records for 30 days.

        There is room in it for the largest record of this one, and the reason.
        """
        largest = self.max_message_bytes + DEAD_LETTER_ROOM
        dead_letters = dead_letter_topic(self.name)
        return self, TopicSpec(dead_letters, retention_ms=30 * DAY_MS, max_message_bytes=largest)


DEFAULT_TOPICS: tuple[TopicSpec, ...] = (
    *TopicSpec(SNAPSHOTS, partitions=6, retention_ms=7 * DAY_MS).with_dead_letters(),
    *TopicSpec(COMMUNITIES, partitions=6, retention_ms=7 * DAY_MS).with_dead_letters(),
    *TopicSpec(LABELS, partitions=6, retention_ms=30 * DAY_MS).with_dead_letters(),
    *TopicSpec(EVENTS, partitions=6, retention_ms=30 * DAY_MS).with_dead_letters(),
    TopicSpec(MODELS, cleanup_policy="compact"),
    TopicSpec(WORKERS, cleanup_policy="compact"),
)


@dataclass(frozen=True, slots=True)
class CreatedTopics:
    """Which of the wanted topics were made now, and which were there already (as they were)."""

    created: tuple[str, ...]
    existing: tuple[str, ...]


def create_topics(
    settings: KafkaSettings, specs: Iterable[TopicSpec] = DEFAULT_TOPICS
) -> CreatedTopics:
    """Make the topics that do not exist yet, and wait until they can be used.

    Topics that exist are left as they are, so it may be called any number of times.

    Raises:
        BrokerUnavailable: nobody answers.
        BrokerError: the broker refused a topic; the message says which and why.
    """
    wanted = {spec.name: _request(spec) for spec in specs}
    if not wanted:
        return CreatedTopics((), ())
    with open_admin(settings) as admin, translated("create topics"):
        created = _create(admin, wanted, milliseconds(settings.request_timeout_s))
    existing = tuple(name for name in wanted if name not in created)
    return CreatedTopics(tuple(name for name in wanted if name in created), existing)


def _create(admin: Any, wanted: dict[str, dict[str, Any]], timeout_ms: int) -> set[str]:
    """Create what is not there; who may not create topics is refused only where one is missing."""
    there = {topic["name"] for topic in admin.describe_topics(list(wanted)) if not _failed(topic)}
    missing = {name: request for name, request in wanted.items() if name not in there}
    codes = {}
    if missing:
        answer = admin.create_topics(missing, timeout_ms=timeout_ms, raise_errors=False)
        codes = {topic["name"]: topic for topic in answer["topics"]}
        _refuse(codes)
    admin.wait_for_topics(list(wanted), timeout_ms=timeout_ms)
    return {name for name, answer in codes.items() if answer["error_code"] != _EXISTS}


def _failed(answer: dict[str, Any]) -> bool:
    return bool(answer["error_code"] != 0)


def _request(spec: TopicSpec) -> dict[str, Any]:
    return {
        "num_partitions": spec.partitions,
        "replication_factor": spec.replication,
        "configs": spec.configs(),
    }


def _refuse(answers: dict[str, dict[str, Any]]) -> None:
    for name, answer in answers.items():
        if _failed(answer) and answer["error_code"] != _EXISTS:
            error = client.for_code(answer["error_code"])(answer.get("error_message") or "")
            raise translate(error, f"create topic {name}") from error


@dataclass(frozen=True, slots=True)
class ExistingTopic:
    """What the broker says of a topic; `max_message_bytes` is None where it does not say."""

    name: str
    partitions: int
    max_message_bytes: int | None


def describe_topic(settings: KafkaSettings, topic: str) -> ExistingTopic:
    """Look `topic` up.

    Raises:
        TopicMissing: there is no such topic; the message says how to create it.
        BrokerUnavailable: nobody answers.
    """
    with open_admin(settings) as admin, translated(f"look up topic {topic}"):
        (described,) = admin.describe_topics([topic])
        if described["error_code"] == client.TopicAuthorizationFailedError.errno:
            raise client.TopicAuthorizationFailedError(topic)
        if _failed(described) or not described["partitions"]:
            raise TopicMissing(
                f"there is no topic {topic} at {settings.bootstrap_servers}: "
                "create it (stream-icd topics create)"
            )
        return ExistingTopic(topic, len(described["partitions"]), _message_limit(admin, topic))


def topic_names(settings: KafkaSettings) -> list[str]:
    """All topics that the broker shows us, in order of their names.

    Raises:
        BrokerUnavailable: nobody answers.
    """
    with open_admin(settings) as admin, translated("list the topics"):
        return sorted(admin.list_topics())


def _message_limit(admin: Any, topic: str) -> int | None:
    resource = ConfigResource(ConfigResourceType.TOPIC, topic)
    try:
        answer = admin.describe_configs([resource], config_filter="all")
    except client.KafkaError:  # not every broker tells everyone
        return None
    for resources in answer.values():
        if "max.message.bytes" in resources.get(topic, {}):
            return int(resources[topic]["max.message.bytes"]["value"])
    return None
