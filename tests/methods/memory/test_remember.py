"""What memory between windows promises: better communities, lasting ids, and nothing invented."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from scipy.sparse import csr_array

from stream_icd.core.arrays import NOBODY
from stream_icd.core.errors import BadSettings
from stream_icd.methods.bp.find import find_communities
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.memory.detect import Remembered, detect_window
from stream_icd.methods.memory.horizon import Horizon
from stream_icd.methods.memory.memory import Memory
from stream_icd.methods.quality.agreement import nmi
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_drifting_lfr
from stream_icd.methods.synthetic.planted_graph import PlantedGraph
from tests.methods.bp.graphs import cliques, lfr, shuffled
from tests.methods.memory.streams import hour, ids_of

N = 1500
BELIEFS = BpParameters(resolution=5.7, mixing=0.5, iterations=1)
MODULARITY = BpParameters()
DECIDING = BpParameters(search=True)
BOTH = pytest.mark.parametrize(
    "parameters", [BELIEFS, MODULARITY, DECIDING], ids=["beliefs", "modularity", "deciding"]
)


def drifting(seed: int, n_windows: int, mixing: float = 0.5, **drift: float) -> list[PlantedGraph]:
    settings = LfrSettings(n_nodes=N, mixing=mixing)
    stream = generate_drifting_lfr(seed, n_windows, settings, **drift)
    return [graph for graph, _ in stream]


def then(
    memory: Memory | None,
    adjacency: csr_array,
    parameters: BpParameters,
    k: int | None = None,
    horizon: Horizon = "off",
) -> Remembered:
    """The next window; without a horizon, by what is believed of the last one and its own edges."""
    nodes, number = pa.array(np.arange(adjacency.shape[0])), memory.n_windows if memory else 0
    return detect_window(adjacency, nodes, hour(number), parameters, memory, k, horizon=horizon)


def found(
    graphs: list[PlantedGraph], parameters: BpParameters, horizon: Horizon = "off"
) -> Iterator[Remembered]:
    memory = None
    for graph in graphs:
        one = then(memory, graph.adjacency(), parameters, horizon=horizon)
        yield one
        memory = one.memory


def agreement(graphs: list[PlantedGraph], windows: Iterable[Remembered]) -> list[float]:
    pairs = zip(graphs, windows, strict=True)
    return [nmi(graph.communities, one.communities) for graph, one in pairs]


@BOTH
def test_the_first_window_and_one_without_memory_are_found_as_if_alone(
    parameters: BpParameters,
) -> None:
    first, second = drifting(1, 2)
    for k in (None, 20):
        alone = find_communities(first.adjacency(), parameters, k)
        fresh = then(None, first.adjacency(), parameters, k)
        assert fresh.communities.tobytes() == alone.tobytes()
        assert fresh.community_ids.tolist() == list(range(alone.max() + 1))
    off = then(fresh.memory, second.adjacency(), replace(parameters, stay=0.0))
    assert off.communities.tobytes() == find_communities(second.adjacency(), parameters).tobytes()
    assert off.n_continued == 0
    assert off.community_ids.min() == fresh.memory.next_id


def test_memory_finds_what_a_single_window_does_not_show() -> None:
    graphs = drifting(3, 6)
    alone = [nmi(g.communities, find_communities(g.adjacency(), BELIEFS)) for g in graphs]
    assert max(alone) < 0.9
    assert min(agreement(graphs, found(graphs, BELIEFS, "auto"))[3:]) > 0.95


@BOTH
def test_a_complete_change_is_forgotten_at_once_and_learned_anew(parameters: BpParameters) -> None:
    graphs = drifting(3, 3) + drifting(5, 3) + [lfr(5, N, 0.4)]
    windows = list(found(graphs, parameters))
    assert [window.n_continued > 0 for window in windows] == [0, 1, 1, 0, 1, 1, 0]
    for at in (3, 6):
        alone = find_communities(graphs[at].adjacency(), parameters)
        assert windows[at].communities.tobytes() == alone.tobytes()
        assert windows[at].community_ids.min() == windows[at - 1].memory.next_id
    assert set(windows[2].community_ids) <= set(windows[3].replaced[:, 0])
    assert set(windows[3].replaced[:, 1]) == {NOBODY}


def test_communities_keep_their_ids_while_their_nodes_change() -> None:
    graphs = drifting(6, 5, mixing=0.3, event_rate=0.0)
    windows = list(found(graphs, BELIEFS))
    for one, (before, after) in enumerate(pairwise(windows)):
        assert set(before.community_ids) == set(after.community_ids), one
        changed = (ids_of(before) != ids_of(after)).mean()
        moved = (graphs[one].communities != graphs[one + 1].communities).mean()
        assert changed == pytest.approx(moved, abs=0.005)


@BOTH
def test_the_larger_part_keeps_the_id_and_the_larger_of_two_gives_it(
    parameters: BpParameters,
) -> None:
    whole = then(None, cliques(20, 20), parameters)
    split = then(whole.memory, cliques(20, 13, 7), parameters)
    assert ids_of(split).tolist() == [0] * 20 + [1] * 13 + [whole.memory.next_id] * 7
    assert split.n_continued == 2
    if parameters is BELIEFS:
        before = then(None, cliques(12, 8, 20), parameters)
        merged = then(before.memory, cliques(20, 20), parameters)
        assert ids_of(merged).tolist() == [0] * 20 + [2] * 20
        assert merged.replaced.tolist() == [[1, 0]]


def test_a_community_of_nodes_from_many_others_is_new() -> None:
    (graph,) = drifting(8, 1, mixing=0.2)
    before = then(None, graph.adjacency(), BELIEFS)
    founders = np.random.default_rng(0).choice(N, 20, replace=False)
    adjacency = graph.adjacency().tolil()
    adjacency[founders, :] = adjacency[:, founders] = 0
    adjacency[np.ix_(founders, founders)] = 1 - np.eye(20)
    after = then(before.memory, csr_array(adjacency), BELIEFS)
    assert set(ids_of(after)[founders]) == {before.memory.next_id}
    others = np.setdiff1d(np.arange(N), founders)
    assert (ids_of(after) == ids_of(before))[others].mean() > 0.99


def test_a_part_of_the_graph_that_breaks_is_forgotten_and_the_rest_is_not() -> None:
    before = then(None, cliques(*[10] * 8), BELIEFS)
    order = np.arange(80)
    order[:40] = np.arange(40).reshape(4, 10).T.ravel()  # the first four mix, node by node
    after = then(before.memory, shuffled(cliques(*[10] * 8), order), BELIEFS)
    assert ids_of(after)[40:].tolist() == ids_of(before)[40:].tolist()
    assert after.n_continued == 4
    assert nmi(ids_of(before)[order], after.communities) == 1.0


@BOTH
@pytest.mark.parametrize("k", [1, 7, 25, 80])
def test_exactly_k_communities_with_memory(parameters: BpParameters, k: int) -> None:
    first, second = drifting(2, 2, mixing=0.3)
    recalled = then(None, first.adjacency(), parameters).memory
    one = then(recalled, second.adjacency(), parameters, k)
    assert np.unique(one.communities).tolist() == list(range(k))
    assert len(set(one.community_ids)) == k
    memory = one.memory
    assert np.array_equal(memory.community_ids[memory.posterior.likeliest], ids_of(one))


def test_many_moves_make_remembered_beliefs_count_less() -> None:
    graphs = drifting(3, 6, churn=0.2, event_rate=0.0)
    scores = agreement(graphs, found(graphs, BELIEFS))
    assert np.mean(scores[4:]) > 0.9  # 0.87 if beliefs are trusted as much as they say
    for churn in (0.01, 0.2):
        *_, last = found(drifting(5, 5, mixing=0.3, churn=churn, event_rate=0.0), BELIEFS)
        assert last.memory.posterior.stay == pytest.approx(1 - churn, abs=0.05)


@BOTH
def test_node_order_does_not_matter_where_structure_is_clear(parameters: BpParameters) -> None:
    first, second = drifting(7, 2, mixing=0.1, event_rate=0.0)
    memory = then(None, first.adjacency(), parameters).memory
    order = np.random.default_rng(0).permutation(N)
    moved = then(None, shuffled(first.adjacency(), order), parameters).memory
    ids = ids_of(then(memory, second.adjacency(), parameters))[order]
    other = ids_of(then(moved, shuffled(second.adjacency(), order), parameters))
    assert nmi(ids, other) > 0.99


def test_graphs_without_nodes_or_edges_have_an_answer_and_k_outside_the_nodes_has_none() -> None:
    assert then(None, csr_array((0, 0)), BELIEFS).communities.size == 0
    before = then(None, cliques(3, 3), BELIEFS)
    after = then(before.memory, csr_array((6, 6)), BELIEFS)
    assert sorted(set(after.communities)) == list(range(len(after.community_ids)))
    with pytest.raises(BadSettings, match="from 1 to 6"):
        then(None, cliques(3, 3), BELIEFS, 7)


def test_a_horizon_is_as_given_or_found() -> None:
    graphs = drifting(3, 4, mixing=0.3, churn=0.2)
    for horizon, expected in (("off", 1.0), (2.0, 1.875), (20.0, 3.709875)):
        *_, last = found(graphs, BELIEFS, horizon)
        assert last.horizon == pytest.approx(expected)
    first, *_, last = found(drifting(3, 6, mixing=0.3, churn=0.2), BELIEFS, "auto")
    assert first.horizon == last.horizon == 1.0  # a fifth of the nodes moves in each window
    assert first.predicted_bits is None
    assert last.predicted_bits is not None
    assert last.predicted_bits > 0.3


def test_where_a_window_shows_little_several_together_show_more() -> None:
    settings = LfrSettings(n_nodes=1000, mixing=0.6)
    graphs = [graph for graph, _ in generate_drifting_lfr(5, 10, settings, 0.0, 0.0)]
    *_, believed = found(graphs, MODULARITY, "off")
    *_, last = found(graphs, MODULARITY, "auto")
    assert last.horizon > 1.5
    truth = graphs[-1].communities
    assert nmi(truth, last.communities) > nmi(truth, believed.communities) + 0.2


def test_a_search_frees_a_single_community_near_the_limit_of_what_can_be_found() -> None:
    """There no partition is shorter than one community, but it is close to the planted one."""
    settings = LfrSettings(n_nodes=500, mixing=0.6)
    graphs = [graph for graph, _ in generate_drifting_lfr(2, 3, settings, 0.1, 0.0)]
    search, memory = BpParameters(search=True), None
    for graph, k in zip(graphs, (1, None, None), strict=True):
        last = then(memory, graph.adjacency(), search, k, "auto")
        memory = last.memory
    assert nmi(graphs[-1].communities, last.communities) > 0.4
