"""Reads the memory topic, which is the only place where memory is kept."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import structlog

from stream_icd.errors import BadInput, BadSettings
from stream_icd.kafka.group.groups import positions
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import MEMORY, SNAPSHOTS
from stream_icd.messages.reader import MessageReader
from stream_icd.messages.records import outgoing
from stream_icd.wire.claim import without_claim
from stream_icd.wire.message import Headers, Message
from stream_icd.wire.states import (
    State,
    decode_state,
    encode_state,
    next_id_in,
    read_state_key,
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a snapshot is in the snapshots topic."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class MemoryTopic:
    """The states of one group of detectors.

    Attributes:
        group: the group; states of others are ignored.
        reader: reads states, also claimed ones.
    """

    settings: KafkaSettings
    group: str
    topic: str = MEMORY
    reader: MessageReader = field(default_factory=MessageReader)

    def read(
        self,
        before: Mapping[int, int],
        want: Callable[[str, int], bool],
        most_bytes: float = math.inf,
    ) -> tuple[dict[str, Record], set[str]]:
        """Return the newest state of each graph that is wanted, and the other graphs.

        Reads the whole topic, also transactions that are still open. After a crash, the topic may
        hold states of snapshots that will be detected again; these do not count.

        Args:
            before: for partitions of the snapshots topic, the next offset to be detected.
            want: whether the state of a graph in a partition of the snapshots topic is wanted.
            most_bytes: return at most this much, the latest states of all.

        Raises:
            TopicMissing, BrokerUnavailable: the topic cannot be read.
        """
        newest: dict[str, tuple[int, Record]] = {}
        others: set[str] = set()
        n_bytes = 0
        with open_reader(self.settings, self.topic, until="settled") as records:
            for record in records:
                graph = self._graph(record)
                if graph is None:
                    continue
                if record.value is None:  # an operator made the graph start anew
                    n_bytes -= _size(newest.pop(graph, None))
                    others.discard(graph)
                    continue
                place = place_in(record.headers)
                if place.offset >= before.get(place.partition, place.offset + 1):
                    continue
                if not want(graph, place.partition):
                    others.add(graph)
                elif graph not in newest or newest[graph][0] <= place.offset:
                    n_bytes -= _size(newest.pop(graph, None))
                    newest[graph] = place.offset, record
                    n_bytes += _size(newest[graph])
                while n_bytes > most_bytes:
                    oldest = next(iter(newest))
                    n_bytes -= _size(newest.pop(oldest))
                    others.add(oldest)
        found = {graph: record for graph, (_, record) in newest.items()}
        return found, others - found.keys()

    def forget(self, graph: str) -> None:
        """Make a graph start anew; its community ids are not used again.

        The new state has the place of the last snapshot that the group has read, which may be
        later than the last remembered one: so it is known which snapshots it is for.

        Raises:
            BadSettings: the group remembers nothing of the graph.
            TopicMissing, BrokerUnavailable: a topic cannot be read or written.
        """
        found, _ = self.read({}, lambda name, _: name == graph)
        if graph not in found:
            raise BadSettings(f"group {self.group} remembers nothing of graph {graph}")
        read = positions(self.settings, SNAPSHOTS, self.group)
        value = self.value(found[graph], max(read.values(), default=0))
        with Publisher(self.settings) as publisher:
            publisher.send(outgoing(self.topic, self._without_past(found[graph], value, read)))

    def value(self, record: Record, n_messages: int) -> bytes:
        """Return the encoded memory of a state; that of a graph that starts anew if it is lost.

        A value is lost if it does not even say which ids are used up.

        Args:
            n_messages: how many snapshots may have been detected before, if the state does not say.

        Raises:
            StoreUnreachable: the value is claimed, and the claim store does not answer; try again.
        """
        from stream_icd.memory.encoding import encode_memory, next_id_of
        from stream_icd.memory.memory import far_id, forgotten

        try:
            value = self.reader.decoded(record, decode_state).value
            if next_id_of(value) is not None:
                return value
            reason = "the value does not say which community ids are used"
        except BadInput as error:
            reason = str(error)
        log = structlog.get_logger()
        log.warning("memory cannot be read", place=record.place, reason=reason)
        next_id = next_id_in(record.headers)
        if next_id is None:
            next_id = far_id(max(n_messages, place_in(record.headers).offset + 1))
        return encode_memory(forgotten(next_id))

    def _without_past(self, record: Record, value: bytes, read: Mapping[int, int]) -> Message:
        """Return the state of a graph that starts anew after the snapshots that were `read`."""
        from stream_icd.memory.encoding import anew, next_id_of
        from stream_icd.memory.memory import BEFORE_ALL

        last, graph = place_in(record.headers), read_state_key(record.key)[1]
        place = "" if last.partition < 0 else f"{last.partition}@{last.offset}"
        if read.get(last.partition, 0) > last.offset + 1:
            place = f"{last.partition}@{read[last.partition] - 1}"
        try:
            state = decode_state(record.key, value, without_claim(record.headers))
        except BadInput:  # the value says which ids are used up, whatever the headers say
            state = State(self.group, graph, "lost", BEFORE_ALL, "lost", "", place, value)
        value = anew(value)
        return encode_state(
            replace(
                state,
                window=BEFORE_ALL,
                snapshot_place=place,
                value=value,
                next_id=next_id_of(value),
            )
        )

    def _graph(self, record: Record) -> str | None:
        try:
            group, graph = read_state_key(record.key, self.reader.limits)
        except BadInput as error:
            log = structlog.get_logger()
            log.warning("memory cannot be read", place=record.place, reason=str(error))
            return None
        return graph if group == self.group else None


def _size(state: tuple[int, Record] | None) -> int:
    return 0 if state is None else len(state[1].value or b"")


def place_in(headers: Headers) -> Place:
    """Return the place of a state's snapshot; in no partition if the headers do not say it."""
    text = dict(headers).get("icd_snapshot_place", b"").decode(errors="replace")
    partition, _, offset = text.partition("@")
    if not (partition.isdecimal() and offset.isdecimal() and len(text) < 40):
        return Place(-1, -1)
    return Place(int(partition), int(offset))
