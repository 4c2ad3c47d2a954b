"""All members of a group must read the same graph: what one member skips, no other reads."""

from __future__ import annotations

from stream_icd.errors import BadSettings
from stream_icd.kafka.group.worker_notes import read_notes, write_notes
from stream_icd.kafka.settings import KafkaSettings


def keep_to_filter(settings: KafkaSettings, topic: str, group: str, graph: str | None) -> None:
    """Note which graph a group reads from a topic, unless a note exists; None means all graphs.

    If two workers start at the same time, the one that wrote the last note continues.

    Raises:
        BadSettings: the group reads another graph; records that it skipped are lost for this one.
        TopicMissing, BrokerUnavailable: the note cannot be read.
    """
    key = (group, topic, "graph")
    noted = read_notes(settings).get(key)
    if noted is None:
        write_notes(settings, {key: {"graph": graph}})
        noted = read_notes(settings).get(key)
    if noted != {"graph": graph}:
        theirs = None if noted is None else noted["graph"]
        raise BadSettings(
            f"group {group} reads {_named(theirs)} of {topic}, but this worker wants "
            f"{_named(graph)}: they would lose each other's records. Give this worker another "
            "--group, or none (the default group is named after --graph)"
        )


def _named(graph: object) -> str:
    return "all graphs" if graph is None else f"graph {graph} only"
