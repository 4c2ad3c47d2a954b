"""The memory of graphs in RAM: counted without adding it up, and freed above its limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest

from stream_icd.execution.budget import MemorySettings
from stream_icd.kafka.record import Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.workers.memories import Memories, MemoryTopic


def record(graph: str, partition: int = 0, offset: int = 0) -> Record:
    return Record("snapshots", partition, offset, 0, graph.encode(), b"", ())


def test_bytes_are_those_of_what_is_kept() -> None:
    memories = Memories(MemoryTopic(KafkaSettings(), "g"), MemorySettings(cache_bytes=30))
    sizes = []
    for number, (graph, size) in enumerate([("a", 10), ("b", 20), ("a", 15), ("c", 5), ("d", 5)]):
        memories.begin([record(graph)])
        memories.put(graph, partition=number % 2, value=b"x" * size)
        sizes.append(memories.n_bytes)
    # b is unused for longest when 35 bytes are too many
    assert sizes == [10, 30, 35, 20, 25]
    assert memories.get("b") is None
    memories.assigned([1])
    assert (memories.n_bytes, memories.get("c")) == (20, None)


@dataclass
class ReadTopic:
    """A memory topic in which each graph has states at some places; how often it was read."""

    states: dict[str, list[tuple[int, int]]]
    reads: int = 0
    group: str = field(default="g")

    def read(
        self, before: Mapping[int, int], want: Callable[[str, int], bool], _most_bytes: float = 0
    ) -> tuple[dict[str, Record], set[str]]:
        self.reads += 1
        found, others = {}, set()
        for graph, places in self.states.items():
            for partition, offset in places:
                if offset >= before.get(partition, offset + 1):
                    continue
                if not want(graph, partition):
                    others.add(graph)
                    continue
                place = f"{partition}@{offset}".encode()
                headers = (("icd_snapshot_place", place),)
                found[graph] = Record("memory", 0, 0, 0, graph.encode(), place, headers)
        return found, others

    def value(self, record: Record, _n_messages: int) -> bytes:
        return record.value or b""


def memories_of(topic: ReadTopic) -> Memories:
    memories = Memories(topic, MemorySettings())  # type: ignore[arg-type]
    memories.assigned([0, 1, 2])
    return memories


def test_the_topic_is_read_once_for_all_partitions_whenever_their_records_come() -> None:
    topic = ReadTopic({"a": [(0, 3)], "b": [(1, 5)], "c": [(2, 1)]})
    memories = memories_of(topic)
    for graph, partition, offset in (("a", 0, 4), ("b", 1, 6), ("c", 2, 2), ("a", 0, 5)):
        memories.begin([record(graph, partition, offset)])
    assert topic.reads == 1
    assert [memories.get(graph) for graph in "abc"] == [b"0@3", b"1@5", b"2@1"]


@pytest.mark.parametrize(("places", "expected"), [([(1, 5), (1, 8)], b"1@5"), ([(1, 8)], None)])
def test_a_state_of_a_window_that_comes_again_is_not_used(
    places: list[tuple[int, int]], expected: bytes | None
) -> None:
    topic = ReadTopic({"a": [(0, 3)], "b": places})
    memories = memories_of(topic)
    memories.begin([record("a", 0, 4)])
    memories.put("a", 0, b"newer than what is in the topic")
    memories.begin([record("a", 0, 5), record("b", 1, 8)])  # 8 was not committed
    assert topic.reads == 2
    assert memories.get("b") == expected
    assert memories.get("a") == b"newer than what is in the topic"
