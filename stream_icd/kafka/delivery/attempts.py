"""Count how many workers in a row a record has ended, also across restarts.

A worker ends by a kill, or by an error of its step. If only a process ends in which it has records
processed (`stream_icd.execution`), that counts the same, and the worker continues.

A killed worker cannot report anything, so each worker writes a note when it takes over a partition
and when it stops. The next worker sees from the note whether the previous one stopped cleanly. If
not, or if a process ended, the records that were possibly in hand are processed one by one, with a
note before each. So only the record that ends workers is blamed, and not its neighbours.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace

from stream_icd.errors import Action, BrokerError, CrashedWorker, StreamIcdError
from stream_icd.kafka.delivery.handler import DIED, GIVEN_UP_AFTER
from stream_icd.kafka.group.groups import members_of
from stream_icd.kafka.group.membership import Assignment
from stream_icd.kafka.group.worker_notes import read_notes, write_notes
from stream_icd.kafka.port import Partitions, TopicPartition
from stream_icd.kafka.settings import KafkaSettings

MOST_TEXT = 1000


@dataclass(frozen=True, slots=True)
class Attempt:
    """A note about one partition.

    Attributes:
        worker: the member of the group that works on the partition; "" if none does.
        offset: the record that is processed alone; -1 for a batch, or none.
        ends: how many workers in a row this record has ended so far.
        how: how it ended the last one; "" if unknown.
        left: how many records, including this one, must be processed alone.
    """

    worker: str = ""
    offset: int = -1
    ends: int = 0
    how: str = ""
    left: int = 0

    def ended(self, how: str, in_hand: int) -> Attempt:
        """The note after what was processed ended one more worker, in the same or another way.

        `in_hand` is how many records of the partition were in hand, if none was alone.
        """
        if self.offset < 0:
            return Attempt(left=in_hand)
        same = not self.how or self.how.partition(":")[0] == how.partition(":")[0]
        return replace(self, worker="", ends=self.ends + 1 if same else 1, how=how[:MOST_TEXT])


Notes = dict[TopicPartition, Attempt]


def blames_record(error: BaseException) -> bool:
    """Whether the record may have caused the error; requests to retry or to stop do not count.

    Lack of memory counts: if it has another cause, it passes before the third attempt.
    """
    if isinstance(error, StreamIcdError):
        return error.action is Action.DEAD_LETTER
    return isinstance(error, Exception)


@dataclass(slots=True)
class Attempts:
    """The notes on a worker's partitions: which records it must process alone.

    `in_hand` is how many records of a partition a worker may have in hand; 0: nothing is counted.
    """

    settings: KafkaSettings
    topic: str
    group: str
    in_hand: int
    _since: Assignment = field(default_factory=dict)
    _notes: Notes = field(default_factory=lambda: defaultdict(Attempt))
    _written: set[TopicPartition] = field(default_factory=set)

    def unknown(self, assignment: Assignment) -> Assignment:
        """The newly assigned partitions whose notes have not been read yet."""
        new = {p: since for p, since in assignment.items() if self._since.get(p) != since}
        return new if self.in_hand else {}

    def take_over(self, assignment: Assignment) -> None:
        """Read how the previous worker left each of these partitions."""
        found = self._read()
        notes = {p: found.get(p, Attempt()) for p in assignment}
        members = self._members() if any(note.worker for note in notes.values()) else ()
        for partition, note in notes.items():
            died = note.worker and note.worker not in members
            self._notes[partition] = (
                note.ended(DIED, self.in_hand) if died else replace(note, worker="")
            )
        self._written -= assignment.keys()
        self._since |= assignment

    def suspicious(self, ours: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Those of our partitions whose next records must be processed one by one."""
        return [p for p in ours if self._notes[p].left]

    def clear(self, partition: TopicPartition) -> None:
        """Clear the suspicion: no record of the partition can have been in hand."""
        self._notes[partition] = Attempt()

    def news(self, first: Mapping[TopicPartition, int], worker: str) -> Notes:
        """The notes to `write` before the records from `first` on are processed; usually none."""
        notes = {p: self._facing(p, offset, worker) for p, offset in first.items()}
        news = {p: note for p, note in notes.items() if note.left or p not in self._written}
        return news if self.in_hand else {}

    def write(self, news: Notes) -> None:
        self._write(news)
        self._notes |= news
        self._written |= news.keys()

    def _facing(self, partition: TopicPartition, offset: int, worker: str) -> Attempt:
        note = self._notes[partition]
        if not note.left:
            return Attempt(worker)
        if note.offset == offset:
            return replace(note, worker=worker)
        # It may have been in hand when the first worker ended.
        return Attempt(worker, offset, ends=1, left=note.left)

    def given_up(self, partitions: Iterable[TopicPartition]) -> Attempt | None:
        """The note on the record in hand, if it has ended too many workers."""
        notes = (self._notes[partition] for partition in partitions)
        return next((note for note in notes if note.ends >= GIVEN_UP_AFTER), None)

    def ended(self, partitions: Iterable[TopicPartition], error: BaseException) -> None:
        """Note that the records in hand ended a worker, or a process of it, by this error.

        It is written before these records are processed again, or by `end`.
        """
        how = str(error) if isinstance(error, CrashedWorker) else f"{type(error).__name__}: {error}"
        for partition in partitions:
            self._notes[partition] = self._notes[partition].ended(how, self.in_hand)

    def done(self, partitions: Iterable[TopicPartition]) -> None:
        """Note that the results of the records in hand are published and committed."""
        for partition in partitions:
            note = self._notes[partition]
            if note.left:  # once the culprit is found, no other record is suspected
                left = 0 if note.ends >= GIVEN_UP_AFTER else note.left - 1
                self._notes[partition] = Attempt(left=left)
                self._written.discard(partition)

    def end(self, ours: Partitions) -> None:
        """Note that the worker no longer works on its partitions."""
        self._write({p: replace(self._notes[p], worker="") for p in self._written & set(ours)})

    def _write(self, notes: Notes) -> None:
        if notes:
            by_partition = {p.partition: asdict(note) for p, note in notes.items()}
            write_notes(self.settings, self.topic, self.group, by_partition)

    def _read(self) -> Notes:
        notes = read_notes(self.settings, self.topic, self.group)
        found: Notes = {}
        for partition, note in notes.items():
            if isinstance(partition, int):
                with contextlib.suppress(TypeError):  # it is another kind of note
                    found[TopicPartition(self.topic, partition)] = Attempt(**note)
        return found

    def _members(self) -> Collection[str]:
        """The members of the group; empty if the client (3.0.12) cannot read the embedded broker's
        answer: there, a worker that lost its partition in a rebalance counts as crashed."""
        try:
            return members_of(self.settings, self.group).keys()
        except (BrokerError, ValueError):
            return ()
