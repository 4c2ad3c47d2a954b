"""Members of a group must want the same records: what one skips, no other member will read."""

from __future__ import annotations

import contextlib
import json

from stream_icd.errors import BadSettings
from stream_icd.kafka.producer import Publisher
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import WORKERS


def keep_to_filter(settings: KafkaSettings, topic: str, group: str, graph: str | None) -> None:
    """Note which graph a group reads of a topic, unless it is noted; None is all graphs.

    If two workers start at the same time, the one whose note is the last one goes on.

    Raises:
        BadSettings: the group reads another graph; what it skipped is gone for this one.
        TopicMissing, BrokerUnavailable: the note cannot be read.
    """
    key = json.dumps([group, topic, "graph"]).encode()
    noted = _noted(settings, key)
    if noted is None:
        with Publisher(settings) as publisher:
            publisher.send(OutgoingRecord(WORKERS, json.dumps({"graph": graph}).encode(), key))
        noted = _noted(settings, key)
    if noted != {"graph": graph}:
        theirs = None if noted is None else noted["graph"]
        raise BadSettings(
            f"group {group} reads {_named(theirs)} of {topic}, and this worker wants "
            f"{_named(graph)}: they would lose each other's records. Give this worker another "
            "--group, or none: its default group is named after --graph"
        )


def _noted(settings: KafkaSettings, key: bytes) -> dict[str, str | None] | None:
    found: dict[str, str | None] | None = None
    with open_reader(settings, WORKERS, until="end") as records:
        for record in records:
            if record.key == key:
                with contextlib.suppress(ValueError):  # it is no note
                    found = json.loads(record.value or b"")
    return found


def _named(graph: str | None) -> str:
    return "all graphs" if graph is None else f"graph {graph} only"
