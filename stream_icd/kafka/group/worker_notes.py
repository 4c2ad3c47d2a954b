"""Notes from workers to later workers: the latest value of each key.

The notes are records of the topic `icd.workers.v1`. Keys and values are JSON.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping

from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import WORKERS

Key = tuple[str | int, ...]
Value = Mapping[str, object]


def write_notes(settings: KafkaSettings, notes: Mapping[Key, Value]) -> None:
    """Write these notes; they are safe at the broker when this returns.

    Raises:
        TopicMissing, BrokerUnavailable, DeliveryFailed: not all notes could be written.
    """
    with Publisher(settings) as publisher:
        for key, value in notes.items():
            text = json.dumps(value).encode()
            publisher.send(OutgoingRecord(WORKERS, text, json.dumps(key).encode()))


def read_notes(settings: KafkaSettings) -> dict[Key, Value]:
    """The latest value of each key; records that are not notes are ignored.

    Raises:
        TopicMissing, BrokerUnavailable: the notes cannot be read.
    """
    found: dict[Key, Value] = {}
    with open_reader(settings, WORKERS, until="end") as records:
        for record in records:
            with contextlib.suppress(ValueError, TypeError):
                key, value = json.loads(record.key or b""), json.loads(record.value or b"")
                if isinstance(key, list) and isinstance(value, dict):
                    found[tuple(key)] = value
    return found
