"""Which dead letters are meant: by their places, or by what is known of them."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from stream_icd.dead_letters.box import BadRecord, DeadLetter, DeadLetterBox
from stream_icd.errors import BadSettings
from stream_icd.kafka.port.topic import dead_letter_topic, is_dead_letter_topic
from stream_icd.messages.topic_range import TopicRange
from stream_icd.suggest import did_you_mean

_WHOLE = re.compile(r"(?P<topic>[A-Za-z0-9._-]+)\[\d+\]@\d+")
_SHORT = re.compile(r"(?P<partition>\d+):(?P<offset>\d+)")


@dataclass(frozen=True, slots=True)
class Choice:
    """Which dead letters of a topic are meant: those that all of these fit.

    Attributes:
        part: those in this part of the dead-letter topic.
        places: where they are, where they came from, or where the record lay when it was first
            dead-lettered; by default anywhere.
    """

    part: TopicRange
    places: frozenset[str] = frozenset()
    graph: str | None = None
    exception: str | None = None

    def holds(self, letter: DeadLetter) -> bool:
        """Whether this one is meant."""
        return (
            self.part.holds(letter)
            and (not self.places or not self.places.isdisjoint(_places(letter)))
            and self.graph in (None, letter.graph)
            and self.exception in (None, letter.exception)
        )

    def records(self, box: DeadLetterBox) -> list[BadRecord]:
        """The records of which any dead letter is meant.

        Raises:
            BadSettings: as `of`.
        """
        chosen = {letter.place for letter in self.of(box)}
        return [
            record
            for record in box.records
            if not chosen.isdisjoint(letter.place for letter in record.letters)
        ]

    def of(self, box: DeadLetterBox) -> list[DeadLetter]:
        """The dead letters that are meant.

        Raises:
            BadSettings: there is nothing at one of the places, or dead letters of other graphs
                only.
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
    """The dead-letter topic, and the places in it, that are asked for.

    Args:
        texts: each `PARTITION:OFFSET` in the dead-letter topic, or `TOPIC[PARTITION]@OFFSET` in
            it or in the topic whose records it takes, as lists and logs say it.
        topic: whose dead letters, where a place does not say so.

    Raises:
        BadSettings: one is neither, or they are of several topics.

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
    """The dead-letter topic of a topic, or itself if it is one."""
    return topic if is_dead_letter_topic(topic) else dead_letter_topic(topic)


def _whole_place(text: str, dead_letters: str) -> str:
    if _WHOLE.fullmatch(text):
        return text
    if found := _SHORT.fullmatch(text):
        return f"{dead_letters}[{found['partition']}]@{found['offset']}"
    raise BadSettings(
        f"{text!r} is not a position: give PARTITION:OFFSET, or {dead_letters}[PARTITION]@OFFSET"
    )
