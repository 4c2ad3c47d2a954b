"""Notes from workers to later workers of their group, in the topic `icd.workers.v1`.

Keys (group, topic, name) and values are JSON; the latest value of a name counts. There are three
kinds: which graph a group keeps to, where it keeps records, and how many workers in a row a record
has ended.

A worker ends by a kill, or by an error of its step. If only a process ends in which it has records
processed (`stream_icd.streaming.execution`), that counts the same, and the worker continues.

A killed worker cannot report anything, so each worker writes a note when it takes over a partition
and when it stops. The next worker sees from the note whether the previous one stopped cleanly. If
not, or if a process ended, the records that were possibly in hand are processed one by one, with a
note before each. So only the record that ends workers is blamed, and not its neighbours.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from stream_icd.core.errors import Action, BadSettings, CrashedWorker, StreamIcdError
from stream_icd.kafka.delivery.handler import DIED, GIVEN_UP_AFTER
from stream_icd.kafka.group.membership import Assignment
from stream_icd.kafka.port import Partitions, TopicPartition
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.reader import TopicReader
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import WORKERS, group_members

_log = logging.getLogger(__name__)

_MOST_TEXT = 1000
_Name = str | int
_Note = dict[str, Any]


@dataclass(slots=True)
class WorkerNotes:
    """The notes of a group on the topic that it reads."""

    settings: KafkaSettings
    topic: str
    group: str
    _reader: TopicReader | None = None
    _next: dict[int, int] = field(default_factory=dict)
    _latest: dict[_Name, _Note] = field(default_factory=dict)

    def write(self, notes: Mapping[str, _Note] | Mapping[int, _Note]) -> None:
        """Write these notes; they are safe at the broker when this returns."""
        with Publisher(self.settings) as publisher:
            for name, note in notes.items():
                key = json.dumps((self.group, self.topic, name)).encode()
                publisher.send(OutgoingRecord(WORKERS, json.dumps(note).encode(), key))

    def read(self) -> Mapping[_Name, _Note]:
        """The latest note under each name. Until `close`, the next call reads only what is new."""
        try:
            if self._reader is None:
                self._reader = TopicReader(self.settings, WORKERS)
            for record in self._reader.records(self._next, "end"):
                self._next[record.partition] = record.offset + 1
                self._take(record.key, record.value)
        except BaseException:
            self.close()
            raise
        return self._latest

    def _take(self, key: bytes | None, value: bytes | None) -> None:
        with contextlib.suppress(ValueError, RecursionError):  # it is not a note
            match json.loads(key or b""), json.loads(value or b""):
                case [self.group, self.topic, str() | int() as name], dict() as note:
                    self._latest[name] = note

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self._reader, self._next, self._latest = None, {}, {}

    def keep_to(self, graph: str | None) -> None:
        """Note which graph the group reads, unless a note exists; None means all graphs.

        If two workers start at the same time, the one that wrote the last note continues. Raises
        `BadSettings` if it reads another graph: records that it skipped are lost for this one.
        """
        note = self.read().get("graph")
        if note is None:
            self.write({"graph": {"graph": graph}})
            note = self.read().get("graph")  # again: another worker may have written after us
        chosen = None if note is None else note.get("graph")
        if note is None or chosen != graph:
            raise BadSettings(
                f"group {self.group} reads {_named(chosen)} of {self.topic}, but this worker wants "
                f"{_named(graph)}: they would lose each other's records. Give this worker another "
                "--group, or none (the default group is named after --graph)"
            )

    def note_place(self, place: str) -> None:
        """Note where the group keeps its records, and log a warning if it was elsewhere before."""
        before = self.read().get("place", {}).get("place")
        if before == place:
            return
        if before is not None:
            _log.warning(
                "group %s kept the records of %s in %s before: if both places are in use, each "
                "gets only a part of them; then give this worker another --group",
                self.group,
                self.topic,
                before,
            )
        self.write({"place": {"place": place}})


def _named(graph: object) -> str:
    return "all graphs" if graph is None else f"graph {graph} only"


@dataclass(frozen=True, slots=True)
class _Attempt:
    """What is noted about one partition.

    Raises `TypeError` if a value has another type, or is no int64.
    """

    worker: str = ""  # the member of the group that works on the partition; "" if none does
    offset: int = -1  # the record that is processed alone; -1 for a batch, or none
    ends: int = 0  # how many workers in a row this record has ended so far
    how: str = ""  # how it ended the last one; "" if unknown
    left: int = 0  # how many records, including this one, must be processed alone

    def __post_init__(self) -> None:
        texts, numbers = (self.worker, self.how), (self.offset, self.ends, self.left)
        if not all(isinstance(text, str) for text in texts):
            raise TypeError(f"{texts!r:.80} must be texts")
        if not all(isinstance(number, int) and abs(number) < 1 << 63 for number in numbers):
            raise TypeError(f"{numbers!r:.80} must be int64")

    def ended(self, how: str, in_hand: int) -> _Attempt:
        """The note after what was processed ended one more worker, in the same or another way;
        `in_hand` is how many records of the partition were in hand, if none was alone."""
        if self.offset < 0:
            return _Attempt(left=in_hand)
        same = not self.how or self.how.partition(":")[0] == how.partition(":")[0]
        return replace(self, worker="", ends=self.ends + 1 if same else 1, how=how[:_MOST_TEXT])


_Notes = dict[TopicPartition, _Attempt]


@dataclass(slots=True)
class Attempts:
    """The notes on a worker's partitions: which records it must process alone.

    `in_hand` is how many records of a partition a worker may have in hand; 0: nothing is counted.
    """

    notes: WorkerNotes
    in_hand: int
    _since: Assignment = field(default_factory=dict)
    _notes: _Notes = field(default_factory=lambda: defaultdict(_Attempt))
    _written: set[TopicPartition] = field(default_factory=set)

    def unknown(self, assignment: Assignment) -> Assignment:
        """The newly assigned partitions whose notes have not been read yet."""
        new = {p: since for p, since in assignment.items() if self._since.get(p) != since}
        return new if self.in_hand else {}

    def take_over(self, assignment: Assignment) -> None:
        """Read how the previous worker left each of these partitions."""
        all_notes = self._read()
        notes = {p: all_notes.get(p, _Attempt()) for p in assignment}
        at_work = any(note.worker for note in notes.values())
        # A worker that is there lost its partition in a rebalance, and did not crash. The embedded
        # broker does not tell its members: there it counts as crashed.
        members = group_members(self.notes.settings, self.notes.group) if at_work else {}
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
        self._notes[partition] = _Attempt()

    def news(self, first: Mapping[TopicPartition, int], worker: str) -> _Notes:
        """The notes to `write` before the records from `first` on are processed; usually none."""
        notes = {p: self._facing(p, offset, worker) for p, offset in first.items()}
        news = {p: note for p, note in notes.items() if note.left or p not in self._written}
        return news if self.in_hand else {}

    def write(self, news: _Notes) -> None:
        self._write(news)
        # After: if the broker is unavailable, the same notes are written again.
        self._notes |= news
        self._written |= news.keys()

    def _facing(self, partition: TopicPartition, offset: int, worker: str) -> _Attempt:
        note = self._notes[partition]
        if not note.left:
            return _Attempt(worker)
        if note.offset == offset:
            return replace(note, worker=worker)
        # It may have been in hand when the first worker ended.
        return _Attempt(worker, offset, ends=1, left=note.left)

    def given_up(self, partitions: Iterable[TopicPartition]) -> _Attempt | None:
        """The note on the record in hand, if it has ended too many workers."""
        notes = (self._notes[partition] for partition in partitions)
        return next((note for note in notes if note.ends >= GIVEN_UP_AFTER), None)

    def ended(self, partitions: Iterable[TopicPartition], error: BaseException) -> bool:
        """Note that the records in hand ended a worker, or a process of it, by this error; False if
        none of them can have caused it. The note is written before these records are processed
        again, or by `end`."""
        if not _blames_record(error):
            return False
        how = str(error) if isinstance(error, CrashedWorker) else f"{type(error).__name__}: {error}"
        for partition in partitions:
            self._notes[partition] = self._notes[partition].ended(how, self.in_hand)
        return True

    def done(self, partitions: Iterable[TopicPartition]) -> None:
        """The results of the records in hand are published and committed."""
        for partition in partitions:
            note = self._notes[partition]
            if note.left:  # once the culprit is found, no other record is suspected
                left = 0 if note.ends >= GIVEN_UP_AFTER else note.left - 1
                self._notes[partition] = _Attempt(left=left)
                self._written.discard(partition)

    def end(self, ours: Partitions) -> None:
        """Note that the worker no longer works on its partitions."""
        self._write({p: replace(self._notes[p], worker="") for p in self._written & set(ours)})

    def _write(self, notes: _Notes) -> None:
        if notes:
            self.notes.write({p.partition: asdict(note) for p, note in notes.items()})

    def _read(self) -> _Notes:
        notes: _Notes = {}
        for partition, note in self.notes.read().items():
            if isinstance(partition, int):
                with contextlib.suppress(TypeError):  # it is another kind of note
                    notes[TopicPartition(self.notes.topic, partition)] = _Attempt(**note)
        self.notes.close()
        return notes


def _blames_record(error: BaseException) -> bool:
    """Whether the record may have caused the error: no request to retry or to stop, but lack of
    memory, which passes before the third attempt if it has another cause."""
    if isinstance(error, StreamIcdError):
        return error.action is Action.DEAD_LETTER
    return isinstance(error, Exception)
