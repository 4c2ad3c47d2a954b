"""Selects dead letters: by position, or by their attributes."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from stream_icd.dead_letters.box import BadRecord, DeadLetter, DeadLetterBox
from stream_icd.errors import BadSettings
from stream_icd.kafka.port.topic import dead_letter_topic, is_dead_letter_topic
from stream_icd.messages.topic_range import TopicRange
from stream_icd.printable import did_you_mean

_WHOLE = re.compile(r"(?P<topic>[A-Za-z0-9._-]+)\[\d+\]@\d+")
_SHORT = re.compile(r"(?P<partition>\d+):(?P<offset>\d+)")


@dataclass(frozen=True, slots=True)
class Choice:
    """A selection of dead letters of a topic: those that match all criteria.

    Attributes:
        part: those in this range of the dead-letter topic.
        places: positions of the dead letter, of the dead-lettered record, or of the record when it
            was first dead-lettered; by default any.
    """

    part: TopicRange
    places: frozenset[str] = frozenset()
    graph: str | None = None
    exception: str | None = None

    def holds(self, letter: DeadLetter) -> bool:
        return (
            self.part.holds(letter)
            and (not self.places or not self.places.isdisjoint(_places(letter)))
            and self.graph in (None, letter.graph)
            and self.exception in (None, letter.exception)
        )

    def records(self, box: DeadLetterBox) -> list[BadRecord]:
        """Return the records with a selected dead letter; raises as `of`."""
        chosen = {letter.place for letter in self.of(box)}
        return [
            record
            for record in box.records
            if not chosen.isdisjoint(letter.place for letter in record.letters)
        ]

    def of(self, box: DeadLetterBox) -> list[DeadLetter]:
        """Return the selected dead letters.

        Raises:
            BadSettings: there is no dead letter at a position, or only those of other graphs.
        """
        chosen = [letter for letter in box.letters if self.holds(letter)]
        known = {place for letter in box.letters for place in _places(letter)}
        if missing := sorted(self.places - known):
            raise BadSettings(
                f"{self.part.topic} holds no dead letter {', '.join(missing)}: "
                "stream-icd dlq list shows what there is"
            )
        graphs = {letter.graph or "unknown" for letter in box.letters}
        if self.graph is not None and graphs and self.graph not in graphs:
            raise BadSettings(
                f"{self.part.topic} holds no dead letter of graph {self.graph}; "
                f"it holds those of {', '.join(sorted(graphs)[:10])}"
                f"{did_you_mean(self.graph, graphs)}"
            )
        return chosen


def _places(letter: DeadLetter) -> set[str | None]:
    return {letter.place, letter.came_from, letter.origin}


def parse_places(texts: Collection[str], topic: str) -> tuple[str, frozenset[str]]:
    """Return the dead-letter topic, and the requested positions in it.

    Args:
        texts: each `PARTITION:OFFSET` in the dead-letter topic, or `TOPIC[PARTITION]@OFFSET` in
            it or in the topic that it belongs to, as in lists and logs.
        topic: the topic of dead letters, for positions without one.

    Raises:
        BadSettings: a text is neither, or the positions are in several topics.

    >>> parse_places(["0:7"], "icd.snapshots.v1")
    ('icd.snapshots.v1.dlq', frozenset({'icd.snapshots.v1.dlq[0]@7'}))
    """
    named = {dead_letters_of(found["topic"]) for found in map(_WHOLE.fullmatch, texts) if found}
    if len(named) > 1:
        raise BadSettings(
            f"these positions are in several topics ({', '.join(sorted(named))}): "
            "give those of one topic"
        )
    dead_letters = named.pop() if named else dead_letters_of(topic)
    return dead_letters, frozenset(_whole_place(text, dead_letters) for text in texts)


def dead_letters_of(topic: str) -> str:
    """Return the dead-letter topic of a topic, or the topic itself if it is one."""
    return topic if is_dead_letter_topic(topic) else dead_letter_topic(topic)


def _whole_place(text: str, dead_letters: str) -> str:
    if _WHOLE.fullmatch(text):
        return text
    if found := _SHORT.fullmatch(text):
        return f"{dead_letters}[{found['partition']}]@{found['offset']}"
    raise BadSettings(
        f"{text!r} is not a position: give PARTITION:OFFSET, or {dead_letters}[PARTITION]@OFFSET"
    )
