"""The memory of each graph that a detector works on, and the topic that it is kept in."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, Self, TypeVar

import structlog

from stream_icd.core.errors import (
    BadInput,
    BadMemory,
    BadSettings,
    BrokerUnavailable,
    StoreUnreachable,
)
from stream_icd.core.headers import Headers
from stream_icd.core.printable import did_you_mean, listed
from stream_icd.kafka.messages.claims import Claim, MessageReader
from stream_icd.kafka.messages.records import outgoing
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import MEMORY, SNAPSHOTS, describe_topic, positions
from stream_icd.kafka.tracing import context_of
from stream_icd.kafka.waiting import Outage, insist
from stream_icd.streaming.execution.budget import MemorySettings
from stream_icd.wire.message import Message, place_in_topic
from stream_icd.wire.states import (
    FIRST,
    MemoryState,
    decode_state,
    encode_state,
    next_id_in,
    read_state_key,
)

_Result = TypeVar("_Result")


class _SnapshotPlace(NamedTuple):
    """Where a snapshot is in the snapshots topic."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class _MemoryTopic:
    """The states of one group of detectors; those of others are ignored."""

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
        hold states of snapshots that will be detected again; these do not count. If the group was
        moved back to the middle of a graph, and no earlier state is left, one of them is returned
        without its value: the graph starts anew, and its ids are used up.

        Args:
            before: for partitions of the snapshots topic, the next offset to be detected.
            want: whether a graph in a partition of the snapshots topic is wanted.
            most_bytes: return at most this much, the latest states of all.
        """
        newest: dict[str, Record] = {}
        later: dict[str, Record | None] = {}  # of graphs that come again; None: from their first on
        unwanted: set[str] = set()
        n_bytes = 0
        with open_reader(self.settings, self.topic, until="settled") as records:
            for record in records:
                graph = self._graph(record)
                if graph is None:
                    continue
                if record.value is None:  # an operator made the graph start anew
                    n_bytes -= self._size(newest.pop(graph, None))
                    later.pop(graph, None)
                    unwanted.discard(graph)
                    continue
                partition, offset = place_in(record.headers)
                if offset >= (next_offset := before.get(partition, offset + 1)):
                    # The ids in it are used up all the same: results with them may have been read.
                    begins = next_offset == 0 or FIRST in dict(record.headers)
                    used_up = replace(record, value=None)
                    highest = later.setdefault(graph, None if begins else used_up)
                    next_id = next_id_in(record.headers) or 0
                    if highest is not None and next_id > (next_id_in(highest.headers) or 0):
                        later[graph] = used_up
                    continue
                if not want(graph, partition):
                    unwanted.add(graph)
                elif graph not in newest or _is_later(record, newest[graph]):
                    # Taken out first, so that the graph is the last that makes room.
                    n_bytes += self._size(record) - self._size(newest.pop(graph, None))
                    newest[graph] = record
                while n_bytes > most_bytes:
                    oldest = next(iter(newest))
                    n_bytes -= self._size(newest.pop(oldest))
                    unwanted.add(oldest)
        for graph in later.keys() - newest.keys() - unwanted:
            if (state := later[graph]) and want(graph, place_in(state.headers).partition):
                newest[graph] = state
        return newest, unwanted - newest.keys()

    def value(self, record: Record, n_messages: int) -> bytes:
        """Return the encoded memory of a state; that of a graph that starts anew if it is lost.

        A value is lost if it does not say which ids are used up. Then `n_messages`, the number of
        snapshots that may have been detected before, says it. The claim store may raise
        StoreUnreachable; try again.
        """
        from stream_icd.methods.memory.encoding import encode_memory, next_id_of
        from stream_icd.methods.memory.memory import Memory, far_id

        try:
            if record.value is None:
                raise BadMemory("it is of a window that comes again, and no earlier one is left")
            value = self.reader.decoded(record, decode_state).value
            if next_id_of(value) is not None:
                return value
            _warn(record, "the value does not say which community ids are used")
        except BadInput as error:
            _warn(record, str(error))
        next_id = next_id_in(record.headers)
        if next_id is None:
            next_id = far_id(max(n_messages, place_in(record.headers).offset + 1))
        return encode_memory(Memory.forgotten(next_id))

    def _graph(self, record: Record) -> str | None:
        try:
            group, graph = read_state_key(record.key, self.reader.limits)
        except BadInput as error:
            _warn(record, str(error))
            return None
        return graph if group == self.group else None

    def _size(self, state: Record | None) -> int:
        return 0 if state is None else self.reader.size_of(state)


def _without_past(record: Record, value: bytes, read: Mapping[int, int]) -> Message:
    """Return the state of a graph that starts anew after the snapshots that were `read`."""
    from stream_icd.methods.memory import encoding
    from stream_icd.methods.memory.memory import BEFORE_ALL

    last, (group, graph) = place_in(record.headers), read_state_key(record.key)
    offset = max(last.offset, read.get(last.partition, 0) - 1)
    place = "" if last.partition < 0 else f"{last.partition}@{offset}"
    try:
        state = decode_state(record.key, value, Claim.left_out(record.headers))
    except BadInput:  # the value says which ids are used up, whatever the headers say
        state = MemoryState(group, graph, "lost", BEFORE_ALL, "lost", "", place, value)
    value = encoding.anew(value)
    next_id = encoding.next_id_of(value)
    return encode_state(
        replace(state, window=BEFORE_ALL, snapshot_place=place, value=value, next_id=next_id)
    )


def _warn(state: Record, reason: str) -> None:
    structlog.get_logger().warning("memory cannot be read", place=state.place, reason=reason)


def _is_later(state: Record, before: Record) -> bool:
    """Whether a state is of a later window than the one that was read before it. A state of another
    partition always is: partitions were added, and the graph went to one of them."""
    place, place_before = place_in(state.headers), place_in(before.headers)
    return place.partition != place_before.partition or place.offset >= place_before.offset


def place_in(headers: Headers) -> _SnapshotPlace:
    """Return the place of a state's snapshot; -1 and -1 if the headers do not say it."""
    text = dict(headers).get("icd_snapshot_place", b"").decode(errors="replace")
    return _SnapshotPlace(*(place_in_topic(text) or (-1, -1)))


@dataclass(frozen=True, slots=True)
class _InRam:
    """The encoded memory of a graph."""

    value: bytes
    partition: int
    batch: int  # the last one with a window of the graph
    offset: int = -1  # that of the window before; -1 once a batch has used it
    headers: Headers = ()  # of the state that it was read from, if they have a trace context


class Memories:
    """The memory of each graph after its last window, encoded.

    It is read from the memory topic when a partition is assigned, and kept in RAM up to a limit;
    above it, a graph is read again when it is needed.
    """

    def __init__(
        self,
        kafka: KafkaSettings,
        group: str,
        topic: str = MEMORY,
        settings: MemorySettings | None = None,
    ) -> None:
        self._topic = _MemoryTopic(kafka, group, topic)
        self._most_bytes = (settings or MemorySettings()).cache_bytes
        self._in_ram: dict[str, _InRam] = {}  # the longest unused first
        self._unread: set[str] = set()  # graphs with a state in the topic, but not in RAM
        self._new: set[int] = set()  # partitions whose states must be read
        self._early: set[int] = set()  # those whose states were read before the first record came
        self._batch = 0
        self.n_bytes = 0  # encoded memory in RAM
        self.n_restored = 0  # states that have been read

    @classmethod
    def open(cls, kafka: KafkaSettings, group: str, topic: str = MEMORY) -> Self:
        """Return the memories of a group of detectors; raise TopicMissing without the topic."""
        describe_topic(kafka, topic)
        return cls(kafka, group, topic)

    def forget(self, graph: str) -> None:
        """Make a graph start anew, in the topic; its community ids are not used again.

        The new state has the place of the last snapshot that the group has read, which may be
        later than the last remembered one: so it is known which snapshots it is for.

        Raises:
            BadSettings: the group remembers nothing of the graph; the message names those it does.
        """
        topic = self._topic
        states, other_graphs = topic.read({}, lambda name, _: name == graph)
        if graph not in states:
            remembered = listed(sorted(other_graphs)) or "none: name another --group"
            raise BadSettings(
                f"group {topic.group} remembers nothing of graph {graph}; it remembers {remembered}"
                f"{did_you_mean(graph, other_graphs)}"
            )
        read = positions(topic.settings, SNAPSHOTS, topic.group)
        value = topic.value(states[graph], max(read.values(), default=0))
        with Publisher(topic.settings) as publisher:
            publisher.send(outgoing(topic.topic, _without_past(states[graph], value, read)))

    def assigned(self, partitions: Collection[int]) -> None:
        """Forget the graphs of these partitions, and read them again before they are needed."""
        self._new.update(partitions)
        self._early.difference_update(partitions)
        for graph in [name for name, ram in self._in_ram.items() if ram.partition in partitions]:
            self._drop(graph)

    def begin(self, records: Sequence[Record]) -> None:
        """Make the memory of all graphs of a batch available."""
        self._batch += 1
        # The first record of a partition says which states count: those of windows before it.
        first = {record.partition: record.offset for record in reversed(records)}
        graphs = {record.key_text for record in records}
        self.assigned(self._misread(first))
        if self._new & first.keys():  # read all at once: the topic is read whole
            new, self._new = self._new, set()
            self._restore(first, lambda _, partition: partition in new, self._most_bytes)
            self._early |= new
        self._early -= first.keys()
        # After the partitions, whose graphs may be above the limit, too.
        if missing := graphs & self._unread:
            self._restore(first, lambda graph, _: graph in missing)
        for graph in graphs & self._in_ram.keys():
            self._keep(graph, replace(self._in_ram[graph], batch=self._batch, offset=-1))
        # Last: the graphs of this batch are marked, so that none of them makes room.
        self._evict()

    def get(self, graph: str) -> bytes | None:
        return self._in_ram[graph].value if graph in self._in_ram else None

    def headers(self, graph: str) -> Headers:
        """Return the headers of the state that the memory of a graph was read from."""
        return self._in_ram[graph].headers if graph in self._in_ram else ()

    def put(self, graph: str, partition: int, value: bytes) -> None:
        """Set the memory of a graph after a window in this partition."""
        self._keep(graph, _InRam(value, partition, self._batch))
        # Or the next batch would read the topic, which does not have this state yet.
        self._unread.discard(graph)

    def _misread(self, first: Mapping[int, int]) -> set[int]:
        """Return the partitions whose states were read too early: the window of one of them is to
        be detected again."""
        offsets = {partition: first[partition] for partition in first if partition in self._early}
        return {
            ram.partition
            for ram in (self._in_ram.values() if offsets else ())
            if ram.offset >= offsets.get(ram.partition, math.inf)
        }

    def _keep(self, graph: str, ram: _InRam) -> None:
        self._drop(graph)  # to the end of the dictionary: used last
        self._in_ram[graph] = ram
        self.n_bytes += len(ram.value)

    def _drop(self, graph: str) -> None:
        if graph in self._in_ram:
            self.n_bytes -= len(self._in_ram.pop(graph).value)

    def _restore(
        self, first: dict[int, int], want: Callable[[str, int], bool], most_bytes: float = math.inf
    ) -> None:
        states, unwanted = self._insist(lambda: self._topic.read(first, want, most_bytes))
        self._unread = (self._unread | unwanted) - states.keys() - self._in_ram.keys()
        for graph, record in states.items():
            value = self._insist(partial(self._topic.value, record, max(first.values())))
            partition, offset = place_in(record.headers)
            headers = record.headers if context_of(record.headers) else ()
            self._keep(graph, _InRam(value, partition, 0, offset, headers))
        self.n_restored += len(states)
        structlog.get_logger().info("memory restored", graphs=len(states), bytes=self.n_bytes)

    def _evict(self) -> None:
        """Free RAM above the limit; windows of the last two batches may not be in the topic yet."""
        while self.n_bytes > self._most_bytes:
            graph, oldest = next(iter(self._in_ram.items()))
            if oldest.batch >= self._batch - 1:
                return
            self._drop(graph)
            self._unread.add(graph)

    def _insist(self, work: Callable[[], _Result]) -> _Result:
        outage = Outage(of="memory of graphs")
        return insist(work, outage, threading.Event(), (BrokerUnavailable, StoreUnreachable))
