"""What a topic is to be, and what a broker says that it is."""

from __future__ import annotations

import re
from dataclasses import dataclass

from stream_icd.errors import BadSettings
from stream_icd.kafka.settings import MEBIBYTE

DAY_MS = 24 * 3600 * 1000
# A record's frame also holds batch and partition headers.
FRAME_ROOM = MEBIBYTE
# A dead letter is a record that another program may have framed, and the reason with it.
DEAD_LETTER_ROOM = 2 * FRAME_ROOM
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


@dataclass(frozen=True, slots=True)
class ExistingTopic:
    """What the broker says of a topic; `max_message_bytes` is None where it does not say."""

    name: str
    partitions: int
    max_message_bytes: int | None
