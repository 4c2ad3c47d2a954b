"""What memory between windows promises: better communities, lasting ids, and nothing invented."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.special import gammaln

from stream_icd.core.arrays import NOBODY
from stream_icd.methods.bp.find import find_communities
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.memory.changes import moved
from stream_icd.methods.memory.detect import Remembered, detect_window
from stream_icd.methods.memory.horizon import Horizon
from stream_icd.methods.memory.memory import Memory
from stream_icd.methods.quality.agreement import nmi
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_drifting_lfr
from stream_icd.methods.synthetic.planted_graph import PlantedGraph
from tests.methods.bp.graphs import cliques, lfr, shuffled
from tests.methods.memory.streams import hour, ids_of, through_bytes

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
def test_without_memory_a_window_is_found_as_if_alone(parameters: BpParameters) -> None:
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
def test_the_larger_part_keeps_the_id_and_gives_it(parameters: BpParameters) -> None:
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


def test_graphs_without_nodes_or_edges_have_an_answer() -> None:
    assert then(None, csr_array((0, 0)), BELIEFS).communities.size == 0
    before = then(None, cliques(3, 3), BELIEFS)
    after = then(before.memory, csr_array((6, 6)), BELIEFS)
    assert sorted(set(after.communities)) == list(range(len(after.community_ids)))


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


EACH_HORIZON = pytest.mark.parametrize("horizon", ["auto", "off", 1, 5])
A, B, C = list(range(8)), list(range(10, 18)), list(range(20, 28))
"""Groups of eight nodes."""
Window = tuple[list[int], list[list[int]]]
"""Nodes, and groups of them each of which is a clique."""


def components(
    graph: csr_array,
    _k: int | None,
    before: NDArray[np.int32],
    _known: NDArray[np.int32] | None = None,
) -> NDArray[np.int32]:
    assert before.shape == (graph.shape[0],)
    return connected_components(graph)[1].astype(np.int32)


def detected(horizon: Horizon, *windows: Window) -> list[list[int]]:
    """The ids of nodes, window by window."""
    found, memory = [], None
    for number, (nodes, groups) in enumerate(windows):
        edges = np.zeros((len(nodes), len(nodes)))
        for group in groups:
            at = np.searchsorted(nodes, group)
            edges[np.ix_(at, at)] = 1 - np.eye(len(at))
        graph, ids = csr_array(edges), pa.array(nodes, pa.int64())
        memory = through_bytes(memory)
        now = detect_window(
            graph, ids, hour(number), BpParameters(), memory, horizon=horizon, find=components
        )
        memory = now.memory
        assert memory.posterior.shares.max(initial=0) <= 1
        found.append(ids_of(now).tolist())
    return found


@EACH_HORIZON
def test_ids_last_while_communities_and_edges_come_and_go(horizon: Horizon) -> None:
    all_three, two = (A + B + C, [A, B, C]), (A + B, [A, B])
    first, away, back = detected(horizon, all_three, two, all_three)
    assert first == back == [0] * 8 + [1] * 8 + [2] * 8
    assert away == [0] * 8 + [1] * 8
    # Node 10 has no edge any more, and 30 never had one.
    _, alone, nobody = detected(horizon, two, ([*A, 10, 30], [A]), ([*A, 30], []))
    assert (alone, nobody) == ([0] * 8 + [1, 2], [0] * 8 + [2])


def test_absent_nodes_follow_most_of_their_community_and_no_single_node() -> None:
    a, b = A[:6], B[:6]
    joined = [*a, *b[:3]]
    *_, merged, back = detected("off", (a + b, [a, b]), (joined, [joined]), (a + b, [joined]))
    assert set(merged) == set(back) == {0}
    joined = [*A, B[0]]
    *_, back = detected("off", (A + B, [A, B]), (joined, [joined]), (A + B, [joined, B[1:]]))
    assert back == [0] * 9 + [1] * 7


@pytest.mark.parametrize(("horizon", "decay"), [("off", 0.0), (1, 0.0), (5, 0.8)])
def test_the_method_sees_edges_of_earlier_windows_decayed(horizon: Horizon, decay: float) -> None:
    rng, shown, expected, found = np.random.default_rng(0), [], np.zeros((12, 12)), None

    def noted(graph: csr_array, *_: object) -> NDArray[np.int32]:
        shown.append(graph.toarray())
        return np.zeros(graph.shape[0], np.int32)

    for number in range(8):
        nodes = np.sort(rng.choice(12, 8, replace=False))
        drawn = np.triu(rng.random((8, 8)) < 0.5, 1)
        window = (drawn | drawn.T).astype(float)
        expected *= decay
        expected[np.ix_(nodes, nodes)] += window
        memory = None if found is None else through_bytes(found.memory)
        found = detect_window(
            csr_array(window), pa.array(nodes), hour(number), BpParameters(weight_exponent=1),
            memory, horizon=horizon, find=noted,
        )  # fmt: skip
        linked = np.flatnonzero(expected.any(axis=0))
        assert shown[-1] == pytest.approx(expected[np.ix_(linked, linked)], rel=0.01)
        assert found.horizon == pytest.approx(sum(decay**age for age in range(number + 1)))


@EACH_HORIZON
def test_one_node_and_none(horizon: Horizon) -> None:
    one, nobody = ([7], []), ([], [])
    assert detected(horizon, one, nobody, one) == [[0], [], [0]]
    assert detected(horizon, nobody, ([7, 8], [[7, 8]])) == [[], [0, 0]]


def planted(rng: np.random.Generator, labels: np.ndarray, inside: float, out: float) -> csr_array:
    chances = np.where(labels[:, None] == labels, inside, out)
    upper = np.triu(rng.random(chances.shape) < chances, 1).astype(float)
    return csr_array(upper + upper.T)


def bits_of(graph: csr_array, labels: np.ndarray, mixing: float) -> float:
    """Description of the edges and the partition, up to a constant, one community at a time."""
    dense = graph.toarray() * (graph.nnz / graph.sum())
    seen = dense.sum(axis=1) > 0
    total, nats = dense.sum(), 0.0
    names, sizes = np.unique(labels[seen], return_counts=True)
    for name, size in zip(names, sizes, strict=True):
        members = labels == name
        volume, edges = dense[members].sum(), dense[members][:, members].sum() / 2
        nats -= edges * np.log(1 + (1 - mixing) / mixing * total / volume) + gammaln(size + 1)
    n, k = int(seen.sum()), len(names)
    nats += gammaln(n) - gammaln(k) - gammaln(n - k + 1)
    return nats / np.log(2)


def mixing_of(graph: csr_array, labels: np.ndarray) -> float:
    dense = graph.toarray() * (graph.nnz / graph.sum())
    out = dense[labels[:, None] != labels].sum() / 2
    return (out + 0.5) / (dense.sum() / 2 + 1)


@pytest.mark.parametrize("weighted", [False, True])
def test_bits_are_those_of_describing_the_window_with_the_change_undone(weighted: bool) -> None:
    rng = np.random.default_rng(3)
    before = np.repeat([10, 11, 12, 13], 25)
    now = before.copy()
    now[before == 11] = 10  # 11 went into 10
    now[75:85] = 20  # a part of 13 is new
    now[50:54] = 13  # some of 12 went to 13
    now[0] = 12  # one alone is not told
    graph = planted(rng, now, 0.4, 0.03)
    if weighted:
        heavy = np.triu(rng.random(graph.shape) + 0.5, 1)
        graph = csr_array(graph.multiply(heavy + heavy.T))
    ids, labels = np.unique(now, return_inverse=True)
    found = moved(graph, labels.astype(np.int32), ids, before, 20)
    told = {tuple(pair): bits for pair, bits in zip(found.pairs.tolist(), found.bits, strict=True)}
    assert list(told) == [(-1, 20), (11, 10), (12, 13), (13, 20)]
    mixing = mixing_of(graph, now)
    as_it_is = bits_of(graph, now, mixing)
    for (left, to), bits in told.items():
        undone = now.copy()
        if left != -1:
            undone[(before == left) & (now == to)] = left
            assert bits == pytest.approx(bits_of(graph, undone, mixing) - as_it_is, abs=2e-3)
    links = {
        other: graph[np.flatnonzero(now == 20)][:, np.flatnonzero(now == other)].sum()
        for other in (10, 12, 13)
    }
    undone = np.where(now == 20, max(links, key=lambda one: links[one]), now)
    expected = bits_of(graph, undone, mixing) - as_it_is
    assert told[-1, 20] == pytest.approx(expected, abs=2e-3)


def test_ids_may_be_as_large_as_they_get() -> None:
    graph = planted(np.random.default_rng(2), np.repeat([0, 1], 20), 0.5, 0.02)
    before = np.repeat([10**15 - 3, 10**15 - 2], 20)
    ids = np.arange(10**15 - 50_000, 10**15 - 30_000)
    labels = np.repeat([7, 19_999], 20)
    found = moved(graph, labels.astype(np.int32), ids, before, 10**15)
    assert found.pairs.tolist() == [[10**15 - 3, ids[7]], [10**15 - 2, ids[19_999]]]


def test_nothing_changed_and_nothing_there_tell_nothing() -> None:
    graph = planted(np.random.default_rng(1), np.repeat([0, 1], 20), 0.5, 0.02)
    same = np.repeat([0, 1], 20)
    assert moved(graph, same.astype(np.int32), np.array([0, 1]), same, 2).pairs.shape == (0, 2)
    empty = csr_array((4, 4))
    nothing = moved(empty, np.zeros(4, np.int32), np.array([7]), np.array([3, 3, 3, 3]), 7)
    assert nothing.pairs.shape == (0, 2)
