"""Contents of a dead-letter topic: which records, why, which were resent; and choices of them.

A record has several dead letters if several workers could not read it, or one failed repeatedly.

The topic is the only state. A resent dead letter is marked by a later record in its partition, so
the whole topic must be read to find those that were not resent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Literal, Self

from stream_icd.core import errors
from stream_icd.core.errors import BadSettings
from stream_icd.core.printable import did_you_mean, listed, shown
from stream_icd.kafka.messages.records import graph_name
from stream_icd.kafka.messages.topic_range import TopicRange
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.waiting import Stop
from stream_icd.streaming.dead_letters.letters import DeadLetter, Retried

UNKNOWN = "unknown"
"""The exception of a dead letter that names none, in lists and choices."""


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that was dead-lettered: its dead letters, in the order of the topic; its retries."""

    letters: Sequence[DeadLetter]
    retried: Sequence[Retried] = ()

    @property
    def origin(self) -> str:
        return self.letters[0].origin

    @property
    def first(self) -> DeadLetter:
        """The dead letter to resend: one that came from the origin itself, if there still is one.
        A worker sets where a dead letter came from, but a producer can claim any origin."""
        at_origin = [letter for letter in self.letters if letter.came_from == self.origin]
        return (at_origin or self.letters)[0]

    @property
    def latest(self) -> DeadLetter:
        return max(self.letters, key=attrgetter("attempt", "timestamp_ms", "offset"))

    @property
    def attempt(self) -> int:
        return self.latest.attempt

    @property
    def stages(self) -> tuple[str, ...]:
        """The processing stages that failed, for all of its workers."""
        return tuple(dict.fromkeys(letter.stage for letter in self.letters))

    @property
    def was_sent_again(self) -> bool:
        """Whether it was resent, even if retention has deleted the marker."""
        return bool(self.retried) or self.attempt > 1


@dataclass(frozen=True, slots=True)
class DeadLetterBox:
    """The dead letters of a topic, in its order, and the retries of the record of each origin."""

    letters: Sequence[DeadLetter]
    retried: Mapping[str, Sequence[Retried]]

    @classmethod
    def read(
        cls,
        settings: KafkaSettings,
        topic: str,
        until: Literal["end", "settled"] = "end",
        stop: Stop | None = None,
    ) -> Self:
        """Read all dead letters of the dead-letter topic `topic`; raises as `open_reader`."""
        letters: list[DeadLetter] = []
        retried: dict[str, list[Retried]] = defaultdict(list)
        with open_reader(settings, topic, until=until, stop=stop) as records:
            for record in records:
                if (mark := Retried.marked(record)) is None:
                    letters.append(DeadLetter.of(record))
                else:
                    retried[mark[0]].append(mark[1])
        return cls(letters, retried)

    @property
    def records(self) -> list[BadRecord]:
        """The dead-lettered records, in the order of their first dead letters."""
        by_origin: dict[str, list[DeadLetter]] = defaultdict(list)
        for letter in self.letters:
            by_origin[letter.origin].append(letter)
        return [BadRecord(same, self.retried.get(at, ())) for at, same in by_origin.items()]


def read_again(
    settings: KafkaSettings, letters: Collection[DeadLetter], stop: Stop | None = None
) -> Iterator[tuple[DeadLetter, Record]]:
    """Read some dead letters of one topic, in order, as the original records, until `stop`; not
    those that retention has deleted."""
    wanted = {letter.place: letter for letter in letters}
    if not wanted:
        return
    (topic,) = {letter.topic for letter in letters}
    with open_reader(settings, topic, until="end", stop=stop) as records:
        for record in records:
            if record.place in wanted:
                letter = wanted.pop(record.place)
                yield letter, replace(record, headers=letter.headers)
            if not wanted:
                return


@dataclass(frozen=True, slots=True)
class DeadLetterChoice:
    """A selection of dead letters: those in a range of the topic that match all criteria."""

    part: TopicRange
    places: frozenset[str] = frozenset()  # any of `DeadLetter.places`; empty: those at any position
    graph: str | None = None
    exception: str | None = None

    def holds(self, letter: DeadLetter) -> bool:
        return (
            self.part.holds(letter)
            and (not self.places or not self.places.isdisjoint(letter.places))
            and self.graph in (None, letter.graph)
            and self.exception in (None, letter.exception or UNKNOWN)
        )

    def records(self, box: DeadLetterBox) -> list[BadRecord]:
        """Return the records with a selected dead letter; raises as `of`."""
        chosen = {letter.origin for letter in self.of(box)}
        return [record for record in box.records if record.origin in chosen]

    def of(self, box: DeadLetterBox) -> list[DeadLetter]:
        """Return the selected dead letters.

        Raises `BadSettings` if there is none at a position, or only those of other graphs, or no
        such exception.
        """
        chosen = [letter for letter in box.letters if self.holds(letter)]
        places = {place for letter in box.letters for place in letter.places}
        if missing := sorted(self.places - places):
            raise BadSettings(
                f"{self.part.topic} holds no dead letter {', '.join(missing)}: "
                "stream-icd dlq list shows what there is"
            )
        self._check("graph", self.graph, {shown(graph_name(letter)) for letter in box.letters})
        if not hasattr(errors, self.exception or ""):  # none of these is an answer, too
            exceptions = {letter.exception or UNKNOWN for letter in box.letters}
            self._check("exception", self.exception, exceptions)
        return chosen

    def _check(self, kind: str, wanted: str | None, known: Collection[str]) -> None:
        if wanted is not None and known and wanted not in known:
            raise BadSettings(
                f"{self.part.topic} holds no dead letter of {kind} {wanted}; "
                f"it holds those of {listed(sorted(known))}{did_you_mean(wanted, known)}"
            )
