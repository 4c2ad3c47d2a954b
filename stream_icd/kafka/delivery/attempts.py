"""Remember across restarts which record crashed its worker.

A killed worker cannot report anything, so each worker first writes a note to the topic of workers'
notes: it works on this partition. The next worker of the partition sees from the note whether the
previous one stopped cleanly. If not, it processes the records that were possibly in hand one by
one, and writes a note before each. So only the record that crashes a worker is blamed, and not its
neighbours.

A note is written when a worker takes over a partition and when it stops. In between, notes are
written only while records are under suspicion.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial

from stream_icd.errors import Action, BrokerError, StreamIcdError
from stream_icd.kafka.delivery.batch import Batch
from stream_icd.kafka.delivery.handler import GiveUp
from stream_icd.kafka.group.assignments import Assignment
from stream_icd.kafka.group.groups import members_of
from stream_icd.kafka.group.membership import Membership
from stream_icd.kafka.group.worker_notes import Key, read_notes, write_notes
from stream_icd.kafka.port.partition import TopicPartition
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.settings import KafkaSettings

GIVEN_UP_AFTER = 3
"""A record that crashed this many workers in a row is given up."""

DIED = "the process died"
MOST_TEXT = 1000


@dataclass(frozen=True, slots=True)
class Attempt:
    """A note about one partition of a group.

    Attributes:
        worker: the member of the group that works on the partition; "" if none does.
        offset: the record that is processed alone; -1 for a batch, or none.
        ends: how many workers in a row this record has crashed so far.
        how: how it crashed the last one; "" if unknown.
        left: how many records, including this one, must be processed alone.
    """

    worker: str = ""
    offset: int = -1
    ends: int = 0
    how: str = ""
    left: int = 0

    def ended(self, how: str) -> Attempt:
        """The note after the record crashed one more worker, in the same or another way."""
        same = not self.how or _kind(self.how) == _kind(how)
        return replace(self, worker="", ends=self.ends + 1 if same else 1, how=how[:MOST_TEXT])


Notes = dict[TopicPartition, Attempt]


def _kind(how: str) -> str:
    return how.partition(":")[0]


def blames_record(error: BaseException) -> bool:
    """Whether the record may have caused the error; requests to retry or to stop do not count.

    Lack of memory counts: if it has another cause, it passes before the third attempt, at which the
    record is alone in hand.
    """
    if isinstance(error, StreamIcdError):
        return error.action is Action.DEAD_LETTER
    return isinstance(error, Exception)


class Attempts:
    """The notes on a worker's partitions: which records it must process alone.

    Args:
        in_hand: how many records of a partition a worker may have had in hand.
    """

    def __init__(self, settings: KafkaSettings, topic: str, group: str, in_hand: int) -> None:
        self._settings = settings
        self._topic = topic
        self._group = group
        self._in_hand = in_hand
        self._since: Assignment = {}
        self._notes: dict[TopicPartition, Attempt] = {}
        self._written: set[TopicPartition] = set()

    def unknown(self, assignment: Assignment) -> Assignment:
        """The newly assigned partitions whose notes have not been read yet."""
        return {p: since for p, since in assignment.items() if self._since.get(p) != since}

    def take_over(self, assignment: Assignment) -> None:
        """Read how the previous worker left each of these partitions.

        Raises:
            TopicMissing, BrokerUnavailable: the notes cannot be read.
        """
        notes = self._read()
        left = [notes.get(p, Attempt()) for p in assignment]
        members = self._members() if any(note.worker for note in left) else frozenset()
        for partition, note in zip(assignment, left, strict=True):
            self._notes[partition] = self._judged(note, members)
        self._written -= assignment.keys()
        self._since |= assignment

    def _judged(self, note: Attempt, members: Collection[str]) -> Attempt:
        if not note.worker or note.worker in members:
            return replace(note, worker="")
        return note.ended(DIED) if note.offset >= 0 else Attempt(left=self._in_hand)

    def suspicious(self, ours: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Those of our partitions whose next records must be processed alone."""
        return [p for p in ours if p in self._notes and self._notes[p].left]

    def clear(self, partition: TopicPartition) -> None:
        """Clear the suspicion: no record of the partition can have been in hand."""
        self._notes[partition] = Attempt()

    def news(self, first: Mapping[TopicPartition, int], worker: str) -> Notes:
        """The notes to `write` before these records are processed; usually none.

        Args:
            first: the first offset in hand of each partition.
        """
        notes = {p: self._facing(p, offset, worker) for p, offset in first.items()}
        return {p: note for p, note in notes.items() if note.left or p not in self._written}

    def write(self, news: Notes) -> None:
        """Write the notes on what is processed from now on.

        Raises:
            BrokerError: it could not be written.
        """
        self._write(news)
        self._notes |= news
        self._written |= news.keys()

    def _facing(self, partition: TopicPartition, offset: int, worker: str) -> Attempt:
        note = self._notes[partition]
        if not note.left:
            return Attempt(worker)
        if note.offset == offset:
            return replace(note, worker=worker)
        # It may have been in hand when the first worker crashed.
        return Attempt(worker, offset, ends=1, left=note.left)

    def given_up(self, partitions: Iterable[TopicPartition]) -> str | None:
        """How the record in hand crashed its workers, if it must not be tried again."""
        for note in (self._notes[p] for p in partitions):
            if note.ends >= GIVEN_UP_AFTER:
                return note.how
        return None

    def done(self, partitions: Iterable[TopicPartition]) -> None:
        """Note that the results of the records in hand are published and committed."""
        for partition in partitions:
            note = self._notes[partition]
            if note.left:  # once the culprit is found, no other record is suspected
                left = 0 if note.ends >= GIVEN_UP_AFTER else note.left - 1
                self._notes[partition] = Attempt(left=left)
                self._written.discard(partition)

    def end(self, ours: Collection[TopicPartition], crash: BaseException | None) -> None:
        """Note that the worker stops: cleanly, or by an error that a record in hand may explain.

        Raises:
            BrokerError: it could not be noted.
        """
        notes = {p: self._notes[p] for p in self._written & set(ours)}
        alone = [p for p, note in notes.items() if note.offset >= 0]
        if crash is not None and not alone:
            return  # the note from the start already says that we did not stop cleanly
        last = {p: replace(note, worker="") for p, note in notes.items()}
        if crash is not None:
            how = f"{type(crash).__name__}: {crash}"
            last |= {p: notes[p].ended(how) for p in alone}
        self._write(last)

    def _write(self, notes: Notes) -> None:
        if notes:
            write_notes(self._settings, {self._key(p): asdict(note) for p, note in notes.items()})

    def _read(self) -> dict[TopicPartition, Attempt]:
        """The latest note of each partition of this group and topic."""
        found: dict[TopicPartition, Attempt] = {}
        for key, value in read_notes(self._settings).items():
            with contextlib.suppress(ValueError, TypeError):  # it is another kind of note
                group, topic, partition = key
                if (group, topic) == (self._group, self._topic) and isinstance(partition, int):
                    found[TopicPartition(self._topic, partition)] = Attempt(**value)  # type: ignore[arg-type]
        return found

    def _key(self, partition: TopicPartition) -> Key:
        return self._group, self._topic, partition.partition

    def _members(self) -> frozenset[str]:
        """The members of the group; empty where the broker does not report them.

        The client (3.0.12) cannot read the embedded broker's answer. There, a worker that lost its
        partition in a rebalance counts as crashed.
        """
        try:
            return frozenset(members_of(self._settings, self._group))
        except (BrokerError, ValueError):
            return frozenset()


log = logging.getLogger(__name__)

NOTE_TIMEOUT_S = 5.0


class CrashedRecords:
    """How a worker treats records that crashed another one; `Attempts` remembers them.

    Args:
        give_up: see `Handler`.
    """

    def __init__(self, member: Membership, attempts: Attempts, give_up: GiveUp | None) -> None:
        self._member = member
        self._attempts = attempts
        self._give_up = give_up
        self._crash: BaseException | None = None

    def take_over(self) -> Assignment:
        """Read how new partitions were left, resume all our partitions, and return them."""
        assignment = self._member.assignments.begin()
        while self._give_up is not None and (unknown := self._attempts.unknown(assignment)):
            self._member.insist(partial(self._attempts.take_over, unknown))
            assignment = self._member.assignments.begin()
        return assignment

    def come_alone(self) -> bool:
        """Whether one of the next records may have crashed a worker; if so, poll one at a time."""
        if self._give_up is None:
            return False
        suspicious = self._attempts.suspicious(self._member.assignments.ours())
        for partition in suspicious:
            if self._member.is_read(partition):
                self._attempts.clear(partition)
        return bool(self._attempts.suspicious(suspicious))

    def given_up(self, batch: Batch) -> Callable[[], Iterable[OutgoingRecord]] | None:
        """If the batch's only record is given up, a function that makes its replacement; else None.

        Before this returns, a note says that the batch is being processed.
        """
        if self._give_up is None:
            return None
        if news := self._attempts.news(batch.first, self._member.id):
            self._member.insist(partial(self._attempts.write, news))
        how = self._attempts.given_up(batch.first)
        if how is None:
            return None
        (record,) = batch.records
        return partial(self._give_up, record, how)

    def ended_by(self, error: BaseException) -> None:
        """Note that processing a batch failed with that error, which stops the worker."""
        if blames_record(error):
            self._crash = error

    def done(self, partitions: Iterable[TopicPartition]) -> None:
        """Note that the results of the records in hand are published and committed."""
        if self._give_up is not None:
            self._attempts.done(partitions)

    def note_the_end(self) -> None:
        """Note that we stop cleanly, unless a record crashed us; the broker may be unavailable."""
        if self._give_up is None:
            return
        ours = self._member.assignments.ours()
        noting = self._member.begin(partial(self._attempts.end, ours, self._crash))
        if not concurrent.futures.wait([noting], NOTE_TIMEOUT_S).done or noting.exception():
            log.warning("cannot note how this worker ended: %s", noting)
