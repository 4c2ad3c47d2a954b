"""Inspect a group from outside, and skip records that it cannot read."""

from __future__ import annotations

from dataclasses import dataclass

from stream_icd.errors import BadSettings
from stream_icd.kafka.connect import connect
from stream_icd.kafka.port import TopicPartition
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import describe_topic


@dataclass(frozen=True, slots=True)
class Skipped:
    """Records that a group will never read: from `start` up to, not including, `end`."""

    partition: int
    start: int
    end: int


def skip_what_is_gone(settings: KafkaSettings, topic: str, group: str) -> tuple[Skipped, ...]:
    """Move `group` to the first remaining record in partitions where retention removed its offset.

    Partitions that still hold the group's offset do not change. No member may be running.
    """
    with connect(settings).admin() as admin:
        offsets = admin.group_offsets(group)
        committed = {place: at for place, at in offsets.items() if place.topic == topic}
        begins = admin.begins(committed)
        gone = {place: begins[place] for place, at in committed.items() if at < begins[place]}
        admin.move_group(group, gone)
    return tuple(Skipped(p.partition, committed[p], gone[p]) for p in sorted(gone))


def positions(settings: KafkaSettings, topic: str, group: str) -> dict[int, int]:
    """Return the next offset of a group in each partition of a topic that it has committed."""
    with connect(settings).admin() as admin:
        found = admin.group_offsets(group)
    return {place.partition: at for place, at in found.items() if place.topic == topic}


def members_of(settings: KafkaSettings, group: str) -> dict[str, str]:
    """The name of each member of a group, by the member id from the broker."""
    with connect(settings).admin() as admin:
        return admin.members(group)


def skip_to(
    settings: KafkaSettings, topic: str, group: str, partition: int, offset: int
) -> Skipped:
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
    return Skipped(partition, start, offset)
