"""A memory that was not decoded again is the one that its bytes hold, bit by bit."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

from stream_icd.core.snapshot import Snapshot, snapshot_from_pairs
from stream_icd.kafka.messages.records import Processed
from stream_icd.methods.memory.encoding import decode_memory
from stream_icd.methods.memory.memory import BEFORE_ALL, Memory
from stream_icd.methods.memory.recent import _A_GRAPH, _MOST_KEPT, RecentMemories
from stream_icd.streaming.detection import snapshot as detection
from stream_icd.streaming.detection.record import RecordDetection
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.execution.work import Relay
from tests.methods.memory.streams import bits_of
from tests.streaming.workers.remembered import records
from tests.testbed.drifting import remembering_model, stream


def coming_and_going(count: int) -> list[Snapshot]:
    """Windows that lack other nodes each."""
    rng, windows = np.random.default_rng(0), []
    for snapshot in stream("g", count):
        ends = snapshot.nodes.to_numpy()[snapshot.edges]
        there = rng.random(snapshot.n_nodes) < 0.9
        ends = ends[:, there[snapshot.edges].all(axis=0)]
        windows.append(
            snapshot_from_pairs(*ends, graph="g", id=snapshot.id, window=snapshot.window)
        )
    return windows


def states(work: RecordDetection) -> list[bytes]:
    """The encoded memory after each window, found with one relay."""
    relay, found = Relay(), []
    for record in records(coming_and_going(12)):
        outcome = work(record, relay)
        assert isinstance(outcome, Processed)
        assert outcome.state is not None
        found.append(outcome.state.value or b"")
    return found


def work(recent: RecentMemories) -> RecordDetection:
    settings = DetectSettings(memory="auto", memory_topic="memory", threads=1)
    return replace(RecordDetection(remembering_model(), settings), recent=recent)


def test_what_is_kept_is_what_would_be_decoded() -> None:
    kept: list[Memory] = []

    class Noting(RecentMemories):
        def put(self, graph: str, encoded: bytes, memory: Memory) -> None:
            again = decode_memory(encoded)
            assert memory.nodes.equals(again.nodes)
            assert bits_of(memory) == bits_of(again)
            kept.append(memory)
            super().put(graph, encoded, memory)

    with mock.patch.object(detection, "decode_memory", side_effect=AssertionError):
        found = states(work(Noting()))  # so none is decoded
    assert found == states(work(RecentMemories(most_kept=0)))
    assert any(one.since > 1 for one in kept)


@pytest.mark.parametrize("room", [1.5, 2.5])
def test_the_longest_unused_are_dropped(room: float) -> None:
    encoded = states(work(RecentMemories()))[-1]
    memory = decode_memory(encoded)
    size = _A_GRAPH + len(encoded) + memory.n_bytes
    recent = RecentMemories(most_kept=int(room * size))
    for name in ("a", "b", "c", "c"):
        recent.put(name, encoded, memory)
    kept = [name for name in ("a", "b", "c") if recent.get(name, encoded) is memory]
    assert kept == (["c"] if room < 2 else ["b", "c"])
    assert recent.get("c", encoded[1:]) is None


def test_graphs_without_edges_are_dropped_too_and_ids_count_with_their_bytes() -> None:
    for memory in (
        Memory.forgotten(0),
        Memory.empty(BEFORE_ALL, pa.array(["a" * 4000, "b" * 4000]), 0),
    ):
        recent = RecentMemories()
        assert (memory.n_bytes > 8000) == (memory.n_nodes > 0)
        for number in range(_MOST_KEPT // (_A_GRAPH + memory.n_bytes) + 1):
            recent.put(str(number), b"", memory)
        assert recent.get("0", b"") is None
        assert recent.get("1", b"") is memory
