"""The memory of each graph that a detector works on."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import structlog

from stream_icd.errors import BrokerUnavailable, StoreUnreachable
from stream_icd.kafka.record import Headers, Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import MEMORY, describe_topic
from stream_icd.messages.reader import MessageReader
from stream_icd.tracing.headers import context_of
from stream_icd.workers.memory_settings import MemorySettings
from stream_icd.workers.memory_topic import MemoryTopic, place_in

Result = TypeVar("Result")

RETRY_S = 1.0


def open_memories(kafka: KafkaSettings, group: str, topic: str = MEMORY) -> Memories:
    """Return the memories of a group of detectors; raise TopicMissing without the topic."""
    describe_topic(kafka, topic)
    return Memories(MemoryTopic(kafka, group, topic, MessageReader()))


@dataclass(frozen=True, slots=True)
class _Kept:
    """The encoded memory of a graph after the window at `offset`, if it was read.

    Attributes:
        batch: the last batch with a window of the graph.
    """

    value: bytes
    partition: int
    batch: int
    offset: int = -1


class Memories:
    """The memory of each graph after its last window, encoded.

    It is read from the memory topic when a partition is assigned, and kept in RAM up to a limit. A
    graph above the limit is read again when it is needed.

    Attributes:
        n_bytes: encoded memory in RAM.
        n_restored: how many states have been read.
    """

    def __init__(self, topic: MemoryTopic, settings: MemorySettings | None = None) -> None:
        self._topic = topic
        self._most_bytes = (settings or MemorySettings()).cache_bytes
        self._kept: OrderedDict[str, _Kept] = OrderedDict()  # the longest unused first
        self._unread: set[str] = set()  # graphs with a state in the topic, but not in RAM
        self._headers: dict[str, Headers] = {}  # of states that were read, with a trace context
        self._new: set[int] = set()  # partitions whose states must be read
        self._early: set[int] = set()  # those whose states were read before the first record came
        self._batch = 0
        self.n_bytes = 0
        self.n_restored = 0

    def assigned(self, partitions: Collection[int]) -> None:
        """Forget the graphs of these partitions, and read them again before they are needed."""
        self._new.update(partitions)
        self._early.difference_update(partitions)
        for graph in [name for name, one in self._kept.items() if one.partition in partitions]:
            self._drop(graph)

    def begin(self, records: Sequence[Record]) -> None:
        """Make the memory of all graphs of a batch available."""
        self._batch += 1
        first = {record.partition: record.offset for record in reversed(records)}
        graphs = {(record.key or b"").decode(errors="replace") for record in records}
        self.assigned(self._misread(first))
        if self._new & first.keys():  # read all at once: the topic is read whole
            new, self._new = self._new, set()
            self._restore(first, lambda _, partition: partition in new, self._most_bytes)
            self._early |= new
        self._early -= first.keys()
        if missing := graphs & self._unread:
            self._restore(first, lambda graph, _: graph in missing)
        for graph in filter(self._kept.__contains__, graphs):
            kept = self._kept[graph]
            self.put(graph, kept.partition, kept.value)
        self._evict()

    def get(self, graph: str) -> bytes | None:
        kept = self._kept.get(graph)
        return None if kept is None else kept.value

    def headers(self, graph: str) -> Headers:
        """Return the headers of the state that the memory of a graph was last read from."""
        return self._headers.get(graph, ())

    def put(self, graph: str, partition: int, value: bytes) -> None:
        """Set the memory of a graph after a window in this partition."""
        self._keep(graph, _Kept(value, partition, self._batch))
        self._kept.move_to_end(graph)
        self._unread.discard(graph)

    def _misread(self, first: Mapping[int, int]) -> set[int]:
        """The partitions of which a state was read early whose window is to be detected again."""
        read = {p: at for p, at in first.items() if p in self._early}
        kept = self._kept.values() if read else ()
        return {one.partition for one in kept if one.offset >= read.get(one.partition, math.inf)}

    def _keep(self, graph: str, kept: _Kept) -> None:
        self._drop(graph)
        self._kept[graph] = kept
        self.n_bytes += len(kept.value)

    def _drop(self, graph: str) -> None:
        if graph in self._kept:
            self.n_bytes -= len(self._kept.pop(graph).value)

    def _restore(
        self,
        first: dict[int, int],
        want: Callable[[str, int], bool],
        most_bytes: float = math.inf,
    ) -> None:
        found, others = self._insist(lambda: self._topic.read(first, want, most_bytes))
        self._unread = (self._unread | others) - found.keys() - self._kept.keys()
        for graph, record in found.items():
            value = self._insist(partial(self._topic.value, record, max(first.values())))
            place = place_in(record.headers)
            self._keep(graph, _Kept(value, place.partition, batch=0, offset=place.offset))
            self._headers.pop(graph, None)
            if context_of(record.headers):
                self._headers[graph] = record.headers
            self.n_restored += 1
        structlog.get_logger().info("memory restored", graphs=len(found), bytes=self.n_bytes)

    def _evict(self) -> None:
        """Free RAM above the limit; windows of the last two batches may not be in the topic yet."""
        while self.n_bytes > self._most_bytes:
            graph, oldest = next(iter(self._kept.items()))
            if oldest.batch >= self._batch - 1:
                return
            self._drop(graph)
            self._unread.add(graph)

    def _insist(self, work: Callable[[], Result]) -> Result:
        while True:
            try:
                return work()
            except (BrokerUnavailable, StoreUnreachable) as error:
                structlog.get_logger().warning("memory is not available", reason=str(error))
                time.sleep(RETRY_S)
