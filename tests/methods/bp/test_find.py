"""What users of bp rely on: K, seeds, node order, weights, odd graphs, quality, evidence."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from math import inf, nan

import networkx as nx
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from stream_icd.core.arrays import Labels
from stream_icd.core.errors import BadSettings
from stream_icd.methods.bp.belief_propagation import PlantedModel, believe
from stream_icd.methods.bp.evidence import Evidence, evidence_for
from stream_icd.methods.bp.find import find_communities
from stream_icd.methods.bp.level_graph import finest_level
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.graphs.adjacency import as_adjacency
from stream_icd.methods.memory.detect import detect_window
from stream_icd.methods.quality.agreement import nmi
from stream_icd.methods.quality.partition import description_length, modularity
from stream_icd.methods.synthetic.gn import generate_gn
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_lfr
from stream_icd.methods.synthetic.planted_graph import PlantedGraph
from tests.methods.bp.graphs import cliques, graph_of, labels_of, lfr, padded, shuffled
from tests.methods.memory.streams import hour, ids_of

MODULARITY, SEARCH = BpParameters(), BpParameters(search=True)
BELIEFS = BpParameters(resolution=6.0, mixing=0.4, iterations=1)
EQUAL_BELIEFS = BpParameters(resolution=6.0, mixing=0.4, size_spread=0.0, iterations=1)
ALL_PARAMETERS = pytest.mark.parametrize(
    "parameters",
    [MODULARITY, BELIEFS, EQUAL_BELIEFS, SEARCH],
    ids=["modularity", "any", "equal", "search"],
)


def gn(seed: int, n_nodes: int, k: int, p_in: float, p_out: float | None = None) -> PlantedGraph:
    return generate_gn(np.random.default_rng(seed), n_nodes, k, p_in, p_out)


def agrees(graph: PlantedGraph, parameters: BpParameters, k: int | None = None) -> float:
    """The NMI of planted communities and those found."""
    return nmi(graph.communities, find_communities(graph.adjacency(), parameters, k))


@st.composite
def small_graphs(draw: st.DrawFn) -> csr_array:
    n_nodes = draw(st.integers(1, 24))
    node = st.integers(0, n_nodes - 1)
    edges = draw(st.lists(st.tuples(node, node, st.floats(1e-3, 1e4)), max_size=60))
    starts, ends, weights = np.array(edges, np.float64).reshape(-1, 3).T
    return graph_of(n_nodes, np.stack([starts, ends]).astype(np.int64), weights)


@ALL_PARAMETERS
@settings(max_examples=60)
@given(adjacency=small_graphs(), data=st.data())
def test_exactly_k_communities(
    parameters: BpParameters, adjacency: csr_array, data: st.DataObject
) -> None:
    n_communities = data.draw(st.integers(1, adjacency.shape[0]))
    labels = find_communities(adjacency, parameters, n_communities)
    assert labels.dtype == np.int32
    assert labels.shape == (adjacency.shape[0],)
    assert np.unique(labels).tolist() == list(range(n_communities))


def test_k_outside_the_nodes_is_refused_with_its_range() -> None:
    with pytest.raises(BadSettings, match="from 1 to 10"):
        find_communities(cliques(5, 5), MODULARITY, 11)


@ALL_PARAMETERS
def test_nodes_without_edges_are_alone_unless_k_is_given(parameters: BpParameters) -> None:
    assert find_communities(csr_array((1, 1)), parameters, 1).tolist() == [0]
    assert find_communities(csr_array((3, 3)), parameters).tolist() == [0, 1, 2]
    assert sorted(set(find_communities(csr_array((5, 5)), parameters, 2).tolist())) == [0, 1]
    assert find_communities(csr_array((0, 0)), parameters).tolist() == []
    graph = lfr(3, 500, 0.2).adjacency()
    found = find_communities(padded(graph, 510), parameters)
    assert len(set(found[500:].tolist()) - set(found[:500].tolist())) == 10
    found = find_communities(cliques(4, 5, 6, 1, 1), parameters)
    assert found[15:].tolist() == [found[:15].max() + 1, found[:15].max() + 2]


def test_k_unites_what_belongs_together_most_and_cuts_where_the_graph_is_thin() -> None:
    # Two pairs of cliques, each pair held by three edges; single edges between the pairs.
    links = [(0, 6), (1, 7), (2, 8), (12, 18), (13, 19), (14, 20), (5, 12), (11, 23)]
    pairs = cliques(6, 6, 6, 6, links=links)
    found = find_communities(pairs, BpParameters(resolution=4.0), 2)
    assert found.tolist() == labels_of(12, 12).tolist()
    # At this resolution both cliques of the pair are one community; K asks for them apart.
    thin = cliques(6, 6, 6, links=[(node, node + 6) for node in range(6)])
    found = find_communities(thin, BpParameters(resolution=0.3), 3)
    assert found.tolist() == labels_of(6, 6, 6).tolist()
    # Far fewer communities than modularity finds are not only merged: that gives 0.539.
    adjacency = lfr(0, 2000).adjacency()
    assert modularity(adjacency, find_communities(adjacency, MODULARITY, 5)) > 0.54


@pytest.mark.parametrize("seed", range(3))
def test_too_many_communities_describe_no_worse_than_by_modularity(seed: int) -> None:
    random = np.random.default_rng(seed)
    parents = [int(random.integers(node) * random.random()) for node in range(1, 300)]
    tree = as_adjacency((np.array([parents, range(1, 300)]), 300))
    bits, by_modularity = (
        description_length(tree, find_communities(tree, parameters, 40))
        for parameters in (SEARCH, MODULARITY)
    )
    assert bits <= by_modularity + 0.01  # beliefs leave most of forty empty


STARS = nx.disjoint_union_all([nx.star_graph(60) for _ in range(5)])
STARS.add_edges_from((61 * i, 61 * ((i + 1) % 5)) for i in range(5))
"""Stars in a ring: their centres have most of the edges, as networks of the Internet have."""


@pytest.mark.parametrize(
    ("graph", "communities"),
    [
        (nx.complete_graph(3), labels_of(3)),
        (nx.complete_graph(30), labels_of(30)),
        (nx.star_graph(30_000), labels_of(30_001)),
        (STARS, labels_of(61, 61, 61, 61, 61)),
    ],
    ids=["triangle", "clique", "star", "ring of stars"],
)
def test_hubs_keep_their_communities_and_a_whole_stays_one(
    graph: nx.Graph, communities: Labels
) -> None:
    assert find_communities(as_adjacency(graph), SEARCH).tolist() == communities.tolist()


def test_beliefs_find_more_than_modularity_at_any_resolution() -> None:
    clear = lfr(21, 3000)
    assert agrees(clear, BpParameters(8.0, 0.3, iterations=1), clear.n_communities) > 0.99
    graph = lfr(22, 3000, 0.55)
    k = graph.n_communities
    by_modularity = [agrees(graph, BpParameters(one), k) for one in (1.0, 2.0, 4.0, 8.0)]
    by_beliefs = agrees(graph, BpParameters(8.0, 0.55, iterations=1), k)
    assert by_beliefs > max(by_modularity) + 0.01
    # Equal communities are found better if sizes are said to differ little, and without K.
    graphs = [gn(seed, 2000, 100, 0.3) for seed in range(4)]
    spread, even = (
        np.mean([agrees(graph, BpParameters(12.0, 0.7, size_spread), 100) for graph in graphs])
        for size_spread in (0.5, 1.0)
    )
    assert spread > even
    planted = gn(3, 2000, 100, 0.4)
    assert agrees(planted, SEARCH) > agrees(planted, SEARCH, 100) - 0.005


@ALL_PARAMETERS
def test_the_same_seed_gives_the_same_answer_in_any_thread(parameters: BpParameters) -> None:
    adjacency = lfr(3, 1500, 0.5).adjacency()
    before = adjacency.copy()
    alone = find_communities(adjacency, parameters, 30, seed=7)
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(find_communities, adjacency, parameters, 30, seed=7) for _ in range(4)]
        assert all(np.array_equal(run.result(), alone) for run in runs)
    assert not np.array_equal(find_communities(adjacency, parameters, 30, seed=8), alone)
    assert (adjacency != before).nnz == 0  # the graph given is not changed


@ALL_PARAMETERS
def test_node_order_does_not_matter_where_structure_is_clear(parameters: BpParameters) -> None:
    clear, weaker = gn(11, 400, 10, 0.7, 0.005), lfr(4, 3000)
    for graph, least in ((clear, 1.0), (weaker, 0.99 if parameters in (BELIEFS, SEARCH) else 0.9)):
        adjacency, k = graph.adjacency(), graph.n_communities
        order = np.random.default_rng(0).permutation(graph.n_nodes)
        labels = find_communities(adjacency, parameters, k)
        again = find_communities(shuffled(adjacency, order), parameters, k)
        assert nmi(labels[order], again) >= least


@ALL_PARAMETERS
def test_weights_tell_communities_apart(parameters: BpParameters) -> None:
    graph = gn(6, 600, 20, 0.2)
    inside = np.equal(*graph.communities[graph.edges])
    weighted = graph_of(600, graph.edges, np.where(inside, 1.5, 1.0))
    with_weights = nmi(graph.communities, find_communities(weighted, parameters, 20))
    assert with_weights > agrees(graph, parameters, 20) + 0.01


def test_parameters_are_checked_at_birth() -> None:
    wrong = {"resolution": (0.0, nan), "mixing": (0.0, 1.0), "size_spread": (1.5,)}
    wrong |= {"iterations": (0,), "sweeps": (0,), "search": (None, 1)}
    for name, values in wrong.items():
        for value in values:
            with pytest.raises(BadSettings, match=f"{name} must be"):
                BpParameters(**{name: value})


@pytest.mark.parametrize(("n_nodes", "mixing"), [(1000, 0.3), (5000, 0.3), (5000, 0.6)])
def test_the_search_finds_what_modularity_joins(n_nodes: int, mixing: float) -> None:
    graph = lfr(3, n_nodes, mixing)
    assert agrees(graph, SEARCH) > agrees(graph, MODULARITY) + 0.005


@pytest.mark.parametrize("seed", range(3))
def test_communities_too_weak_to_name_each_node_are_found(seed: int) -> None:
    """No partition saves bits here, not even the planted one: only beliefs over all of them do."""
    graph = lfr(seed, mixing=0.7)
    assert description_length(graph.adjacency(), graph.communities) > 0
    assert agrees(graph, SEARCH) > 0.35


@pytest.mark.parametrize(
    ("sizes", "gain"),
    [((2000, 5, 40, 3, 40), 0.07), ((250, 10, 20, 5, 20), 0.02), ((5000, 10, 100, 10, 1000), 1e-3)],
)
def test_small_communities_are_found_beside_large_ones(sizes: tuple[int, ...], gain: float) -> None:
    gains = []
    for seed in range(3, 6):
        graph = generate_lfr(np.random.default_rng(seed), LfrSettings(*sizes, mixing=0.25))
        gains.append(agrees(graph, SEARCH) - agrees(graph, MODULARITY))
    assert np.mean(gains) > gain


@pytest.mark.parametrize("graph", [lfr(5, 1500, 0.4), gn(5, 1000, 50, 0.4)], ids=["lfr", "gn"])
def test_no_resolution_alone_describes_a_graph_in_fewer_bits(graph: PlantedGraph) -> None:
    adjacency = graph.adjacency()
    found = description_length(adjacency, find_communities(adjacency, SEARCH))
    for resolution in (0.5, 1.0, 2.0, 4.0, 8.0, 16.0):
        labels = find_communities(adjacency, BpParameters(resolution, iterations=3))
        if labels.any():
            assert found <= description_length(adjacency, labels) + 0.01, resolution


def test_where_nothing_saves_bits_the_communities_are_those_of_modularity() -> None:
    """A tree of hubs, as discussions are: beliefs would put nearly all nodes into one community."""
    rng = np.random.default_rng(0)
    parents = [int(rng.integers(node)) if rng.random() > 0.6 else 0 for node in range(1, 1500)]
    tree = as_adjacency((np.array([np.arange(1, 1500), parents]), 1500))
    found = find_communities(tree, SEARCH)
    assert description_length(tree, found) > 0
    assert modularity(tree, found) > 0.2
    club = as_adjacency(nx.Graph(nx.karate_club_graph().edges))
    assert find_communities(club, SEARCH).max() + 1 == 2  # never one community only


def test_beliefs_without_doubt_cost_what_their_partition_costs() -> None:
    links = [(0, 12), (13, 22), (23, 30), (1, 31)]
    adjacency = cliques(12, 10, 8, 8, 1, 1, links=links)  # of the last two, edges say nothing
    graph, labels = finest_level(adjacency), labels_of(12, 10, 8, 8, 1, 1)
    mixing = 4 / (66 + 45 + 28 + 28 + 4)
    marginals = believe(graph, labels, 6, PlantedModel(mixing, 1.0, 6), 20)
    expected = description_length(adjacency, labels)
    assert marginals.bits(graph, 6) == pytest.approx(expected, abs=0.01)


def test_chance_saves_next_to_nothing_in_beliefs() -> None:
    """Random graphs have partitions of some modularity; beliefs in them fade."""
    for seed in range(5):
        adjacency = as_adjacency(nx.gnm_random_graph(1000, 5000, seed=seed))
        labels, level = find_communities(adjacency, SEARCH), finest_level(adjacency)
        assert (k := int(labels.max()) + 1) > 1
        assert believe(level, labels, k, PlantedModel(0.6, 1.0, k), 30).bits(level, k) > -0.03


@pytest.mark.filterwarnings("error")
def test_beliefs_that_are_spread_over_single_nodes_describe_nothing() -> None:
    pairs = cliques(*[2] * 30)
    found, level = find_communities(pairs, SEARCH), finest_level(pairs)
    assert np.array_equal(found[::2], found[1::2])
    alone = np.arange(60, dtype=np.int32)
    assert believe(level, alone, 60, PlantedModel(0.99, 1.0, 60), 8).bits(level, 60) == inf
    # None of 30,000 communities is probable for a leaf; the likeliest still counts.
    star = finest_level(as_adjacency(nx.star_graph(30_000)))
    alone, n_nodes = np.arange(star.n_nodes, dtype=np.int32), star.n_nodes
    marginals = believe(star, alone, n_nodes, PlantedModel(0.99, 1.0, n_nodes), 8)
    assert len(set(marginals.likeliest[1:].tolist())) == 1
    assert marginals.bits(star, n_nodes) > 0


STAYS = BpParameters(search=True, stay=0.5)


def sparse_planted(seed: int) -> csr_array:
    return as_adjacency(nx.planted_partition_graph(10, 20, 0.15, 0.005, seed=seed))


def pieces_of(adjacency: csr_array, labels: Labels) -> Labels:
    rows, columns = adjacency.tocoo().coords
    inside = labels[rows] == labels[columns]
    own = csr_array((np.ones(inside.sum()), (rows[inside], columns[inside])), adjacency.shape)
    pieces: Labels = connected_components(own, directed=False)[1]
    return pieces


def test_in_sparse_graphs_each_community_is_connected_and_no_linked_node_alone() -> None:
    for seed in range(20):
        adjacency = sparse_planted(seed)
        labels = find_communities(adjacency, STAYS)
        pieces, is_linked = pieces_of(adjacency, labels), np.diff(adjacency.indptr) > 0
        assert pieces.max() == labels.max()
        assert (np.bincount(pieces)[pieces][is_linked] > 1).all()


@pytest.mark.parametrize(
    "parameters",
    [STAYS, BpParameters(), BpParameters(resolution=6.0, mixing=0.4, iterations=1)],
    ids=["search", "modularity", "beliefs"],
)
@settings(max_examples=40)
@given(n_nodes=st.integers(2, 30), n_edges=st.integers(1, 60), seed=st.integers(0, 10**6))
def test_any_graph_has_connected_communities(
    parameters: BpParameters, n_nodes: int, n_edges: int, seed: int
) -> None:
    adjacency = as_adjacency(nx.gnm_random_graph(n_nodes, n_edges, seed=seed))
    labels = find_communities(adjacency, parameters)
    assert pieces_of(adjacency, labels).max() == labels.max()


@settings(max_examples=40)
@given(n_nodes=st.integers(3, 30), k=st.integers(1, 6), seed=st.integers(0, 10**6))
def test_with_k_only_whole_components_are_not_connected(n_nodes: int, k: int, seed: int) -> None:
    k = min(k, n_nodes)
    adjacency = as_adjacency(nx.gnm_random_graph(n_nodes, 2 * n_nodes, seed=seed))
    labels = find_communities(adjacency, STAYS, k)
    assert len(np.unique(labels)) == k
    pieces, components = pieces_of(adjacency, labels), connected_components(adjacency)[1]
    for community in range(k):
        own = np.unique(pieces[labels == community])
        assert len({components[pieces == piece][0] for piece in own}) == len(own)


@pytest.mark.parametrize("seed", [2, 3, 10, 13])
def test_on_a_stream_only_what_was_there_before_may_lack_a_link(seed: int) -> None:
    is_old = np.random.default_rng(seed).random(200) < 0.5
    nodes = np.where(is_old, np.arange(200), 1000 + np.arange(200))
    adjacency = shuffled(sparse_planted(100 + seed), np.argsort(nodes))
    nodes = np.sort(nodes)
    first = detect_window(sparse_planted(seed), pa.array(range(200)), hour(0), STAYS, horizon="off")
    second = detect_window(adjacency, pa.array(nodes), hour(1), STAYS, first.memory, horizon="off")
    stayed = np.zeros(200, np.bool_)
    stayed[: is_old.sum()] = (ids_of(second) == ids_of(first)[nodes % 1000])[: is_old.sum()]
    pieces, is_linked = pieces_of(adjacency, ids_of(second)), np.diff(adjacency.indptr) > 0
    for community in second.community_ids:
        own = np.unique(pieces[is_linked & (ids_of(second) == community)])
        assert len(own) == 1 or all(stayed[pieces == piece].any() for piece in own)


CLUB = as_adjacency(nx.Graph(nx.karate_club_graph().edges))
NONE = Evidence(0.0, "none")


def evidence(adjacency: csr_array) -> Evidence:
    return evidence_for(adjacency, find_communities(adjacency, BpParameters()))


@pytest.mark.parametrize(("n_nodes", "n_edges"), [(34, 78), (100, 300), (1000, 5000)])
def test_random_graphs_show_none(n_nodes: int, n_edges: int) -> None:
    graphs = (as_adjacency(nx.gnm_random_graph(n_nodes, n_edges, seed=one)) for one in range(40))
    assert sum(evidence(graph).strength == "none" for graph in graphs) >= 38


@pytest.mark.parametrize("mixing", [0.1, 0.3, 0.6])
def test_planted_communities_are_strong_and_vanish_when_rewired(mixing: float) -> None:
    planted = lfr(7, mixing=mixing).adjacency()
    assert evidence(planted).strength == "strong"
    degrees = np.diff(planted.indptr).tolist()  # the rest left to chance, by networkx's own swaps
    by_chance = nx.Graph(nx.expected_degree_graph(degrees, seed=1, selfloops=False))
    assert evidence(as_adjacency(by_chance)) == NONE


def test_a_small_graph_is_compared_with_rewired_ones() -> None:
    """The karate club's description is no shorter, but its modularity is far from chance's."""
    assert evidence(CLUB) == Evidence(0.0, "weak")
    n_none = 0
    for seed in range(20):
        rewired = nx.Graph(nx.karate_club_graph().edges)
        nx.double_edge_swap(rewired, nswap=300, max_tries=10_000, seed=seed)
        n_none += evidence(as_adjacency(rewired)) == NONE
    assert n_none >= 18


@pytest.mark.parametrize("order", [13, 15, 42])
def test_chance_does_not_decide_about_a_graph_near_the_threshold(order: int) -> None:
    """Nineteen rewired graphs alone find these orders of the same nodes above chance."""
    women = as_adjacency(nx.davis_southern_women_graph())
    at = np.random.default_rng(order).permutation(women.shape[0])
    assert evidence(shuffled(women, at)).strength == "none"


def test_nodes_without_edges_and_other_units_of_weight_cost_and_change_nothing() -> None:
    """150 edges among 300,000 declared nodes are a message of 306 kB."""
    n_nodes, linked = 300_000, 2_000 * np.arange(34)
    rows, columns = (linked[ends] for ends in CLUB.nonzero())
    sparse = csr_array((1e6 * CLUB.data, (rows, columns)), (n_nodes, n_nodes))
    labels = find_communities(CLUB, BpParameters())
    alone = labels.max() + 1 + np.arange(n_nodes, dtype=np.int32)
    alone[linked] = labels
    assert evidence_for(sparse, alone) == evidence_for(CLUB, labels) == Evidence(0.0, "weak")
    planted = lfr(7, 500, 0.2)
    adjacency, labels = planted.adjacency(), planted.communities
    assert evidence_for(adjacency * 1e6, labels) == evidence_for(adjacency, labels)


def test_too_fine_communities_count_by_their_best_merger() -> None:
    planted = lfr(7, 1000, 0.1)
    halves = 2 * planted.communities + np.arange(1000) % 2
    whole, fine = (evidence_for(planted.adjacency(), one) for one in (planted.communities, halves))
    assert fine.strength == "strong"
    assert fine.bits_saved == pytest.approx(whole.bits_saved, rel=0.05)


@pytest.mark.parametrize(
    "adjacency", [csr_array((0, 0)), csr_array((3, 3)), lfr(7, 500, 0.1).adjacency()]
)
def test_one_community_and_no_edges_are_no_evidence(adjacency: csr_array) -> None:
    assert evidence_for(adjacency, np.zeros(adjacency.shape[0], np.int32)) == NONE


def test_each_node_needs_a_community() -> None:
    four, labels = cliques(9, 9, 9, 9), labels_of(9, 9, 9, 9)
    assert evidence_for(four, labels.tolist()) == evidence_for(four, labels)
    for wrong in (labels[:5], np.append(labels, 4)):
        with pytest.raises(BadSettings, match="36 nodes need one community each"):
            evidence_for(four, wrong)
