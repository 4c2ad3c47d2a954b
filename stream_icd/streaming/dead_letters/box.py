"""A dead-letter topic: which records it holds and why, choices of them, and their retries.

A record has several dead letters if several workers could not read it, or one failed repeatedly.
Each is resent once: the topic is the only state. A resent dead letter is marked by a later record
in its partition, so the whole topic must be read to find those that were not resent.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from operator import attrgetter
from threading import Event
from typing import Literal, Self

from stream_icd.core import errors
from stream_icd.core.errors import (
    BadSettings,
    DeliveryFailed,
    MessageTooLarge,
    NameTaken,
    TopicMissing,
)
from stream_icd.core.printable import did_you_mean, listed, shown
from stream_icd.kafka.connect import recognise
from stream_icd.kafka.delivery.delivery import Sink, open_sink, resolve
from stream_icd.kafka.messages.claims import ClaimCheck
from stream_icd.kafka.messages.pacing import Tempo, paced
from stream_icd.kafka.messages.records import graph_name
from stream_icd.kafka.messages.topic_range import TopicRange
from stream_icd.kafka.port import is_dead_letter_topic
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import MEMORY, describe_topic
from stream_icd.kafka.waiting import Stop
from stream_icd.streaming.dead_letters.letters import DeadLetter, Retried

UNKNOWN = "unknown"
"""The exception of a dead letter that names none, in lists and choices."""

_Sendable = tuple[DeadLetter, OutgoingRecord]
"""A dead letter, and the record to send for it."""

# A transaction ends at this number of records, or with the record that reaches the byte limit.
_TOGETHER = 50
_TOGETHER_BYTES = 16 * 1024 * 1024


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
    by_place = {letter.place: letter for letter in letters}
    if not by_place:
        return
    (topic,) = {letter.topic for letter in letters}
    with open_reader(settings, topic, until="end", stop=stop) as records:
        for record in records:
            if record.place in by_place:
                letter = by_place.pop(record.place)
                yield letter, replace(record, headers=letter.headers)
            if not by_place:  # the topic may hold millions of records after the last one
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

    def _check(self, kind: str, chosen: str | None, names: Collection[str]) -> None:
        if chosen is not None and names and chosen not in names:
            raise BadSettings(
                f"{self.part.topic} holds no dead letter of {kind} {chosen}; "
                f"it holds those of {listed(sorted(names))}{did_you_mean(chosen, names)}"
            )


@dataclass(frozen=True, slots=True)
class ResendPlan:
    """The records to send, each with its target topic; and how many have been resent before."""

    records: Sequence[tuple[BadRecord, str]]
    already: int

    @classmethod
    def of(
        cls,
        box: DeadLetterBox,
        choice: DeadLetterChoice,
        *,
        to: str | None = None,
        again: bool = False,
    ) -> Self:
        """Return which records to send, and where; each once, however many dead letters it has.

        Args:
            to: a topic for all of them; by default each is sent to the topic it came from.
            again: include records that have been resent before, whether they were dead-lettered
                again or not.

        Raises:
            BadSettings: dead letters exist, but none is selected; or one does not say where it came
                from, or would be sent to the memory topic, or to a topic of dead letters.
        """
        if to is not None and (not to or is_dead_letter_topic(to)):
            raise BadSettings(
                f"--to-topic {to!r}: give a topic that workers read. A topic of dead letters is "
                "chosen by --topic"
            )
        chosen = choice.records(box)
        if box.letters and not chosen:
            raise BadSettings(
                f"{choice.part.topic} holds {len(box.letters):,} dead letters, but none that "
                "matches all of --graph, --exception, --from and --to"
            )
        fresh = [record for record in chosen if again or not record.was_sent_again]
        plan = cls(
            [(record, to or _origin(record.first)) for record in fresh], len(chosen) - len(fresh)
        )
        if MEMORY in plan.targets:  # a compacted topic, in which the record sent last counts
            raise BadSettings(
                f"nothing is sent to {MEMORY}: it keeps the last memory of each graph, and "
                "detectors would continue with the older one. Without this memory in the archive, "
                "a replay detects the windows before its part again"
            )
        return plan

    @property
    def targets(self) -> Counter[str]:
        return Counter(target for _, target in self.records)

    def check_targets(self, settings: KafkaSettings) -> None:
        """Raise TopicMissing, with the number of its records, if a target does not exist."""
        for target, count in self.targets.items():
            try:
                describe_topic(settings, target)
            except TopicMissing as error:
                raise TopicMissing(
                    f"{count} records belong to {target}, and {error}; or send them to another "
                    "topic (--to-topic)"
                ) from error

    def send(
        self,
        settings: KafkaSettings,
        sink: Sink,
        tempo: Tempo,
        clock: Callable[[], datetime],
        stop: Event,
        on_sent: Callable[[int], None] = lambda _: None,
    ) -> _Retry:
        """Send the records, in the order of the topic, each with its marker.

        On a broker with transactions both become visible together, or neither; on others the marker
        follows, so that a killed retry may send up to `_TOGETHER` records twice.

        `on_sent` is called with the number of records just sent.

        Raises:
            DeliveryFailed, BrokerUnavailable, StoreUnreachable, StoreUnwritable: sent records are
                marked; run it again.
            NameTaken: another retry of the topic has taken over.
        """
        done = _Retry()
        # Records of a transaction become visible with its end: at a low rate, after a second.
        most = _TOGETHER if tempo.rate is None else max(1, min(_TOGETHER, int(tempo.rate)))
        sendable = _sendable(settings, self, sink, done, stop)
        due = paced(sendable, lambda sent: sent[0].at, tempo, time.monotonic, stop.wait)
        for batch in _together(due, most):
            if stop.is_set():  # between batches only, so that each record has its marker
                break
            _publish(sink, batch, clock())
            done.sent += len(batch)
            on_sent(len(batch))
        return done


def open_retry_sink(settings: KafkaSettings, topic: str) -> Sink:
    """Return the sink for a retry of the dead-letter topic `topic`, one retry at a time.

    On a broker with transactions, this call aborts unfinished transactions of other retries of this
    topic, and those retries can commit nothing more. So read the topic afterwards ("settled");
    records without a marker have not been sent.
    """
    delivery = resolve(settings, "auto", recognise(settings))
    return open_sink(settings, delivery, "stream-icd-retry", topic)


@dataclass(slots=True)
class _Retry:
    sent: int = 0
    refused: dict[str, str] = field(default_factory=dict)  # why, by the dead letter's place


def _sendable(
    settings: KafkaSettings, plan: ResendPlan, sink: Sink, done: _Retry, stop: Event
) -> Iterator[_Sendable]:
    """Yield the records to send; note and skip those that their topic cannot take."""
    claim_check = ClaimCheck(settings)
    planned = {record.first.place: (record, to) for record, to in plan.records}
    for letter, came in read_again(settings, [record.first for record, _ in plan.records], stop):
        bad, target = planned[letter.place]
        try:
            record = claim_check(letter.resent(came, target, bad.attempt))
            # Before it is in a batch: a refusal there would end the others' transaction, too.
            sink.check(record)
        except MessageTooLarge as error:
            done.refused[letter.place] = str(error)
        else:
            yield letter, record


def _together(sendable: Iterable[_Sendable], most: int) -> Iterator[list[_Sendable]]:
    batch: list[_Sendable] = []
    for letter, record in sendable:
        batch.append((letter, record))
        if len(batch) == most or sum(sent.size for _, sent in batch) >= _TOGETHER_BYTES:
            yield batch
            batch = []
    if batch:
        yield batch


def _publish(sink: Sink, batch: Sequence[_Sendable], at: datetime) -> None:
    records = [record for _, record in batch]
    markers = [letter.marker(record.topic, at) for letter, record in batch]
    try:
        # Markers last: after a crash between both, records come twice, and none is passed over.
        for step in [[*records, *markers]] if sink.atomic else [records, markers]:
            sink.publish(step, {}, None)
    except NameTaken as error:
        raise NameTaken(
            f"another retry of {batch[0][0].topic} has taken over, and sends the rest"
        ) from error
    except DeliveryFailed as error:
        raise DeliveryFailed(
            f"{error}. What was sent is marked: run the command again to send the rest"
        ) from error


def _origin(letter: DeadLetter) -> str:
    try:
        return letter.added["icd_dlq_topic"]
    except KeyError as error:
        raise BadSettings(
            f"{letter.place} does not name the topic it came from: give one with --to-topic"
        ) from error
