"""What users of bp rely on: K, seeds, node order, weights, odd graphs, quality."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import block_diag, coo_array, csr_array

from stream_icd.core.errors import BadSettings
from stream_icd.methods.bp.find import find_communities
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.quality.agreement import nmi
from stream_icd.methods.quality.partition import modularity
from stream_icd.methods.synthetic.gn import generate_gn
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_lfr

BELIEFS = BpParameters(resolution=6.0, mixing=0.4, iterations=1)
EQUAL_BELIEFS = BpParameters(resolution=6.0, mixing=0.4, size_spread=0.0, iterations=1)
ALL_PARAMETERS = pytest.mark.parametrize(
    "parameters", [BpParameters(), BELIEFS, EQUAL_BELIEFS], ids=["modularity", "any", "equal"]
)


def graph_of(n_nodes: int, pairs: list[tuple[int, int]], weights: list[float]) -> csr_array:
    ends = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    apart = ends[:, 0] != ends[:, 1]
    rows, columns = ends[apart].T
    values = np.array(weights, dtype=np.float64)[apart]
    half = coo_array((values, (rows, columns)), (n_nodes, n_nodes))
    adjacency = (half + half.T).tocsr()
    adjacency.sort_indices()
    return adjacency


def cliques(*sizes: int) -> csr_array:
    adjacency = csr_array(block_diag([np.ones((size, size)) - np.eye(size) for size in sizes]))
    adjacency.eliminate_zeros()
    return adjacency


@st.composite
def small_graphs(draw: st.DrawFn) -> csr_array:
    n_nodes = draw(st.integers(1, 24))
    node = st.integers(0, n_nodes - 1)
    edges = draw(st.lists(st.tuples(st.tuples(node, node), st.floats(1e-3, 1e4)), max_size=60))
    return graph_of(n_nodes, [pair for pair, _ in edges], [weight for _, weight in edges])


@ALL_PARAMETERS
@settings(max_examples=60)
@given(adjacency=small_graphs(), data=st.data())
def test_exactly_k_communities_on_any_graph(
    parameters: BpParameters, adjacency: csr_array, data: st.DataObject
) -> None:
    n_communities = data.draw(st.integers(1, adjacency.shape[0]))
    labels = find_communities(adjacency, parameters, n_communities)
    assert labels.dtype == np.int32
    assert labels.shape == (adjacency.shape[0],)
    assert np.unique(labels).tolist() == list(range(n_communities))


@ALL_PARAMETERS
@pytest.mark.parametrize("n_communities", [1, 7, 60, 61, 119, 400])
def test_exactly_k_on_many_components_and_isolated_nodes(
    parameters: BpParameters, n_communities: int
) -> None:
    adjacency = csr_array(block_diag([cliques(*range(2, 27)), csr_array((50, 50))]))
    labels = find_communities(adjacency, parameters, n_communities)
    assert len(np.unique(labels)) == n_communities


def test_components_are_found_without_k_and_isolated_nodes_stay_alone() -> None:
    adjacency = csr_array(block_diag([cliques(4, 5, 6), csr_array((2, 2))]))
    labels = find_communities(adjacency, BpParameters())
    assert labels.tolist() == [0] * 4 + [1] * 5 + [2] * 6 + [3, 4]


@ALL_PARAMETERS
def test_graphs_without_edges_or_nodes_have_an_answer(parameters: BpParameters) -> None:
    assert find_communities(csr_array((1, 1)), parameters, 1).tolist() == [0]
    assert find_communities(csr_array((3, 3)), parameters).tolist() == [0, 1, 2]
    assert sorted(set(find_communities(csr_array((5, 5)), parameters, 2).tolist())) == [0, 1]
    assert find_communities(csr_array((0, 0)), parameters).tolist() == []


def test_merging_joins_what_belongs_together_most() -> None:
    # Two pairs of cliques, each pair held by three edges; single edges between the pairs.
    adjacency = cliques(6, 6, 6, 6).tolil()
    for a, b in [(0, 6), (1, 7), (2, 8), (12, 18), (13, 19), (14, 20), (5, 12), (11, 23)]:
        adjacency[a, b] = adjacency[b, a] = 1.0
    labels = find_communities(adjacency.tocsr(), BpParameters(resolution=4.0), 2)
    assert labels.tolist() == [0] * 12 + [1] * 12


def test_splitting_cuts_where_the_graph_is_thin() -> None:
    # At this resolution both cliques of the first pair are one community; K asks for them apart.
    adjacency = cliques(6, 6, 6).tolil()
    for a in range(6):
        adjacency[a, a + 6] = adjacency[a + 6, a] = 1.0
    labels = find_communities(adjacency.tocsr(), BpParameters(resolution=0.3), 3)
    assert labels.tolist() == [0] * 6 + [1] * 6 + [2] * 6


@pytest.mark.parametrize("n_communities", [0, -1, 11])
def test_k_outside_the_nodes_is_refused_with_its_range(n_communities: int) -> None:
    with pytest.raises(BadSettings, match="from 1 to 10"):
        find_communities(cliques(5, 5), BpParameters(), n_communities)


def test_clear_planted_communities_are_found() -> None:
    graph = generate_lfr(np.random.default_rng(21), LfrSettings(n_nodes=3000, mixing=0.3))
    parameters = BpParameters(8.0, 0.3, iterations=1)
    found = find_communities(graph.adjacency(), parameters, graph.n_communities)
    assert nmi(graph.communities, found) > 0.99


def test_beliefs_find_more_than_modularity_at_any_resolution() -> None:
    graph = generate_lfr(np.random.default_rng(21), LfrSettings(n_nodes=3000, mixing=0.55))
    adjacency, k = graph.adjacency(), graph.n_communities
    by_beliefs = find_communities(adjacency, BpParameters(8.0, 0.55, iterations=1), k)
    by_modularity = [
        nmi(graph.communities, find_communities(adjacency, BpParameters(resolution), k))
        for resolution in (1.0, 2.0, 4.0, 8.0)
    ]
    assert nmi(graph.communities, by_beliefs) > max(by_modularity) + 0.01


def test_equal_communities_are_found_better_when_told_that_sizes_differ_little() -> None:
    gains = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        graph = generate_gn(rng, n_nodes=2000, n_communities=100, p_in=0.3)
        spread, even = (
            find_communities(graph.adjacency(), BpParameters(12.0, 0.7, size_spread), 100)
            for size_spread in (0.5, 1.0)
        )
        gains.append(nmi(graph.communities, spread) - nmi(graph.communities, even))
    assert np.mean(gains) > 0


@ALL_PARAMETERS
def test_the_same_seed_gives_the_same_answer_in_any_thread(parameters: BpParameters) -> None:
    adjacency = generate_lfr(
        np.random.default_rng(3), LfrSettings(n_nodes=1500, mixing=0.5)
    ).adjacency()
    alone = find_communities(adjacency, parameters, 30, seed=7)
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(find_communities, adjacency, parameters, 30, seed=7) for _ in range(4)]
        assert all(np.array_equal(run.result(), alone) for run in runs)
    assert not np.array_equal(find_communities(adjacency, parameters, 30, seed=8), alone)


def test_the_graph_given_is_not_changed() -> None:
    adjacency = generate_lfr(np.random.default_rng(3), LfrSettings(n_nodes=500)).adjacency()
    before = adjacency.copy()
    find_communities(adjacency, BELIEFS, 12)
    assert (adjacency != before).nnz == 0


@ALL_PARAMETERS
def test_node_order_does_not_matter_where_structure_is_clear(
    parameters: BpParameters,
) -> None:
    adjacency = generate_gn(
        np.random.default_rng(11), n_nodes=400, n_communities=10, p_in=0.7, p_out=0.005
    ).adjacency()
    order = np.random.default_rng(0).permutation(400)
    labels, permuted = find_communities(adjacency, parameters, 10), None
    shuffled = csr_array(adjacency[order][:, order])
    shuffled.sort_indices()
    permuted = find_communities(shuffled, parameters, 10)
    assert nmi(labels[order], permuted) == 1.0


def test_node_order_hardly_matters_where_structure_is_weaker() -> None:
    graph = generate_lfr(np.random.default_rng(4), LfrSettings(n_nodes=3000, mixing=0.3))
    adjacency, order = graph.adjacency(), np.random.default_rng(1).permutation(3000)
    shuffled = csr_array(adjacency[order][:, order])
    shuffled.sort_indices()
    k, parameters = graph.n_communities, BpParameters(12.0, 0.3, iterations=1)
    labels, permuted = (
        find_communities(adjacency, parameters, k),
        find_communities(shuffled, parameters, k),
    )
    assert nmi(labels[order], permuted) > 0.99


@ALL_PARAMETERS
def test_weights_tell_communities_apart(parameters: BpParameters) -> None:
    graph = generate_gn(np.random.default_rng(6), n_nodes=600, n_communities=20, p_in=0.2)
    rows, columns = graph.edges
    inside = graph.communities[rows] == graph.communities[columns]
    weighted = graph_of(
        600, list(zip(rows, columns, strict=True)), np.where(inside, 1.5, 1.0).tolist()
    )
    with_weights = nmi(graph.communities, find_communities(weighted, parameters, 20))
    assert (
        with_weights
        > nmi(graph.communities, find_communities(graph.adjacency(), parameters, 20)) + 0.01
    )


def test_modularity_does_not_depend_on_the_unit_of_weight() -> None:
    adjacency = generate_lfr(np.random.default_rng(2), LfrSettings(n_nodes=800)).adjacency()
    labels = find_communities(adjacency, BpParameters())
    assert np.array_equal(find_communities(adjacency * 4.0, BpParameters()), labels)
    assert modularity(adjacency, labels) > 0.5


def test_heavy_weights_and_hubs_do_not_overflow() -> None:
    star = [(0, leaf) for leaf in range(1, 3000)]
    chain = [(leaf, leaf + 1) for leaf in range(1, 2999, 2)]
    adjacency = graph_of(3000, star + chain, [1e6] * len(star) + [1e-6] * len(chain))
    for parameters in (BELIEFS, EQUAL_BELIEFS):
        assert len(np.unique(find_communities(adjacency, parameters, 40))) == 40


def test_bp_starts_without_heavy_libraries() -> None:
    code = (
        "import sys; from stream_icd.methods.bp.find import find_communities; "
        "print({'torch', 'sklearn', 'matplotlib', 'igraph'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("resolution", 0.0),
        ("resolution", float("nan")),
        ("mixing", 0.0),
        ("mixing", 1.0),
        ("size_spread", 1.5),
        ("iterations", 0),
        ("sweeps", 0),
    ],
)
def test_parameters_are_checked_at_birth(name: str, value: float) -> None:
    with pytest.raises(BadSettings, match=name):
        BpParameters(**{name: value})  # type: ignore[arg-type]
