"""A group from outside: its members, and moving it on where it cannot read what comes next."""

from __future__ import annotations

from dataclasses import dataclass

from stream_icd.errors import BadSettings
from stream_icd.kafka.capabilities import recognise
from stream_icd.kafka.connect import connect
from stream_icd.kafka.port.admin import Admin
from stream_icd.kafka.port.partition import TopicPartition
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import describe_topic


@dataclass(frozen=True, slots=True)
class Skipped:
    """Records that a group will never read: from `start` up to, not including, `end`."""

    partition: int
    start: int
    end: int


def skip_what_is_gone(settings: KafkaSettings, topic: str, group: str) -> tuple[Skipped, ...]:
    """Let `group` go on with what retention has left in the partitions where its offset is gone.

    Where its offset is still there, nothing changes. None of the group's members may be running.

    Raises:
        BrokerUnavailable: nobody answers.
        BrokerError: the group is still at work, or does not exist.
    """
    with connect(settings).admin() as admin:
        offsets = admin.group_offsets(group)
        committed = {place: at for place, at in offsets.items() if place.topic == topic}
        begins = admin.begins(committed)
        gone = {place: begins[place] for place, at in committed.items() if at < begins[place]}
        admin.move_group(group, gone)
    return tuple(Skipped(p.partition, committed[p], gone[p]) for p in sorted(gone))


def members_of(settings: KafkaSettings, group: str) -> dict[str, str]:
    """What each member of a group is called (`client_name`), by the id that the broker gave it.

    Raises:
        BrokerUnavailable: nobody answers.
    """
    with connect(settings).admin() as admin:
        return admin.members(group)


def skip_to(
    settings: KafkaSettings, topic: str, group: str, partition: int, offset: int
) -> Skipped:
    """Let `group` read that offset next in one partition, whatever lies before it.

    None of the group's members may be running.

    Raises:
        BadSettings: there is no such partition; the offset is behind the group's, or beyond the
            end.
        TopicMissing, BrokerUnavailable: as their texts say.
        BrokerError: the group is still at work.
    """
    if partition >= (count := describe_topic(settings, topic).partitions):
        raise BadSettings(f"no partition {partition} in {topic}: there are {count}, from 0")
    exact_ends = recognise(settings).exact_end_offsets
    at = TopicPartition(topic, partition)
    with connect(settings).admin() as admin:
        start = _position(admin, group, at)
        end = admin.ends([at])[at]
        if offset <= start or (exact_ends and offset > end):
            raise BadSettings(
                f"group {group} would read {topic}[{partition}] from offset {start}, and the "
                f"topic ends at {end}: {offset} skips nothing, or is after the end"
            )
        admin.move_group(group, {at: offset})
    return Skipped(partition, start, offset)


def _position(admin: Admin, group: str, partition: TopicPartition) -> int:
    """What the group reads next: from the beginning, where it never committed."""
    committed = admin.group_offsets(group).get(partition)
    return admin.begins([partition])[partition] if committed is None else committed
