"""A group from outside: its members, and moving it on where it cannot read what comes next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafka import OffsetAndMetadata, TopicPartition
from kafka import errors as client
from kafka.admin import OffsetSpec

from stream_icd.errors import BadSettings, BrokerError
from stream_icd.kafka.capabilities import recognise
from stream_icd.kafka.clients import open_admin
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import describe_topic
from stream_icd.kafka.translate import translate, translated


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
    with open_admin(settings) as admin, translated(f"move group {group} on"):
        committed = {
            partition: at.offset
            for partition, at in admin.list_group_offsets(group)[group].items()
            if partition.topic == topic
        }
        begins = admin.list_partition_offsets(dict.fromkeys(committed, OffsetSpec.EARLIEST))
        gone = {p: begins[p].offset for p, at in committed.items() if at < begins[p].offset}
        moved = {p: OffsetAndMetadata(offset, "", -1) for p, offset in gone.items()}
        refusals = admin.alter_group_offsets(group, moved)
    _raise_refusal(group, refusals)
    return tuple(Skipped(p.partition, committed[p], gone[p]) for p in sorted(gone))


def members_of(settings: KafkaSettings, group: str) -> dict[str, str]:
    """What each member of a group is called (`client_name`), by the id that the broker gave it.

    Raises:
        BrokerUnavailable: nobody answers.
    """
    with open_admin(settings) as admin, translated(f"look up group {group}"):
        members = admin.describe_groups([group])[group]["members"]
    return {one["member_id"]: one["client_id"] for one in members}


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
    with open_admin(settings) as admin, translated(f"move group {group} on"):
        start = _position(admin, group, at)
        end = admin.list_partition_offsets({at: OffsetSpec.LATEST})[at].offset
        if offset <= start or (exact_ends and offset > end):
            raise BadSettings(
                f"group {group} is to read {topic}[{partition}] from offset {start}, and the topic "
                f"ends at {end}: {offset} skips nothing, or what is not there yet"
            )
        refusals = admin.alter_group_offsets(group, {at: OffsetAndMetadata(offset, "", -1)})
    _raise_refusal(group, refusals)
    return Skipped(partition, start, offset)


def _position(admin: Any, group: str, partition: TopicPartition) -> int:
    """What the group reads next: from the beginning, where it never committed."""
    committed = admin.list_group_offsets(group)[group].get(partition)
    if committed is not None and committed.offset >= 0:
        return int(committed.offset)
    return int(admin.list_partition_offsets({partition: OffsetSpec.EARLIEST})[partition].offset)


def _raise_refusal(group: str, answers: dict[TopicPartition, type[Exception]]) -> None:
    for partition, answer in sorted(answers.items()):
        if answer in (client.UnknownMemberIdError, client.RebalanceInProgressError):
            raise BrokerError(f"group {group} is still at work: stop its members first")
        if answer is not client.NoError:
            raise translate(answer(), f"move group {group} on in partition {partition.partition}")
