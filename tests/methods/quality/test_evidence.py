"""Description length and hidden edges, against sums over every edge and every arrangement."""

from __future__ import annotations

from itertools import combinations, permutations, product
from math import log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import block_diag, csr_array, csr_matrix

from stream_icd.core.errors import BadSettings
from stream_icd.methods.quality.hidden_edges import hidden_edge_score, hide_edges
from stream_icd.methods.quality.partition import description_length
from stream_icd.methods.synthetic.gn import generate_gn

TRIANGLES = csr_array(block_diag([np.ones((3, 3)) - np.eye(3)] * 2))


@st.composite
def weighted_graphs(draw: st.DrawFn) -> tuple[csr_array, np.ndarray]:
    """Weighted graphs with isolated nodes, and labels with gaps."""
    n_nodes = draw(st.integers(0, 7))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    upper = np.triu(rng.random((n_nodes, n_nodes)) < draw(st.floats(0, 1)), 1)
    weights = upper * rng.uniform(0.1, 5.0, (n_nodes, n_nodes))
    labels = rng.integers(draw(st.integers(1, max(n_nodes, 1))), size=n_nodes, dtype=np.int32)
    return csr_array(weights + weights.T), labels * 3


def edges_of(adjacency: csr_array) -> list[tuple[int, int, float]]:
    dense, n_nodes = adjacency.toarray(), adjacency.shape[0]
    pairs = combinations(range(n_nodes), 2)
    return [(i, j, dense[i, j]) for i, j in pairs if dense[i, j] > 0]


def likelihood_ratio(adjacency: csr_array, labels: np.ndarray, i: int, j: int, mu: float) -> float:
    """How many times likelier the planted model makes an edge than no communities do."""
    strengths = adjacency.toarray().sum(axis=0)
    total, volume = strengths.sum(), strengths[labels == labels[i]].sum()
    pair = strengths[i] * strengths[j]
    planted = mu * pair / total + (labels[i] == labels[j]) * (1 - mu) * pair / volume
    return float(planted / (pair / total))


@given(weighted_graphs())
def test_description_length_counts_every_edge_and_every_arrangement(
    case: tuple[csr_array, np.ndarray],
) -> None:
    adjacency, labels = case
    edges = edges_of(adjacency)
    linked = labels[adjacency.toarray().sum(axis=0) > 0] if edges else labels[:0]
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


@given(weighted_graphs(), st.integers(0, 100))
def test_hidden_edge_score_is_the_best_mean_over_all_mixings(
    case: tuple[csr_array, np.ndarray], seed: int
) -> None:
    adjacency, labels = case
    for hidden in hide_edges(adjacency, seed, parts=3):
        seen = hidden.visible.toarray().sum(axis=0) > 0
        pairs = [
            (w, likelihood_ratio(hidden.visible, labels, i, j, 0.0))
            for i, j, w in zip(*hidden.ends.tolist(), hidden.weights, strict=True)
            if seen[i] and seen[j]
        ]
        score = hidden_edge_score(hidden, labels)
        if not pairs:
            assert score == 0.0
            continue
        weights, lift = np.array(pairs).T
        mixings = np.linspace(0, 1, 2001)[1:, None]
        means = np.average(np.log2(mixings + (1 - mixings) * lift), axis=1, weights=weights)
        # A grid can only miss the best mixing, by little.
        assert means.max() - 1e-9 <= score <= means.max() + 0.01


@given(weighted_graphs(), st.integers(0, 100))
def test_each_edge_is_hidden_once_and_seen_otherwise(
    case: tuple[csr_array, np.ndarray], seed: int
) -> None:
    adjacency, _ = case
    hidden_times = np.zeros(adjacency.shape)
    for hidden in hide_edges(adjacency, seed, parts=4):
        only_hidden = np.zeros(adjacency.shape)
        only_hidden[tuple(hidden.ends)] = hidden.weights
        only_hidden += only_hidden.T
        assert np.array_equal(hidden.visible.toarray() + only_hidden, adjacency.toarray())
        hidden_times += only_hidden > 0
    assert np.array_equal(hidden_times, adjacency.toarray() > 0)


@given(weighted_graphs(), st.floats(0.01, 100))
def test_the_unit_of_the_weights_does_not_matter(
    case: tuple[csr_array, np.ndarray], unit: float
) -> None:
    adjacency, labels = case
    scaled = csr_array(adjacency * unit)
    assert description_length(scaled, labels) == pytest.approx(
        description_length(adjacency, labels), abs=1e-9
    )
    for edges, two in zip(hide_edges(adjacency), hide_edges(scaled), strict=True):
        assert hidden_edge_score(two, labels) == pytest.approx(
            hidden_edge_score(edges, labels), abs=1e-6
        )


def test_stored_zeros_are_no_edges() -> None:
    padded = csr_array(TRIANGLES.toarray() + 1)
    padded.data -= 1
    truth = np.arange(6) // 3
    assert description_length(padded, truth) == description_length(
        csr_array(padded.toarray()), truth
    )
    assert sum(len(hidden.weights) for hidden in hide_edges(padded)) == 6


@pytest.mark.parametrize("n_nodes", [0, 1, 3])
def test_a_graph_without_edges_says_nothing(n_nodes: int) -> None:
    empty, labels = csr_array((n_nodes, n_nodes)), np.arange(n_nodes)
    assert description_length(empty, labels) == 0.0
    assert [hidden_edge_score(edge, labels) for edge in hide_edges(empty)] == [0.0] * 10


def test_true_communities_beat_coarser_finer_and_shuffled_ones() -> None:
    rng = np.random.default_rng(0)
    planted = generate_gn(rng, n_nodes=400, n_communities=16, p_in=0.5)
    adjacency, truth = planted.adjacency(), planted.communities
    others = [truth // 2, 2 * truth + rng.integers(2, size=400), rng.permutation(truth)]
    (hidden, *_) = hide_edges(adjacency)
    for other in others:
        assert description_length(adjacency, truth) < description_length(adjacency, other)
        assert hidden_edge_score(hidden, truth) > hidden_edge_score(hidden, other)
    assert description_length(adjacency, others[2]) > 0  # no evidence: it costs more than it saves
    assert hidden_edge_score(hidden, others[2]) < 0.05


def test_a_csr_matrix_has_the_description_length_of_its_array() -> None:
    communities = np.arange(6) // 3
    expected = description_length(TRIANGLES, communities)
    assert description_length(csr_matrix(TRIANGLES), communities) == expected


def test_labels_that_do_not_fit_are_refused() -> None:
    with pytest.raises(BadSettings, match="as many rows"):
        description_length(TRIANGLES, np.zeros(5, np.int32))
    (hidden, *_) = hide_edges(TRIANGLES)
    with pytest.raises(BadSettings, match="as many rows"):
        hidden_edge_score(hidden, np.zeros(5, np.int32))
    with pytest.raises(BadSettings, match="2 or more"):
        next(hide_edges(TRIANGLES, parts=1))
