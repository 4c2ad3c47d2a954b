"""Detection on a stream: nodes that come and go, gaps, late windows, other models, any weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
from stream_icd.registry.find import open_model
from stream_icd.registry.model import VersionedModel
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
def test_nodes_that_are_away_come_back_with_their_id_or_are_forgotten_in_the_end(
    parameters: BpParameters,
) -> None:
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


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"snapshot": np.ones((3, 3))}, "a Snapshot in place of the ndarray"),
        ({"model": "default"}, "a Model in place of the str"),
        ({"memory": b"memory"}, "a Memory in place of the bytes"),
    ],
)
def test_what_is_of_another_kind_is_named_with_what_it_should_be(
    wrong: dict[str, object], reason: str
) -> None:
    right = {"snapshot": cliques(0, range(5)), "model": model(), "memory": None}
    with pytest.raises(BadSettings, match=reason):
        detect_remembering(**right | wrong)
    arguments = right | wrong
    with pytest.raises(BadSettings, match=reason):
        detect_smoothed([arguments["snapshot"]], arguments["model"], arguments["memory"])
    with pytest.raises(BadInput, match=r"shape \(4, 4\); 5 nodes"):
        detect_remembering(**right, adjacency=cliques(0, range(4)).adjacency())


@BOTH
def test_ids_are_new_after_another_model_or_without_remembered_nodes_up_to_the_highest(
    parameters: BpParameters,
) -> None:
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
