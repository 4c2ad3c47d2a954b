"""Announce what happened in a model registry in the topic `icd.models.v1`, and read it."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from stream_icd.core.errors import BadInput
from stream_icd.core.lineage import Gate, Lineage
from stream_icd.core.printable import printable
from stream_icd.core.store.store import Store
from stream_icd.kafka.messages.records import outgoing
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import MODELS
from stream_icd.kafka.tracing import Tracing
from stream_icd.registry.aliases import Aliases
from stream_icd.wire.announcements import Announcement, decode_announcement, encode_announcement


def publication(registry: Store, version: str, lineage: Lineage) -> Announcement:
    """Announce that a version was added."""
    source = f" from {lineage.source}" if lineage.source else ""
    return Announcement(
        "published",
        registry.place,
        f"added by {lineage.made_by}{source}",
        lineage.made_by,
        lineage.made_at,
        version=version,
        gate=lineage.gate,
    )


def change(registry: Store, aliases: Aliases, gate: Gate | None = None) -> Announcement:
    """Announce a promotion or a rollback."""
    return Announcement(
        aliases.change,
        registry.place,
        aliases.reason,
        aliases.by,
        aliases.at,
        version=aliases.champion,
        champion=aliases.champion,
        generation=aliases.generation,
        gate=gate,
    )


# The standard library's: without a configuration it writes warnings to standard error, where they
# do not mix with results.
_LOG = logging.getLogger(__name__)


def announce(settings: KafkaSettings, announcement: Announcement, topic: str = MODELS) -> None:
    """Publish an announcement, and wait until the broker has it; raises as `Publisher`."""
    record, tracing = outgoing(topic, encode_announcement(announcement)), Tracing.if_on()
    with Publisher(settings) as publisher:
        publisher.send(record if tracing is None else tracing.sent_now(record))


def announcements(settings: KafkaSettings, topic: str = MODELS) -> Iterator[Announcement]:
    """Yield the announcements that the topic holds, each event once, and log what cannot be read;
    raises as `open_reader`."""
    # A program that died after it announced a change, and before it noted that, announces it again.
    yielded: set[tuple[str, str]] = set()
    with open_reader(settings, topic, until="end") as records:
        for record in records:
            try:
                announcement = decode_announcement(record.key, record.value, record.headers)
            except BadInput as error:
                _LOG.warning("skipped %s: %s", record.place, printable(str(error)))
                continue
            if (announcement.registry, announcement.id) not in yielded:
                yielded.add((announcement.registry, announcement.id))
                yield announcement
