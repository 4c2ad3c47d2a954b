"""A topic: its desired settings, its description by the broker, its partitions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from stream_icd.errors import BadSettings
from stream_icd.kafka.settings import MEBIBYTE

DAY_MS = 24 * 3600 * 1000
MINUTE_MS = 60 * 1000
# A record's frame also holds batch and partition headers.
FRAME_ROOM = MEBIBYTE
# A dead letter is a record, perhaps framed by another program, together with the reason.
DEAD_LETTER_ROOM = 2 * FRAME_ROOM
_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")


def dead_letter_topic(topic: str) -> str:
    """The name of the dead-letter topic of `topic`, for records that can never succeed."""
    return f"{topic}.dlq"


def is_dead_letter_topic(topic: str) -> bool:
    return topic.endswith(".dlq")


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic's name and settings; the broker chooses values that are None or -1.

    `max_message_bytes` is the broker's limit for one batch: the limit for a record
    (`KafkaSettings.max_message_bytes`) plus 1 MiB for its framing.
    """

    name: str
    partitions: int = 1
    replication: int = -1
    retention_ms: int | None = None
    max_message_bytes: int = 16 * MEBIBYTE + FRAME_ROOM
    cleanup_policy: str = "delete"
    segment_bytes: int | None = None
    min_compaction_lag_ms: int | None = None

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
        """These settings under the broker's names."""
        configs = {
            "cleanup.policy": self.cleanup_policy,
            "max.message.bytes": str(self.max_message_bytes),
        }
        chosen = {
            "retention.ms": self.retention_ms,
            "segment.bytes": self.segment_bytes,
            "min.compaction.lag.ms": self.min_compaction_lag_ms,
        }
        configs |= {name: str(value) for name, value in chosen.items() if value is not None}
        return configs

    def with_dead_letters(self) -> tuple[TopicSpec, TopicSpec]:
        """This topic and its dead-letter topic, which keeps records for 30 days.

        The dead-letter topic has room for this topic's largest record and the reason.
        """
        largest = self.max_message_bytes + DEAD_LETTER_ROOM
        dead_letters = dead_letter_topic(self.name)
        return self, TopicSpec(dead_letters, retention_ms=30 * DAY_MS, max_message_bytes=largest)


@dataclass(frozen=True, slots=True)
class ExistingTopic:
    """The broker's description of a topic; `max_message_bytes` is None if not reported."""

    name: str
    partitions: int
    max_message_bytes: int | None


class TopicPartition(NamedTuple):
    """A partition, numbered from 0 in its topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]"


Offsets = dict[TopicPartition, int]
"""One offset for each partition; a position is the offset of the *next* record."""
