"""Agreement of partitions, and their quality in a graph, against other libraries and sums."""

from __future__ import annotations

from itertools import combinations, permutations, product
from math import log2

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from scipy.sparse import block_diag, coo_array, csr_array, csr_matrix
from sklearn.metrics import adjusted_mutual_info_score, normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix

from stream_icd.core.errors import BadSettings
from stream_icd.methods.quality import agreement
from stream_icd.methods.quality.agreement import accuracy, ami, nmi
from stream_icd.methods.quality.partition import (
    HiddenEdges,
    description_length,
    hide_edges,
    modularity,
    ncut,
)
from stream_icd.methods.synthetic.gn import generate_gn

EACH_AGREEMENT = pytest.mark.parametrize("metric", [nmi, ami, accuracy])


@st.composite
def partition_pairs(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    n_nodes = draw(st.integers(1, 40))
    labels = st.lists(st.integers(0, 6), min_size=n_nodes, max_size=n_nodes)
    return np.array(draw(labels), dtype=np.int32), np.array(draw(labels), dtype=np.int32)


def best_assignment(truth: np.ndarray, found: np.ndarray) -> float:
    table = contingency_matrix(truth, found)
    return float(table[linear_sum_assignment(-table)].sum() / len(truth))


@given(partition_pairs())
def test_agreements_are_those_of_other_libraries(pair: tuple[np.ndarray, np.ndarray]) -> None:
    assert nmi(*pair) == pytest.approx(normalized_mutual_info_score(*pair), abs=1e-12)
    assert ami(*pair) == pytest.approx(adjusted_mutual_info_score(*pair), abs=1e-9)
    assert accuracy(*pair) == pytest.approx(best_assignment(*pair))


@pytest.mark.parametrize(("k_truth", "k_found"), [(300, 300), (20, 400), (400, 20)])
def test_accuracy_is_the_dense_assignments_at_any_k(k_truth: int, k_found: int) -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(k_truth, size=5000)
    found = np.where(rng.random(5000) < 0.6, truth, rng.integers(k_found, size=5000)) % k_found
    assert accuracy(truth, found) == best_assignment(truth, found)


def test_accuracy_of_similar_partitions_needs_no_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(agreement, "min_weight_full_bipartite_matching")
    rng, alone = np.random.default_rng(0), np.arange(5000)
    assert accuracy(alone, rng.permutation(alone)) == 1.0
    pairs, moves = alone // 2, rng.random(5000) < 0.05
    moved = np.where(moves, rng.integers(2500, size=5000), pairs)
    assert accuracy(pairs, moved) == best_assignment(pairs, moved)


@EACH_AGREEMENT
@given(pair=partition_pairs(), seed=st.integers(0, 99))
def test_names_and_order_of_communities_do_not_matter(metric, pair, seed) -> None:  # type: ignore[no-untyped-def]
    truth, found = pair
    renamed = np.random.default_rng(seed).permutation(100)[found] * 7
    assert metric(truth, renamed) == pytest.approx(metric(truth, found))
    assert metric(found, truth) == pytest.approx(metric(truth, found))
    assert metric(truth, truth) == pytest.approx(1.0)


@pytest.mark.parametrize(("metric", "at_least"), [(nmi, 0.0), (ami, 0.0), (accuracy, 1 / 6)])
def test_values_where_a_partition_says_nothing(metric, at_least: float) -> None:  # type: ignore[no-untyped-def]
    one, all_alone, nobody = np.zeros(6, np.int32), np.arange(6), np.empty(0, np.int32)
    assert metric(one, one) == metric(all_alone, all_alone) == metric(nobody, nobody) == 1.0
    assert metric(one, all_alone) == pytest.approx(at_least)
    assert metric(all_alone, one) == pytest.approx(at_least)
    # A partition may be a list, also of labels above int64.
    assert metric([0, 0, 1, 1], [3, 3, 2, 2]) == metric([], []) == 1.0
    assert metric([1 << 63, (1 << 64) - 1, 1 << 63], [0, 1, 0]) == 1.0


@EACH_AGREEMENT
def test_partitions_that_do_not_fit_are_refused(metric) -> None:  # type: ignore[no-untyped-def]
    other_length, two_dimensional = np.zeros(4, np.int32), np.zeros((5, 1), np.int32)
    for wrong in (other_length, two_dimensional, np.zeros(5), list("abcde")):
        with pytest.raises(BadSettings):
            metric(np.zeros(5, np.int32), wrong)


Case = tuple[csr_array, np.ndarray]
TRIANGLES = csr_array(block_diag([np.ones((3, 3)) - np.eye(3)] * 2))
TRUTH = np.arange(6) // 3


def hidden_score(adjacency: csr_array, labels: np.ndarray) -> float:
    """The score of the first tenth of the edges."""
    return next(hide_edges(adjacency)).score(labels)


EACH_QUALITY = pytest.mark.parametrize(
    "metric", [modularity, ncut, description_length, hidden_score]
)


@st.composite
def weighted_graphs(draw: st.DrawFn, most_nodes: int = 15) -> Case:
    """Weighted graphs with isolated nodes, and labels with gaps."""
    n_nodes = draw(st.integers(0, most_nodes))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    upper = np.triu(rng.random((n_nodes, n_nodes)) < draw(st.floats(0, 1)), 1)
    weights = upper * rng.uniform(0.1, 5.0, (n_nodes, n_nodes))
    labels = rng.integers(draw(st.integers(1, max(n_nodes, 1))), size=n_nodes, dtype=np.int32)
    return csr_array(weights + weights.T), labels * 3


@given(weighted_graphs(), st.floats(0, 4))
def test_modularity_and_ncut_are_networkxs(case: Case, resolution: float) -> None:
    adjacency, labels = case
    graph = nx.from_scipy_sparse_array(adjacency)
    groups = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    expected = nx.community.modularity(graph, groups, resolution=resolution) if graph.size() else 0
    assert modularity(adjacency, labels, resolution) == pytest.approx(expected, abs=1e-9)
    expected = sum(
        nx.cut_size(graph, members, weight="weight") / volume / 2
        for members in groups
        if (volume := nx.volume(graph, members, weight="weight"))
    )
    assert ncut(adjacency, labels) == pytest.approx(expected, abs=1e-9)


def likelihood_ratio(adjacency: csr_array, labels: np.ndarray, i: int, j: int, mu: float) -> float:
    """How many times likelier the planted model makes an edge than no communities do."""
    strengths = adjacency.toarray().sum(axis=0)
    total, volume = strengths.sum(), strengths[labels == labels[i]].sum()
    pair = strengths[i] * strengths[j]
    planted = mu * pair / total + (labels[i] == labels[j]) * (1 - mu) * pair / volume
    return float(planted / (pair / total))


@given(weighted_graphs(7))
def test_description_length_counts_every_edge_and_every_arrangement(case: Case) -> None:
    adjacency, labels = case
    dense = adjacency.toarray()
    pairs = combinations(range(len(labels)), 2)
    edges = [(i, j, dense[i, j]) for i, j in pairs if dense[i, j] > 0]
    linked = labels[dense.sum(axis=0) > 0] if edges else labels[:0]
    k, n_nodes = len(np.unique(linked)), len(linked)
    if k <= 1:
        assert description_length(adjacency, labels) == 0.0
        return
    weight = sum(w for _, _, w in edges)
    mu = sum(w for i, j, w in edges if labels[i] != labels[j]) / weight
    saved = sum(w * log2(likelihood_ratio(adjacency, labels, i, j, mu)) for i, j, w in edges)
    arrangements = len(set(permutations(linked.tolist())))
    sizes = [s for s in product(range(1, n_nodes + 1), repeat=k) if sum(s) == n_nodes]
    code = log2(arrangements) + log2(len(sizes)) + log2(n_nodes)
    expected = code / len(edges) - saved / weight
    assert description_length(adjacency, labels) == pytest.approx(expected, abs=1e-9)


def best_on_a_grid(hidden: HiddenEdges, labels: np.ndarray) -> float | None:
    """The score by trying 2,000 mixings; None without edges between nodes that are seen."""
    seen = hidden.visible.toarray().sum(axis=0) > 0
    pairs = [
        (w, likelihood_ratio(hidden.visible, labels, i, j, 0.0))
        for i, j, w in zip(*hidden.ends.tolist(), hidden.weights, strict=True)
        if seen[i] and seen[j]
    ]
    if not pairs:
        return None
    weights, lift = np.array(pairs).T
    mixings = np.linspace(0, 1, 2001)[1:, None]
    means = np.average(np.log2(mixings + (1 - mixings) * lift), axis=1, weights=weights)
    return float(means.max())


@given(weighted_graphs(7), st.integers(0, 100))
def test_each_edge_is_hidden_once_and_scored_with_the_best_mixing(case: Case, seed: int) -> None:
    adjacency, labels = case
    dense, hidden_times = adjacency.toarray(), np.zeros(adjacency.shape)
    for hidden in hide_edges(adjacency, seed, parts=3):
        only_hidden = np.zeros(adjacency.shape)
        only_hidden[tuple(hidden.ends)] = hidden.weights
        only_hidden += only_hidden.T
        assert np.array_equal(hidden.visible.toarray() + only_hidden, dense)
        hidden_times += only_hidden > 0
        best, score = best_on_a_grid(hidden, labels), hidden.score(labels)
        if best is None:
            assert score == 0.0
        else:  # a grid can only miss the best mixing, by little
            assert best - 1e-9 <= score <= best + 0.01
    assert np.array_equal(hidden_times, dense > 0)


@EACH_QUALITY
@given(case=weighted_graphs(7), unit=st.floats(0.01, 100))
def test_the_unit_of_the_weights_does_not_matter(metric, case: Case, unit: float) -> None:  # type: ignore[no-untyped-def]
    adjacency, labels = case
    scaled = metric(csr_array(adjacency * unit), labels)
    assert scaled == pytest.approx(metric(adjacency, labels), abs=1e-6)


@EACH_QUALITY
def test_a_graph_without_edges_is_zero_and_stored_zeros_are_no_edges(metric) -> None:  # type: ignore[no-untyped-def]
    for n_nodes in (0, 1, 5):
        assert metric(csr_array((n_nodes, n_nodes)), np.arange(n_nodes)) == 0.0
    with_zeros = csr_array(TRIANGLES.toarray() + 1)
    with_zeros.data -= 1
    assert metric(with_zeros, TRUTH) == metric(TRIANGLES, TRUTH)
    if metric is not hidden_score:
        assert metric(csr_matrix(TRIANGLES), TRUTH) == metric(TRIANGLES, TRUTH)


def test_float32_weights_are_summed_in_double() -> None:
    rng = np.random.default_rng(0)
    upper = np.triu(rng.random((300, 300)), 1).astype(np.float32)
    single, labels = csr_array(upper + upper.T), rng.integers(20, size=300)
    double = single.astype(float)
    for metric in (modularity, ncut):
        assert metric(single, labels) == pytest.approx(metric(double, labels), rel=1e-12)


def test_true_communities_beat_coarser_finer_and_shuffled_ones() -> None:
    rng = np.random.default_rng(0)
    planted = generate_gn(rng, n_nodes=400, n_communities=16, p_in=0.5)
    adjacency, truth = planted.adjacency(), planted.communities
    shuffled = rng.permutation(truth)
    for other in (truth // 2, 2 * truth + rng.integers(2, size=400), shuffled):
        assert description_length(adjacency, truth) < description_length(adjacency, other)
        assert hidden_score(adjacency, truth) > hidden_score(adjacency, other)
    assert description_length(adjacency, shuffled) > 0  # it costs more than it saves
    assert hidden_score(adjacency, shuffled) < 0.05


@EACH_QUALITY
def test_a_graph_and_labels_that_do_not_fit_are_refused(metric) -> None:  # type: ignore[no-untyped-def]
    for wrong in (TRUTH[:5], TRUTH.astype(float), TRUTH[:, None]):
        with pytest.raises(BadSettings):
            metric(TRIANGLES, wrong)
    if metric is not hidden_score:
        for wrong_graph in (csr_array((5, 5)), csr_array((6, 5)), coo_array((6, 6)), np.eye(6)):
            with pytest.raises(BadSettings):
                metric(wrong_graph, TRUTH)
    with pytest.raises(BadSettings, match="2 or more"):
        next(hide_edges(TRIANGLES, parts=1))
