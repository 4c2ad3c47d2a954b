"""Detection on a stream: nodes that come and go, gaps, late windows, models that change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest

from stream_icd.core.errors import BadInput, BadSettings
from stream_icd.core.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.core.times import missed_windows
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.icd.presets import preset
from stream_icd.methods.memory.detect import Remembered, detect_remembering
from stream_icd.methods.memory.encoding import MOST_READ_IDS, decode_memory, encode_memory  # type: ignore[attr-defined]
from stream_icd.methods.memory.nodes import cut
from stream_icd.methods.memory.smoothing import detect_smoothed
from stream_icd.methods.model import Model
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_drifting_lfr
from stream_icd.registry.find import open_model
from stream_icd.sources.generated import planted_snapshots

HOUR = timedelta(hours=1)
START = datetime(2026, 1, 1, tzinfo=UTC)
BELIEFS = BpParameters(resolution=2.0, mixing=0.3, iterations=1)
BOTH = pytest.mark.parametrize(
    "parameters", [BELIEFS, BpParameters()], ids=["beliefs", "modularity"]
)


def model(parameters: BpParameters) -> Model:
    return Model(preset("L(f,0.3)"), parameters)


def window(number: float) -> Window:
    return Window(START + number * HOUR, START + (number + 1) * HOUR)


def snapshot(number: float, *groups: Sequence[int] | Sequence[str]) -> Snapshot:
    """Each group of nodes a clique, in window `number`."""
    pairs = [pair for group in groups for pair in combinations(group, 2)]
    src, dst = zip(*pairs, strict=True)
    return snapshot_from_pairs(src, dst, graph="g", id=f"g/{number}", window=window(number))


def seen(parameters: BpParameters, *snapshots: Snapshot) -> list[Remembered]:
    found: list[Remembered] = []
    for one in snapshots:
        memory = decode_memory(encode_memory(found[-1].memory)) if found else None
        found.append(detect_remembering(one, model(parameters), memory))
    return found


def id_of(one: Remembered, snapshot: Snapshot, node: object) -> int:
    place = snapshot.nodes.to_pylist().index(node)
    return int(one.community_ids[one.communities[place]])


@BOTH
def test_ids_belong_to_nodes_whatever_their_places(parameters: BpParameters) -> None:
    one = snapshot(0, range(10, 20), range(20, 30))
    two = snapshot(1, range(1, 5), range(20, 30), range(10, 20))  # new nodes come first now
    first, second = seen(parameters, one, two)
    assert id_of(second, two, 10) == id_of(first, one, 10)
    assert id_of(second, two, 20) == id_of(first, one, 20)
    assert id_of(second, two, 1) >= first.memory.next_id
    assert second.n_continued == 2


@BOTH
def test_a_new_node_joins_the_community_that_it_is_linked_to(
    parameters: BpParameters,
) -> None:
    one, two = snapshot(0, range(10), range(20, 30)), snapshot(1, range(11), range(20, 30))
    first, second = seen(parameters, one, two)
    assert id_of(second, two, 10) == id_of(first, one, 0)


@BOTH
def test_a_community_that_was_away_comes_back_with_its_id(parameters: BpParameters) -> None:
    both, half = (range(10), range(20, 30)), (range(20, 30),)
    snapshots = [snapshot(0, *both), snapshot(1, *both), snapshot(2, *half), snapshot(3, *both)]
    first, _, third, fourth = seen(parameters, *snapshots)
    assert third.memory.n_nodes == 20
    assert id_of(fourth, snapshots[3], 0) == id_of(first, snapshots[0], 0)


@BOTH
def test_nodes_that_stay_away_are_forgotten(parameters: BpParameters) -> None:
    both, half = (range(10), range(20, 30)), (range(20, 30),)
    windows = [snapshot(0, *both)] + [snapshot(number, *half) for number in range(1, 200)]
    kept = [one.memory.n_nodes for one in seen(parameters, *windows)]
    assert kept[1] == 20
    assert kept[-1] == 10
    assert sorted(kept, reverse=True) == kept


def test_missing_windows_change_nothing() -> None:
    groups = (range(20, 30), range(30, 40), range(40, 50))
    *_, before = seen(BELIEFS, *(snapshot(number, range(10), *groups) for number in range(3)))
    next_one, late = (
        detect_remembering(snapshot(number, *groups), model(BELIEFS), before.memory)
        for number in (3, 1000)
    )
    assert next_one.community_ids.tolist() == late.community_ids.tolist()
    assert np.array_equal(*(one.memory.known.shares for one in (next_one, late)))


def test_missed_windows_are_counted_in_lengths_of_the_present_one() -> None:
    assert missed_windows(window(0), window(1)) == 0
    assert missed_windows(window(0), window(4)) == 3
    assert missed_windows(window(4), window(0)) == 0
    instant = Window(START + 9 * HOUR, START + 9 * HOUR)
    assert missed_windows(window(0), instant) == 0


@BOTH
def test_a_late_window_is_found_with_memory_and_leaves_it_unchanged(
    parameters: BpParameters,
) -> None:
    groups = (range(10), range(20, 30))
    first, second = seen(parameters, snapshot(0, *groups), snapshot(1, *groups))
    late = snapshot(0.5, *groups)
    found = detect_remembering(late, model(parameters), second.memory)
    assert id_of(found, late, 0) == id_of(first, snapshot(0, *groups), 0)
    assert encode_memory(found.memory) != encode_memory(first.memory)
    again = detect_remembering(snapshot(-5, *groups), model(parameters), second.memory)
    assert again.memory is second.memory


@BOTH
def test_another_model_goes_on_with_the_memory(parameters: BpParameters) -> None:
    groups = (range(10), range(20, 30))
    one, two = snapshot(0, *groups), snapshot(1, *groups)
    first = detect_remembering(one, model(BELIEFS), None)
    second = detect_remembering(two, model(parameters), first.memory)
    assert id_of(second, two, 20) == id_of(first, one, 20)


def test_ids_of_another_type_are_other_nodes() -> None:
    one = snapshot(0, range(10), range(20, 30))
    two = snapshot(1, [str(node) for node in range(10)], [str(node) for node in range(20, 30)])
    first, second = seen(BELIEFS, one, two)
    assert second.n_continued == 0
    assert second.community_ids.min() >= first.memory.next_id
    assert second.memory.nodes.type == pa.string()


def test_away_nodes_follow_a_community_that_merged() -> None:
    others = (range(100, 110), range(200, 210), range(300, 310))
    apart = (range(8), range(20, 30), *others)
    joined = (tuple(range(1, 8)) + tuple(range(20, 30)), *others)
    snapshots = [snapshot(0, *apart), snapshot(1, *joined), snapshot(2, *joined, (0, 40))]
    first, second, _ = seen(BELIEFS, *snapshots)
    into = id_of(second, snapshots[1], 20)
    assert into == id_of(first, snapshots[0], 20)
    assert second.memory.nodes[0].as_py() == 0
    memory = second.memory
    assert memory.community_ids[memory.known.communities[0, 0]] == into


def test_given_k_is_kept_with_memory() -> None:
    one = snapshot(0, range(10), range(20, 30), range(40, 50))
    first = detect_remembering(one, model(BELIEFS), None, 3)
    two = snapshot(1, range(10), range(20, 30), range(40, 50))
    assert detect_remembering(two, model(BELIEFS), first.memory, 2).communities.max() == 1
    assert detect_remembering(two, model(BELIEFS), first.memory, 5).communities.max() == 4


def test_memory_off_gives_the_answer_of_a_single_window() -> None:
    off = replace(BELIEFS, stay=0.0)
    groups = (range(10), range(20, 30))
    first, second = seen(off, snapshot(0, *groups), snapshot(1, *groups))
    assert second.n_continued == 0
    assert np.array_equal(first.communities, second.communities)


def test_an_adjacency_of_other_nodes_is_refused() -> None:
    one = snapshot(0, range(5))
    (found,) = seen(BELIEFS, one)
    other = snapshot(0, range(4)).adjacency()
    with pytest.raises(BadInput, match=r"shape \(4, 4\); 5 nodes"):
        detect_remembering(one, model(BELIEFS), found.memory, adjacency=other)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"snapshot": np.ones((3, 3))}, "a Snapshot in place of the ndarray"),
        ({"model": "default"}, "a Model in place of the str"),
        ({"memory": b"memory"}, "a Memory in place of the bytes"),
    ],
)
def test_what_is_of_another_kind_is_named_with_what_it_should_be(
    given: dict[str, object], wanted: str
) -> None:
    right = {"snapshot": snapshot(0, range(5)), "model": model(BELIEFS), "memory": None, **given}
    with pytest.raises(BadSettings, match=wanted):
        detect_remembering(**right)
    with pytest.raises(BadSettings, match=wanted):
        detect_smoothed([right["snapshot"]], right["model"], right["memory"])


def test_new_communities_get_ids_after_the_highest_that_is_read() -> None:
    one, two = range(9), range(10, 19)
    first = detect_remembering(snapshot(0, one), model(BELIEFS))
    known = decode_memory(encode_memory(replace(first.memory, next_id=MOST_READ_IDS)))
    after = snapshot(1, one, two)
    second = detect_remembering(after, model(BELIEFS), known)
    assert id_of(second, after, two[0]) == MOST_READ_IDS


@BOTH
def test_a_memory_that_was_cut_to_no_nodes_starts_with_new_ids(parameters: BpParameters) -> None:
    one, two = snapshot(0, range(10), range(20, 30)), snapshot(1, range(10), range(20, 30))
    (first,) = seen(parameters, one)
    found = detect_remembering(two, model(parameters), cut(first.memory, 0))
    assert min(found.community_ids) >= first.memory.next_id


def test_no_community_is_remembered_twice_of_a_node() -> None:
    """In the third window of this stream, a merger becomes the likeliest community of a node."""
    settings = LfrSettings(1000, max_degree=100, max_community=100, mixing=0.6)
    graphs = (graph for graph, _ in generate_drifting_lfr(4, 3, settings, churn=0.05))
    windows = [one for one, _ in planted_snapshots(graphs, "drifting", "test")]
    memory = seen(BELIEFS, *windows)[-1].memory
    labels = np.sort(memory.known.communities, axis=1)
    assert not ((labels[:, 1:] == labels[:, :-1]) & (labels[:, 1:] >= 0)).any()


def test_a_graph_that_stays_the_same_is_not_broken() -> None:
    # Of a hub and a ring of so many nodes, beliefs know fewer edges inside than chance has there.
    ring = np.arange(1, 50_001)
    src, dst = np.append(np.zeros_like(ring), ring[:-1]), np.append(ring, ring[1:])
    memory = None
    for number in range(2):
        hub = snapshot_from_pairs(src, dst, graph="g", id=f"g/{number}", window=window(number))
        found = detect_remembering(hub, open_model("default").model, memory)
        memory = found.memory
    assert found.n_continued


@BOTH
def test_a_node_between_two_communities_may_be_in_the_second(parameters: BpParameters) -> None:
    left, right = range(8), range(8, 16)
    both = snapshot(0, left, right, [16, 0, 1], [16, 8, 9])
    one, two = seen(parameters, both, snapshot(1, left, right, [16, 0, 1], [16, 8, 9]))
    for found in (one, two):
        own, ids, second = found.probabilities, found.second_ids, found.second_probabilities
        assert own is not None
        assert ids is not None
        assert second is not None
        assert own[:16].min() > 0.95 > 0.8 > own[16] > 0.2
        assert own[16] + second[16] == pytest.approx(1, abs=0.05)
        assert {int(ids[16]), id_of(found, both, 16)} == set(found.community_ids.tolist())


def test_what_another_method_found_has_no_probabilities() -> None:
    found = detect_remembering(
        snapshot(0, range(8), range(8, 16)), model(BELIEFS), find=lambda *_: HALVES
    )
    assert (found.probabilities, found.second_ids, found.second_probabilities) == (None, None, None)


HALVES = np.repeat(np.array([0, 1], np.int32), 8)
