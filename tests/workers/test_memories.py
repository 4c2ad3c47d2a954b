"""The memory of graphs in RAM: counted without adding it up, and freed above its limit."""

from __future__ import annotations

from stream_icd.kafka.record import Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.workers.memories import Memories
from stream_icd.workers.memory_settings import MemorySettings
from stream_icd.workers.memory_topic import MemoryTopic


def record(graph: str) -> Record:
    return Record("snapshots", 0, 0, 0, graph.encode(), b"", ())


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
