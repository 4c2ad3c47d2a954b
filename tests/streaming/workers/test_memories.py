"""The memory of graphs in RAM: counted without adding it up, and freed above its limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from stream_icd.core.snapshot import Window
from stream_icd.kafka.messages.claims import ClaimSettings
from stream_icd.kafka.messages.records import outgoing
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import create_topics
from stream_icd.streaming.execution.budget import MemorySettings
from stream_icd.streaming.workers.memories import Memories, MemoryTopic, place_in
from stream_icd.wire.states import MemoryState, encode_state
from tests.testbed.brokers import Broker
from tests.testbed.streams import as_claim, publish


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


DAY = Window(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC))


def state(topic: str, graph: str, place: str, value: bytes = b"memory") -> OutgoingRecord:
    return outgoing(
        topic, encode_state(MemoryState("g", graph, "s", DAY, "m@1", "r", place, value))
    )


@pytest.fixture
def memory_topic(memory: Broker, topic_name: str) -> MemoryTopic:
    create_topics(memory.settings(), [TopicSpec(topic_name)])
    return MemoryTopic(memory.settings(), "g", topic_name)


def everything(graph: str, partition: int) -> bool:  # noqa: ARG001
    return True


def test_the_last_state_counts_though_its_graph_went_to_another_partition(
    memory: Broker, memory_topic: MemoryTopic
) -> None:
    places = ["0@7", "0@8", "0@7", "5@1", "5@2"]  # partitions were added after the third one
    publish(memory, [state(memory_topic.topic, "a", place) for place in places[:3]])
    newest, _ = memory_topic.read({}, everything)
    assert place_in(newest["a"].headers) == (0, 8)
    publish(memory, [state(memory_topic.topic, "a", place) for place in places[3:]])
    newest, _ = memory_topic.read({}, everything)
    assert place_in(newest["a"].headers) == (5, 2)


def test_a_state_that_is_claimed_counts_with_its_size(
    memory: Broker, memory_topic: MemoryTopic, tmp_path: Path
) -> None:
    claims = ClaimSettings(uri=str(tmp_path))
    sent = [state(memory_topic.topic, graph, "0@1", b"x" * 100) for graph in "abc"]
    publish(memory, [as_claim(record, claims) for record in sent])
    newest, others = memory_topic.read({}, everything, most_bytes=250)
    assert (list(newest), others) == (["b", "c"], {"a"})


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
