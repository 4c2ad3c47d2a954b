"""Which record ended its worker, remembered across restarts.

A worker that is killed can say nothing any more, so it says beforehand, in the topic of workers'
notes, that it works on a partition. Whoever gets the partition next sees whether that worker ended
in good order. If it did not, the records that it may have had in hand are worked on one by one,
each noted before: so only the record that ends a worker is blamed, and not its neighbours.

A note is written when a partition is taken over, and when its worker ends: nothing is written in
between, unless there is a suspicion.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace

from stream_icd.errors import Action, BrokerError, StreamIcdError
from stream_icd.kafka.assignments import Assignment
from stream_icd.kafka.groups import members_of
from stream_icd.kafka.port.partition import TopicPartition
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.worker_notes import Key, read_notes, write_notes

GIVEN_UP_AFTER = 3
"""A record that ended so many workers in a row is given up."""

DIED = "the process died"
MOST_TEXT = 1000


@dataclass(frozen=True, slots=True)
class Attempt:
    """A note about one partition of a group.

    Attributes:
        worker: the member of the group that works on it; "" if none does.
        offset: the record that is in hand alone; -1 for a batch, or none.
        ends: how many workers in a row this record ended before.
        how: how it ended the last one; "" if nobody knows.
        left: how many records, with this one, are to be worked on alone.
    """

    worker: str = ""
    offset: int = -1
    ends: int = 0
    how: str = ""
    left: int = 0

    def ended(self, how: str) -> Attempt:
        """The note after the record ended another worker, the same way or another one."""
        same = not self.how or _kind(self.how) == _kind(how)
        return replace(self, worker="", ends=self.ends + 1 if same else 1, how=how[:MOST_TEXT])


Notes = dict[TopicPartition, Attempt]


def _kind(how: str) -> str:
    return how.partition(":")[0]


def blames_record(error: BaseException) -> bool:
    """Whether an error may be the record's fault: lack of memory and a request to retry are not."""
    if isinstance(error, StreamIcdError):
        return error.action is Action.DEAD_LETTER
    return isinstance(error, Exception) and not isinstance(error, MemoryError)


class Attempts:
    """What is known of the partitions that a worker has: which records to work on alone.

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
        """The partitions that came since, whose notes were not read yet."""
        return {p: since for p, since in assignment.items() if self._since.get(p) != since}

    def take_over(self, assignment: Assignment) -> None:
        """See how the last worker left each of these partitions.

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
        """Those of our partitions whose next records are to be worked on alone."""
        return [p for p in ours if p in self._notes and self._notes[p].left]

    def clear(self, partition: TopicPartition) -> None:
        """There is no record there that a worker can have had in hand."""
        self._notes[partition] = Attempt()

    def news(self, first: Mapping[TopicPartition, int], worker: str) -> Notes:
        """What to `write` before these records are worked on; nothing, mostly.

        Args:
            first: the first offset in hand of each partition.
        """
        notes = {p: self._facing(p, offset, worker) for p, offset in first.items()}
        return {p: note for p, note in notes.items() if note.left or p not in self._written}

    def write(self, news: Notes) -> None:
        """Note what is worked on from now on.

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
        # It was, perhaps, in hand when the first worker ended.
        return Attempt(worker, offset, ends=1, left=note.left)

    def given_up(self, partitions: Iterable[TopicPartition]) -> str | None:
        """How the record in hand ended its workers, if it is not to be tried again."""
        for note in (self._notes[p] for p in partitions):
            if note.ends >= GIVEN_UP_AFTER:
                return note.how
        return None

    def done(self, partitions: Iterable[TopicPartition]) -> None:
        """What was in hand there is published and committed."""
        for partition in partitions:
            note = self._notes[partition]
            if note.left:  # where the culprit was found, nobody else is suspected
                left = 0 if note.ends >= GIVEN_UP_AFTER else note.left - 1
                self._notes[partition] = Attempt(left=left)
                self._written.discard(partition)

    def end(self, ours: Collection[TopicPartition], crash: BaseException | None) -> None:
        """The worker ends: in good order, or by an error that a record in hand may have caused.

        Raises:
            BrokerError: it could not be noted.
        """
        notes = {p: self._notes[p] for p in self._written & set(ours)}
        alone = [p for p, note in notes.items() if note.offset >= 0]
        if crash is not None and not alone:
            return  # what we noted at the beginning says that we did not end in good order
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
        """Who is in the group; nobody where the broker does not say so.

        The embedded broker's answer cannot be read by the client (3.0.12): there, a worker whose
        partition went to another one by a rebalance counts as ended.
        """
        try:
            return frozenset(members_of(self._settings, self._group))
        except (BrokerError, ValueError):
            return frozenset()
