"""Modularity and NCut, against networkx and dense matrices."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_array, csr_array

from stream_icd.core.errors import BadSettings
from stream_icd.methods.quality.partition import modularity, ncut

METRICS = [modularity, ncut]
TRIANGLES = [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5), (2, 3)]


def graph_of(edges: list[tuple[int, int]], n_nodes: int) -> csr_array:
    dense = np.zeros((n_nodes, n_nodes))
    for first, second in edges:
        dense[first, second] = dense[second, first] = 1.0
    return csr_array(dense)


@st.composite
def weighted_graphs(draw: st.DrawFn) -> tuple[csr_array, np.ndarray]:
    """Weighted graphs with isolated nodes, and labels with gaps."""
    n_nodes = draw(st.integers(1, 15))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    upper = np.triu(rng.random((n_nodes, n_nodes)) < draw(st.floats(0, 1)), 1)
    weights = upper * rng.uniform(0.1, 5.0, (n_nodes, n_nodes))
    labels = rng.integers(draw(st.integers(1, n_nodes)), size=n_nodes, dtype=np.int32)
    return csr_array(weights + weights.T), labels * 3


@given(weighted_graphs(), st.floats(0, 4))
def test_modularity_is_networkxs(case: tuple[csr_array, np.ndarray], resolution: float) -> None:
    adjacency, labels = case
    if adjacency.nnz == 0:
        assert modularity(adjacency, labels, resolution) == 0.0
        return
    expected = nx.community.modularity(
        nx.from_scipy_sparse_array(adjacency),
        [set(np.flatnonzero(labels == label)) for label in np.unique(labels)],
        resolution=resolution,
    )
    assert modularity(adjacency, labels, resolution) == pytest.approx(expected, abs=1e-9)


@given(weighted_graphs())
def test_ncut_is_half_the_sum_of_conductances_of_volume(
    case: tuple[csr_array, np.ndarray],
) -> None:
    adjacency, labels = case
    graph = nx.from_scipy_sparse_array(adjacency)
    expected = 0.0
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        if volume := nx.volume(graph, members, weight="weight"):
            expected += nx.cut_size(graph, members, weight="weight") / volume / 2
    assert ncut(adjacency, labels) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("metric", METRICS)
def test_isolated_nodes_change_nothing(metric) -> None:  # type: ignore[no-untyped-def]
    labels = np.repeat([0, 1], 3)
    alone = metric(graph_of(TRIANGLES, 8), np.append(labels, [2, 3]))
    with_others = metric(graph_of(TRIANGLES, 8), np.append(labels, [0, 1]))
    assert alone == with_others == metric(graph_of(TRIANGLES, 6), labels)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("n_nodes", [0, 5])
def test_a_graph_without_edges_is_zero(metric, n_nodes: int) -> None:  # type: ignore[no-untyped-def]
    assert metric(csr_array((n_nodes, n_nodes)), np.arange(n_nodes)) == 0.0


@pytest.mark.parametrize("metric", METRICS)
def test_float32_weights_are_summed_in_double(metric) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(0)
    upper = np.triu(rng.random((300, 300)), 1).astype(np.float32)
    single, labels = csr_array(upper + upper.T), rng.integers(20, size=300)
    assert metric(single, labels) == pytest.approx(metric(single.astype(float), labels), rel=1e-12)


@pytest.mark.parametrize("metric", METRICS)
def test_a_graph_and_labels_that_do_not_fit_are_refused(metric) -> None:  # type: ignore[no-untyped-def]
    adjacency, labels = graph_of(TRIANGLES, 6), np.zeros(6, dtype=np.int32)
    for wrong_graph in (csr_array((5, 5)), csr_array((6, 5)), coo_array((6, 6)), np.eye(6)):
        with pytest.raises(BadSettings):
            metric(wrong_graph, labels)
    for wrong_labels in (labels[:5], labels.astype(float), labels[:, None]):
        with pytest.raises(BadSettings):
            metric(adjacency, wrong_labels)
