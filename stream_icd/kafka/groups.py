"""Moving a group on where what it would have read next is gone."""

from __future__ import annotations

from dataclasses import dataclass

from kafka import OffsetAndMetadata, TopicPartition
from kafka import errors as client
from kafka.admin import OffsetSpec

from stream_icd.errors import BrokerError
from stream_icd.kafka.clients import open_admin
from stream_icd.kafka.settings import KafkaSettings
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


def _raise_refusal(group: str, answers: dict[TopicPartition, type[Exception]]) -> None:
    for partition, answer in sorted(answers.items()):
        if answer in (client.UnknownMemberIdError, client.RebalanceInProgressError):
            raise BrokerError(f"group {group} is still at work: stop its members first")
        if answer is not client.NoError:
            raise translate(answer(), f"move group {group} on in partition {partition.partition}")
