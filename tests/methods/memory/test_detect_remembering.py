"""Detection and smoothing on a stream: nodes that come and go, gaps, damage, any weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import combinations

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
from stream_icd.methods.model import Method, Model
from stream_icd.methods.quality.agreement import nmi
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_drifting_lfr
from stream_icd.methods.synthetic.planted_graph import PlantedGraph
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

DEFAULT = open_model("default").model
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
def test_ids_belong_to_nodes_and_new_ones_join_neighbours(parameters: BpParameters) -> None:
    after = (range(1, 5), range(20, 30), (*range(10, 20), 40))  # new nodes come first now
    (first, before), (second, now) = seen(parameters, (range(10, 20), range(20, 30)), after)
    assert (now[10], now[20]) == (before[10], before[20])
    assert now[1] >= first.memory.next_id
    assert now[40] == before[10]
    assert second.n_continued == 2


@BOTH
def test_nodes_that_are_away_keep_their_id_for_a_while(parameters: BpParameters) -> None:
    found = seen(parameters, TWO, TWO[1:], TWO, *[TWO[1:]] * 200)
    (_, before), _, (_, now), *_ = found
    assert now[0] == before[0]
    n_nodes = [one.memory.n_nodes for one, _ in found]
    assert (n_nodes[0], n_nodes[-1]) == (20, 10)
    assert sorted(n_nodes, reverse=True) == n_nodes


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
def test_a_late_window_is_found_with_memory_and_leaves_it(parameters: BpParameters) -> None:
    (first, before), (second, _) = seen(parameters, TWO, TWO)
    late = cliques(0.5, *TWO)
    found = detect_remembering(late, model(parameters), second.memory)
    assert ids_by_node(found, late)[0] == before[0]
    assert encode_memory(found.memory) != encode_memory(first.memory)
    again = detect_remembering(cliques(-5, *TWO), model(parameters), second.memory)
    assert again.memory is second.memory


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"snapshot": np.ones((3, 3))}, "a Snapshot in place of the ndarray"),
        ({"model": "default"}, "a Model in place of the str"),
        ({"memory": b"memory"}, "a Memory in place of the bytes"),
    ],
)
def test_what_is_of_another_kind_is_named(wrong: dict[str, object], reason: str) -> None:
    right = {"snapshot": cliques(0, range(5)), "model": model(), "memory": None}
    with pytest.raises(BadSettings, match=reason):
        detect_remembering(**right | wrong)
    arguments = right | wrong
    with pytest.raises(BadSettings, match=reason):
        detect_smoothed([arguments["snapshot"]], arguments["model"], arguments["memory"])
    with pytest.raises(BadInput, match=r"shape \(4, 4\); 5 nodes"):
        detect_remembering(**right, adjacency=cliques(0, range(4)).adjacency())


@BOTH
def test_ids_are_new_without_remembered_nodes_up_to_the_highest(parameters: BpParameters) -> None:
    (first,) = detected([cliques(0, *TWO)])
    (goes_on,) = detected([cliques(1, *TWO)], model(parameters), first.memory)
    assert ids_of(goes_on).tolist() == ids_of(first).tolist()
    (anew,) = detected([cliques(1, *TWO)], model(parameters), cut(first.memory, 0))
    assert min(anew.community_ids) >= first.memory.next_id
    highest = replace(first.memory, next_id=MOST_READ_IDS)
    (last,) = detected([cliques(1, *TWO, range(40, 50))], model(parameters), highest)
    assert ids_of(last)[-1] == MOST_READ_IDS


def test_a_graph_that_stays_the_same_is_not_broken() -> None:
    # Of a hub and a ring of so many nodes, beliefs know fewer edges inside than chance has there.
    ring = np.arange(1, 50_001)
    src, dst = np.append(np.zeros_like(ring), ring[:-1]), np.append(ring, ring[1:])
    hubs = [
        snapshot_from_pairs(src, dst, graph="g", id=f"g/{number}", window=hour(number))
        for number in range(2)
    ]
    assert detected(hubs, DEFAULT)[-1].n_continued


@BOTH
def test_a_node_between_two_communities_may_be_in_the_second(parameters: BpParameters) -> None:
    groups = (range(8), range(8, 16), [16, 0, 1], [16, 8, 9])
    for found, ids in seen(parameters, groups, groups):
        own, others, second = found.probabilities, found.second_ids, found.second_probabilities
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


def last_window(weights: dict[int, float], unit: float = 1.0, horizon: Horizon = "auto") -> Memory:
    """The memory of the last of 13 windows of 300 nodes; a fifth of them has moved in the tenth.

    weights: factor of all weights of a window, by its number; `unit` in others.
    """
    rng, memory = np.random.default_rng(5), None
    before = np.arange(300) // 30
    after = np.where(rng.random(300) < 0.2, rng.integers(0, 10, 300), before)
    for number in range(13):
        groups, rng = (before, after)[number >= 9], np.random.default_rng(number)
        src, dst = rng.integers(0, 300, (2, 18_000))
        drawn = (src != dst) & ((groups[src] == groups[dst]) | (rng.random(18_000) < 0.03))
        src, dst = src[drawn][:1500], dst[drawn][:1500]
        factors = rng.integers(1, 5, 1500) * weights.get(number, unit)
        snapshot = snapshot_from_pairs(
            src, dst, graph="g", id=f"g/{number}", window=hour(number), weights=factors
        )
        found = detect_remembering(snapshot, DEFAULT, memory, horizon=horizon)
        memory = found.memory
    assert nmi(found.communities, groups[snapshot.nodes.to_numpy()]) > 0.98
    return memory


@pytest.mark.parametrize("heavy", [1.0, 1e4, 1e30, 1e140])
def test_moves_are_found_as_soon_as_without_a_window_of_heavy_weights(heavy: float) -> None:
    assert last_window({6: heavy}).n_nodes == 300


@pytest.mark.parametrize("unit", [1e-140, 1e-40, 1e40, 1e140])
def test_the_unit_of_all_weights_does_not_matter(unit: float) -> None:
    usual, other = last_window({}, horizon=5), last_window({}, unit, horizon=5)
    assert other.posterior.likeliest.tolist() == usual.posterior.likeliest.tolist()


DAY = timedelta(days=1)
N_NODES, AT = 1000, 4
"""Nodes of a window, and the number of the one that is damaged."""

STAYING = model(replace(BELIEFS, stay=0.9))
BY_MODULARITY = model(BpParameters(stay=0.9))
OF_BOTH = pytest.mark.parametrize("used", [STAYING, BY_MODULARITY], ids=["beliefs", "modularity"])


def planted(
    *seeds: int, n_windows: int, n_nodes: int = 2000, mixing: float = 0.6
) -> tuple[list[Snapshot], list[NDArray[np.int32]]]:
    """Windows of a drifting graph, and their planted communities; a new graph for each seed."""
    settings, graphs = LfrSettings(n_nodes=n_nodes, mixing=mixing), list[PlantedGraph]()
    for seed in seeds:
        graphs += (graph for graph, _ in generate_drifting_lfr(seed, n_windows, settings))
    snapshots = [snapshot for snapshot, _ in planted_snapshots(iter(graphs), "g", "test")]
    return snapshots, [graph.communities for graph in graphs]


def drifting_windows(seed: int = 1, n_windows: int = 7, n_nodes: int = N_NODES) -> list[Snapshot]:
    return planted(seed, n_windows=n_windows, n_nodes=n_nodes, mixing=0.3)[0]


def without(snapshot: Snapshot, share: float, shift: int = 0) -> Snapshot:
    """The window without this share of its nodes, whose ids are higher by this much."""
    ids = snapshot.nodes.to_numpy()
    left = np.random.default_rng(7).random(len(ids)) >= share
    inside = left[snapshot.edges].all(axis=0)
    src, dst = ids[snapshot.edges[:, inside]] + shift
    return snapshot_from_pairs(src, dst, graph="g", id=snapshot.id, window=snapshot.window)


def later(
    last: Snapshot, number: int, snapshot: Snapshot, step: timedelta = DAY, length: timedelta = DAY
) -> Snapshot:
    """A snapshot as one of the windows after `last`."""
    end = last.window.end + (number + 1) * step
    return replace(snapshot, id=f"g/later/{number}", window=Window(end - length, end))


@OF_BOTH
def test_after_a_damaged_window_all_is_as_if_it_were_missing(used: Model) -> None:
    windows = drifting_windows()
    few = without(windows[AT], 0.7)
    found = detected([*windows[:AT], few, *windows[AT + 1 :]], used)
    missing = detected([*windows[:AT], *windows[AT + 1 :]], used)
    assert [one.damaged for one in found] == [at == AT for at in range(7)]
    assert not len(found[AT].replaced)
    assert found[AT].n_continued
    before = missing[AT - 1].memory.next_id
    taken = found[AT].memory.next_id - before  # ids of the damaged window alone
    for one, other in zip(found[AT + 1 :], missing[AT:], strict=True):
        ids = ids_of(other)
        assert ids_of(one).tolist() == np.where(ids < before, ids, ids + taken).tolist()
    # Nodes of the damaged window keep their communities.
    places = np.isin(np.arange(N_NODES), few.nodes.to_numpy())
    assert (ids_of(found[AT - 1])[places] == ids_of(found[AT])).mean() > 0.6


@OF_BOTH
def test_only_the_first_of_a_run_of_small_windows_is_damaged(used: Model) -> None:
    """Communities would have other ids if the few nodes of the run decided what the graph is."""
    windows = drifting_windows(n_windows=AT + 1)
    run = [later(windows[AT], at, without(windows[AT], 0.7)) for at in range(10)]
    whole = later(windows[AT], 10, windows[AT])
    found = detected([*windows[:AT], *run, whole], used)
    assert [one.damaged for one in found] == [at == AT for at in range(AT + 11)]
    assert found[AT + 1].memory.window == run[1].window
    before, after = ids_of(found[AT - 1]), ids_of(found[-1])
    (missing,) = detected([windows[AT]], used, found[AT - 1].memory)
    unchanged = ids_of(missing) == before
    assert (after == before)[unchanged].mean() > 0.98


@pytest.mark.parametrize("length", [timedelta(0), DAY], ids=["all at one time", "days"])
def test_small_windows_without_end_make_what_is_remembered_small(length: timedelta) -> None:
    """Nodes that came often are kept for a while, and no window is damaged for ever."""
    windows = drifting_windows(n_windows=4, n_nodes=3000)
    few = without(windows[-1], 0.95)
    small = [
        later(windows[-1], at, few, length or timedelta(seconds=1), length or timedelta(0))
        for at in range(50)
    ]
    found = detected([*windows, *small], BY_MODULARITY)
    assert sum(one.damaged for one in found) == 1
    beyond = [max(one.memory.n_nodes - 1000, 0) for one in found[len(windows) :]]
    assert beyond[1] == 2000
    assert sum(beyond) <= 3 * 3000 + 2 * 2000  # what came again, and what shrinks by halves
    assert beyond[-1] == 0


def test_nodes_that_came_once_are_not_kept_by_small_windows() -> None:
    windows = drifting_windows(n_windows=1, n_nodes=3000)
    few = without(windows[0], 0.95)
    run = [later(windows[0], at, few) for at in range(3)]
    found = detected([*windows, *run], BY_MODULARITY)
    assert not any(one.damaged for one in found)
    assert [one.memory.n_nodes for one in found] == [3000, 1500, 1000, 1000]


@OF_BOTH
@pytest.mark.parametrize("share", [0.0, 0.4, 0.7])
def test_a_break_is_no_damage(used: Model, share: float) -> None:
    """Other edges among the same nodes, or mostly other nodes: the graph has changed."""
    windows, others = drifting_windows()[:AT], drifting_windows(seed=2)
    new = replace(without(others[AT], share, N_NODES // 4 * (share > 0.5)), id="g/other")
    found = detected([*windows, new], used)
    assert not found[-1].damaged
    assert found[-1].memory.window == new.window


def test_smoothing_leaves_a_damaged_window_as_it_is() -> None:
    windows = drifting_windows()
    windows[AT] = without(windows[AT], 0.7)
    forward, smoothed = detected(windows, STAYING), detect_smoothed(windows, STAYING)
    assert np.array_equal(ids_of(smoothed[AT]), ids_of(forward[AT]))
    assert smoothed[AT].damaged
    rest = [*windows[:AT], *windows[AT + 1 :]]
    alone = detect_smoothed(rest, STAYING)
    for one, other in zip(smoothed[:AT], alone[:AT], strict=True):
        assert np.array_equal(ids_of(one), ids_of(other))


LFR = model(BpParameters(resolution=4.5, mixing=0.6, iterations=1))


def test_the_future_improves_the_past_and_makes_its_communities_more_probable() -> None:
    snapshots, truths = planted(7, n_windows=7)
    found = detected(snapshots, LFR), detect_smoothed(snapshots, LFR)
    ahead, both = (
        [nmi(truth, one.communities) for truth, one in zip(truths, windows, strict=True)]
        for windows in found
    )
    assert ahead[0] < 0.65
    assert min(both[:-1]) > 0.94
    assert 1 - np.mean(both[2:5]) < 0.55 * (1 - np.mean(ahead[2:5]))
    filtered, smoothed = (windows[1] for windows in found)
    assert filtered.probabilities.mean() < smoothed.probabilities.mean() <= 1
    assert (smoothed.second_ids != ids_of(smoothed)).all()
    counts = np.zeros((len(smoothed.community_ids), truths[1].max() + 1))
    np.add.at(counts, (smoothed.communities, truths[1]), 1)
    right = counts.argmax(axis=1)[smoothed.communities] == truths[1]
    assert smoothed.probabilities.mean() == pytest.approx(right.mean(), abs=0.1)


def test_smoothed_windows_have_the_ids_and_leave_the_memory_of_forward_detection() -> None:
    snapshots, _ = planted(7, n_windows=6)
    ahead, both, again = detected(snapshots, LFR), *(detect_smoothed(snapshots, LFR) for _ in "12")
    known = {id for result in ahead for id in result.community_ids}
    for at, (one, other) in enumerate(zip(ahead, both, strict=True)):
        assert encode_memory(one.memory) == encode_memory(other.memory)
        if at:
            assert set(other.community_ids) <= known
            assert np.mean(ids_of(one) == ids_of(other)) > 0.8
    assert np.array_equal(ids_of(both[-1]), ids_of(ahead[-1]))
    part = detect_smoothed(snapshots[2:], LFR, ahead[1].memory)
    for others in (again, part):  # equal windows, and those after a memory
        for one, other in zip(both[-len(others) :], others, strict=True):
            assert ids_of(one).tobytes() == ids_of(other).tobytes()


def test_a_complete_change_says_nothing_about_the_windows_before_it() -> None:
    windows, _ = planted(3, 4, n_windows=3)
    alone, both = detect_smoothed(windows[:3], LFR), detect_smoothed(windows, LFR)
    for one, other in zip(alone, both[:3], strict=True):
        assert nmi(one.communities, other.communities) > 0.99


def test_a_community_is_not_split_or_merged_before_its_edges_show_it() -> None:
    whole, halves = (range(20), range(20, 40)), (range(12), range(12, 20), range(20, 40))
    windows = [cliques(0, *whole), cliques(1, *halves)]
    one, two = detect_smoothed(windows, model(), horizon="off")
    assert ids_of(one).tolist() == [0] * 20 + [1] * 20
    assert ids_of(two).tolist() == [0] * 12 + [2] * 8 + [1] * 20
    windows = [cliques(0, *halves), cliques(1, *whole)]
    one, two = detect_smoothed(windows, model(), horizon="off")
    assert ids_of(one).tolist() == [0] * 12 + [1] * 8 + [2] * 20
    assert ids_of(two).tolist() == [0] * 20 + [2] * 20


def test_a_node_without_edges_or_in_doubt_is_told_by_the_windows_around_it() -> None:
    """Node 10 has one edge to each community in the fourth window; in the first and last, many."""
    groups = range(10), range(20, 30)
    first, last = (cliques(number, [*range(10), 10], groups[1]) for number in (0, 4))
    pairs = [pair for group in groups for pair in combinations(group, 2)]
    src, dst = zip(*pairs, (10, None), strict=True)
    alone = snapshot_from_pairs(src, pa.array(dst), graph="g", id="g/1", window=hour(1))
    away, doubtful = cliques(2, *groups), cliques(3, *groups, [9, 10], [10, 20])
    found = detect_smoothed([first, alone, away, doubtful, last], model())
    assert ids_of(found[0])[10] == ids_of(found[1])[10] == ids_of(found[3])[10]


def test_windows_that_modularity_decides_stay_as_they_are() -> None:
    snapshots, _ = planted(7, n_windows=3)
    plain = model(BpParameters())
    found = detected(snapshots, plain), detect_smoothed(snapshots, plain)
    for one, other in zip(*found, strict=True):
        assert ids_of(one).tolist() == ids_of(other).tolist()


def test_k_given_is_k_in_each_window() -> None:
    snapshots, _ = planted(7, n_windows=4)
    ks = [20, None, 35, 30]
    found = detect_smoothed(snapshots, LFR, n_communities=ks)
    assert [len(one.community_ids) for one in found][::2] == [20, 35]
    assert found[-1].memory.next_id > max(int(one.community_ids.max()) for one in found)
    with pytest.raises(BadSettings, match="4 windows need one each"):
        detect_smoothed(snapshots, LFR, n_communities=[20])


def test_no_windows_no_results_and_windows_must_be_in_order() -> None:
    assert detect_smoothed([], LFR) == []
    snapshot = cliques(0, range(5))
    with pytest.raises(BadInput, match="not after"):
        detect_smoothed([snapshot, replace(snapshot, id="again")], model())
    with pytest.raises(BadInput, match="one graph; there are g and other"):
        detect_smoothed([snapshot, replace(cliques(1, range(5)), graph="other")], model())
