"""Notes from workers to later workers of their group: the latest value of each name.

The notes are records of the topic `icd.workers.v1`. Keys (group, topic, name) and values are JSON.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import Any

from stream_icd.errors import BadSettings
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import WORKERS

Name = str | int
Note = dict[str, Any]


def write_notes(
    settings: KafkaSettings, topic: str, group: str, notes: Mapping[str, Note] | Mapping[int, Note]
) -> None:
    """Write these notes; they are safe at the broker when this returns."""
    with Publisher(settings) as publisher:
        for name, value in notes.items():
            key = json.dumps((group, topic, name)).encode()
            publisher.send(OutgoingRecord(WORKERS, json.dumps(value).encode(), key))


def read_notes(settings: KafkaSettings, topic: str, group: str) -> dict[Name, Note]:
    """The latest value of each name; records that are not notes are ignored."""
    found: dict[Name, Note] = {}
    with open_reader(settings, WORKERS, until="end") as records:
        for record in records:
            with contextlib.suppress(ValueError):
                match json.loads(record.key or b""), json.loads(record.value or b""):
                    case [of_group, of_topic, str() | int() as name], dict() as value:
                        if (of_group, of_topic) == (group, topic):
                            found[name] = value
    return found


def keep_to_filter(settings: KafkaSettings, topic: str, group: str, graph: str | None) -> None:
    """Note which graph a group reads from a topic, unless a note exists; None means all graphs.

    If two workers start at the same time, the one that wrote the last note continues.

    Raises:
        BadSettings: the group reads another graph; records that it skipped are lost for this one.
    """
    noted = read_notes(settings, topic, group).get("graph")
    if noted is None:
        write_notes(settings, topic, group, {"graph": {"graph": graph}})
        noted = read_notes(settings, topic, group).get("graph")
    if noted != {"graph": graph}:
        theirs = None if noted is None else noted["graph"]
        raise BadSettings(
            f"group {group} reads {_named(theirs)} of {topic}, but this worker wants "
            f"{_named(graph)}: they would lose each other's records. Give this worker another "
            "--group, or none (the default group is named after --graph)"
        )


def _named(graph: object) -> str:
    return "all graphs" if graph is None else f"graph {graph} only"
