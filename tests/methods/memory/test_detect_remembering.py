"""Detection on a stream: nodes that come and go, gaps, late windows, other models, any weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from stream_icd.core.errors import BadInput, BadSettings
from stream_icd.core.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.core.times import missed_windows
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.memory.detect import Remembered, detect_remembering
from stream_icd.methods.memory.encoding import encode_memory
from stream_icd.methods.memory.horizon import Horizon
from stream_icd.methods.memory.memory import MOST_READ_IDS, Memory
from stream_icd.methods.memory.nodes import cut
from stream_icd.methods.memory.smoothing import detect_smoothed
from stream_icd.methods.model import Method
from stream_icd.methods.quality.agreement import nmi
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_drifting_lfr
from stream_icd.registry.find import open_model
from stream_icd.registry.model import VersionedModel
from stream_icd.sources.generated import planted_snapshots
from stream_icd.streaming.detection.detect import finding
from tests.methods.memory.streams import (
    BELIEFS,
    HOUR,
    START,
    cliques,
    detected,
    hour,
    ids_of,
    model,
    through_bytes,
)

BOTH = pytest.mark.parametrize(
    "parameters", [BELIEFS, BpParameters()], ids=["beliefs", "modularity"]
)
TWO = (range(10), range(20, 30))
"""Groups of nodes, each a clique."""


def seen(
    parameters: BpParameters, *windows: Sequence[Sequence[int]]
) -> list[tuple[Remembered, dict[int, int]]]:
    """Each result, with the id of each node's community, of windows in which groups are cliques."""
    snapshots = [cliques(number, *groups) for number, groups in enumerate(windows)]
    found = detected(snapshots, model(parameters))
    return [(one, ids_by_node(one, at)) for one, at in zip(found, snapshots, strict=True)]


def ids_by_node(found: Remembered, snapshot: Snapshot) -> dict[int, int]:
    return dict(zip(snapshot.nodes.to_pylist(), ids_of(found).tolist(), strict=True))


@BOTH
def test_ids_belong_to_nodes_whatever_their_places_and_new_ones_join_neighbours(
    parameters: BpParameters,
) -> None:
    after = (range(1, 5), range(20, 30), (*range(10, 20), 40))  # new nodes come first now
    (first, before), (second, now) = seen(parameters, (range(10, 20), range(20, 30)), after)
    assert (now[10], now[20]) == (before[10], before[20])
    assert now[1] >= first.memory.next_id
    assert now[40] == before[10]
    assert second.n_continued == 2


@BOTH
def test_a_community_that_was_away_comes_back_with_its_id(parameters: BpParameters) -> None:
    (_, before), _, (away, _), (_, now) = seen(parameters, TWO, TWO, TWO[1:], TWO)
    assert away.memory.n_nodes == 20
    assert now[0] == before[0]


@BOTH
def test_nodes_that_stay_away_are_forgotten(parameters: BpParameters) -> None:
    kept = [one.memory.n_nodes for one, _ in seen(parameters, TWO, *[TWO[1:]] * 199)]
    assert (kept[1], kept[-1]) == (20, 10)
    assert sorted(kept, reverse=True) == kept


def test_missing_windows_change_nothing_and_are_counted_in_lengths_of_the_present_one() -> None:
    groups = (range(20, 30), range(30, 40), range(40, 50))
    before = detected(cliques(number, range(10), *groups) for number in range(3))[-1].memory
    next_one, late = (detected([cliques(at, *groups)], memory=before)[0] for at in (3, 1000))
    assert next_one.community_ids.tolist() == late.community_ids.tolist()
    assert np.array_equal(*(one.memory.posterior.shares for one in (next_one, late)))
    assert [missed_windows(hour(0), hour(at)) for at in (1, 4)] == [0, 3]
    instant = Window(START + 9 * HOUR, START + 9 * HOUR)
    assert missed_windows(hour(4), hour(0)) == missed_windows(hour(0), instant) == 0


@BOTH
def test_a_late_window_is_found_with_memory_and_leaves_it_unchanged(
    parameters: BpParameters,
) -> None:
    (first, before), (second, _) = seen(parameters, TWO, TWO)
    late = cliques(0.5, *TWO)
    found = detect_remembering(late, model(parameters), second.memory)
    assert ids_by_node(found, late)[0] == before[0]
    assert encode_memory(found.memory) != encode_memory(first.memory)
    again = detect_remembering(cliques(-5, *TWO), model(parameters), second.memory)
    assert again.memory is second.memory


@BOTH
def test_another_model_goes_on_with_the_memory(parameters: BpParameters) -> None:
    (first,) = detected([cliques(0, *TWO)])
    (second,) = detected([cliques(1, *TWO)], model(parameters), first.memory)
    assert ids_of(second).tolist() == ids_of(first).tolist()


def test_ids_of_another_type_are_other_nodes() -> None:
    texts = [[str(node) for node in group] for group in TWO]
    first, second = detected([cliques(0, *TWO), cliques(1, *texts)])
    assert second.n_continued == 0
    assert second.community_ids.min() >= first.memory.next_id
    assert second.memory.nodes.type == pa.string()


def test_away_nodes_follow_a_community_that_merged() -> None:
    others = (range(100, 110), range(200, 210), range(300, 310))
    joined = ((*range(1, 8), *range(20, 30)), *others)
    windows = (range(8), range(20, 30), *others), joined, (*joined, (0, 40))
    (_, before), (second, now), _ = seen(BELIEFS, *windows)
    assert now[20] == before[20]
    memory = second.memory
    assert memory.nodes[0].as_py() == 0
    assert memory.community_ids[memory.posterior.communities[0, 0]] == now[20]


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
    right = {"snapshot": cliques(0, range(5)), "model": model(), "memory": None, **given}
    with pytest.raises(BadSettings, match=wanted):
        detect_remembering(**right)
    with pytest.raises(BadSettings, match=wanted):
        detect_smoothed([right["snapshot"]], right["model"], right["memory"])


def test_an_adjacency_of_other_nodes_is_refused() -> None:
    other = cliques(0, range(4)).adjacency()
    with pytest.raises(BadInput, match=r"shape \(4, 4\); 5 nodes"):
        detect_remembering(cliques(0, range(5)), model(), None, adjacency=other)


def test_new_communities_get_ids_after_the_highest_that_is_read() -> None:
    (first,) = detected([cliques(0, range(9))])
    known = replace(first.memory, next_id=MOST_READ_IDS)
    (second,) = detected([cliques(1, range(9), range(10, 19))], memory=known)
    assert ids_of(second)[-1] == MOST_READ_IDS


@BOTH
def test_a_memory_that_was_cut_to_no_nodes_starts_with_new_ids(parameters: BpParameters) -> None:
    ((first, _),) = seen(parameters, TWO)
    (found,) = detected([cliques(1, *TWO)], model(parameters), cut(first.memory, 0))
    assert min(found.community_ids) >= first.memory.next_id


def test_no_community_is_remembered_twice_of_a_node() -> None:
    """In the third window of this stream, a merger becomes the likeliest community of a node."""
    settings = LfrSettings(1000, max_degree=100, max_community=100, mixing=0.6)
    graphs = (graph for graph, _ in generate_drifting_lfr(4, 3, settings, churn=0.05))
    windows = [one for one, _ in planted_snapshots(graphs, "drifting", "test")]
    assert through_bytes(detected(windows)[-1].memory)  # else it is refused


def test_a_graph_that_stays_the_same_is_not_broken() -> None:
    # Of a hub and a ring of so many nodes, beliefs know fewer edges inside than chance has there.
    ring = np.arange(1, 50_001)
    src, dst = np.append(np.zeros_like(ring), ring[:-1]), np.append(ring, ring[1:])
    hubs = [
        snapshot_from_pairs(src, dst, graph="g", id=f"g/{number}", window=hour(number))
        for number in range(2)
    ]
    assert detected(hubs, open_model("default").model)[-1].n_continued


@BOTH
def test_a_node_between_two_communities_may_be_in_the_second(parameters: BpParameters) -> None:
    groups = (range(8), range(8, 16), [16, 0, 1], [16, 8, 9])
    for found, ids in seen(parameters, groups, groups):
        own, others, second = found.probabilities, found.second_ids, found.second_probabilities
        assert own is not None
        assert others is not None
        assert second is not None
        assert own[:16].min() > 0.95 > 0.8 > own[16] > 0.2
        assert own[16] + second[16] == pytest.approx(1, abs=0.05)
        assert {int(others[16]), ids[16]} == set(found.community_ids.tolist())


def test_what_another_method_found_has_no_probabilities() -> None:
    halves = np.repeat(np.array([0, 1], np.int32), 8)
    found = detect_remembering(cliques(0, range(8), range(8, 16)), model(), find=lambda *_: halves)
    assert (found.probabilities, found.second_ids, found.second_probabilities) == (None,) * 3


HORIZONS: tuple[Horizon, ...] = ("auto", "off", 1.0, 3.0, 50.0)


def windows(rng: np.random.Generator) -> Iterator[Snapshot]:
    """Windows of varying nodes, with groups or without; there are gaps, and some are late."""
    most, kind, at = int(rng.choice([3, 8, 30, 120])), rng.choice(["text", "number"]), 0
    for number in range(8):
        at += int(rng.choice([1, 1, 1, 5, 0, -2]))
        ids = rng.choice(most, rng.integers(1, most + 1), replace=False)
        pairs = rng.choice(ids, (2, int(rng.integers(0, 4 * len(ids)))))
        grouped = (pairs[0] % 4 == pairs[1] % 4) | (
            rng.random(pairs.shape[1]) < rng.choice([0.1, 1])
        )
        pairs = pairs[:, grouped & (pairs[0] != pairs[1])]
        if not pairs.size:
            continue
        weights = rng.choice([1.0, 2.5, 1e-9, 1e6], pairs.shape[1]) if number % 2 else None
        named = (pa.array(ids).cast(pa.string()) if kind == "text" else ids for ids in pairs)
        yield snapshot_from_pairs(
            *named, graph="g", id=str(number), window=hour(at), weights=weights
        )


@pytest.mark.parametrize("method", ["bp", "icd"])
@settings(max_examples=30)
@given(seed=st.integers(0, 2**32 - 1))
def test_on_any_stream(model: VersionedModel, method: Method, seed: int) -> None:
    rng = np.random.default_rng(seed)
    horizon = HORIZONS[rng.integers(len(HORIZONS))]
    find = finding(method, model.model, seed=0, threads=1, spent={})
    memory, used = None, set[int]()
    for snapshot in windows(rng):
        k = int(rng.integers(1, snapshot.n_nodes + 1)) if rng.random() < 0.3 else None
        found, again = (
            detect_remembering(snapshot, model.model, before, k, horizon=horizon, find=find)
            for before in (memory, through_bytes(memory))
        )
        ids, next_id = found.community_ids.tolist(), 0 if memory is None else memory.next_id
        assert set(found.communities.tolist()) == set(range(len(ids)))
        assert k in {None, len(ids)}
        assert len(set(ids)) == len(ids)
        assert not used & {one for one in ids if one >= next_id}, "an id is given once"
        assert found.predicted_bits is None or np.isfinite(found.predicted_bits)
        assert found.moved is None or np.isfinite(found.moved.bits).all()
        # A detector that starts again goes on with what it has published.
        assert again.communities.tolist() == found.communities.tolist()
        assert again.community_ids.tolist() == ids
        assert encode_memory(again.memory) == encode_memory(found.memory)
        if found.memory is not memory:  # else the window is late: its new ids serve for it alone
            used |= set(ids)
        memory = found.memory


N_NODES, N_GROUPS = 300, 10
HEAVY, MOVED, LAST = 6, 9, 12
"""Numbers of the heavy window, of the first one in which nodes have moved, and of the last."""
MODEL = open_model("default").model
BEFORE = np.arange(N_NODES) * N_GROUPS // N_NODES


def window(number: int, groups: NDArray[np.int64], factor: float) -> Snapshot:
    """A window of 1,500 edges, nearly all within groups, with weights from 1 to 4."""
    rng = np.random.default_rng(number)
    src, dst = rng.integers(0, N_NODES, (2, 60 * N_NODES))
    drawn = (src != dst) & ((groups[src] == groups[dst]) | (rng.random(len(src)) < 0.03))
    src, dst = src[drawn][: 5 * N_NODES], dst[drawn][: 5 * N_NODES]
    weights, at = rng.integers(1, 5, len(src)) * factor, hour(number)
    return snapshot_from_pairs(src, dst, graph="g", id=f"g/{number}", window=at, weights=weights)


def last_agreement(heavy: float) -> float:
    """NMI of the last window, three windows after a fifth of the nodes has moved."""
    rng = np.random.default_rng(5)
    after = np.where(rng.random(N_NODES) < 0.2, rng.integers(0, N_GROUPS, N_NODES), BEFORE)
    memory: Memory | None = None
    for number in range(LAST + 1):
        groups = BEFORE if number < MOVED else after
        snapshot = window(number, groups, heavy if number == HEAVY else 1.0)
        found = detect_remembering(snapshot, MODEL, memory)
        memory = found.memory
    return nmi(found.communities, groups[snapshot.nodes.to_numpy()])


@pytest.mark.parametrize("heavy", [1.0, 1e4, 1e30, 1e140])
def test_moves_are_found_as_soon_as_without_a_window_of_heavy_weights(heavy: float) -> None:
    assert last_agreement(heavy) > 0.98


def after_three(unit: float) -> Memory:
    """The memory after three windows of the horizon 5, all weights in this unit."""
    memory = None
    for number in range(3):
        memory = detect_remembering(window(number, BEFORE, unit), MODEL, memory, horizon=5).memory
    assert memory is not None
    return memory


@pytest.mark.parametrize("unit", [1e-140, 1e-40, 1e40, 1e140])
def test_the_unit_of_all_weights_does_not_matter(unit: float) -> None:
    usual, other = after_three(1.0), after_three(unit)
    edges = (one.hypotheses[0].evidence.indices.tolist() for one in (usual, other))
    assert next(edges) == next(edges)
    assert other.posterior.likeliest.tolist() == usual.posterior.likeliest.tolist()
