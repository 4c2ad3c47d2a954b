"""Moves to the most likely community: the formula, node by node, and what they improve."""

from __future__ import annotations

from math import log

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream_icd.bp.level_graph import finest_level
from stream_icd.bp.likely_moves import move_to_likeliest
from stream_icd.graphs.adjacency import as_adjacency
from stream_icd.quality.nmi import nmi
from stream_icd.synthetic.lfr import generate_lfr


def one_sweep(adjacency: csr_array, labels: NDArray[np.int32], mixing: float) -> NDArray[np.int32]:
    """The formula of the docstring, summed from scratch for each node."""
    dense, labels = adjacency.toarray(), labels.copy()
    degrees = dense.sum(axis=1)
    for node in range(len(labels)):
        scores = {}
        for community in set(labels[dense[node] > 0].tolist()):
            inside = labels == community
            odds = 1 + (1 - mixing) / mixing * degrees.sum() / degrees[inside].sum()
            scores[community] = log(inside.sum()) + dense[node][inside].sum() * log(odds)
        labels[node] = max(scores, key=lambda one: scores[one], default=labels[node])
    return labels


@pytest.mark.parametrize("seed", range(6))
def test_a_sweep_moves_each_node_in_turn_by_the_formula(seed: int) -> None:
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((14, 14)) < 0.3, 1) * rng.uniform(0.5, 2, (14, 14))
    upper[:, -1] = 0  # an isolated node
    adjacency = csr_array(upper + upper.T)
    labels = rng.integers(0, 4, 14).astype(np.int32)
    found = move_to_likeliest(finest_level(adjacency), labels, 0.3, 1)
    expected = one_sweep(adjacency, labels, 0.3)
    assert nmi(expected, found.labels) == pytest.approx(1)
    assert found.moving == pytest.approx(np.mean(expected != labels))


def test_sweeps_repair_a_partition_with_errors_and_measure_its_mixing() -> None:
    graph = generate_lfr(np.random.default_rng(3), n_nodes=2000, mixing=0.3)
    rng = np.random.default_rng(0)
    wrong = rng.random(2000) < 0.3
    labels = np.where(wrong, rng.permutation(graph.communities), graph.communities)
    level = finest_level(graph.adjacency())
    found = move_to_likeliest(level, labels.astype(np.int32), 0.5, 6)
    assert nmi(graph.communities, found.labels) > 0.98
    assert found.mixing == pytest.approx(0.3, abs=0.01)
    assert found.moving < 0.01


def test_the_given_labels_stay_as_they_are() -> None:
    graph = finest_level(as_adjacency((np.array([[0, 1], [1, 2]]), 3)))
    labels = np.array([0, 1, 2], np.int32)
    move_to_likeliest(graph, labels, 0.3, 2)
    assert labels.tolist() == [0, 1, 2]


def test_graphs_without_edges_are_no_error() -> None:
    alone = np.arange(4, dtype=np.int32)
    found = move_to_likeliest(finest_level(csr_array((4, 4), dtype=float)), alone, 0.3, 2)
    assert found.labels.tolist() == alone.tolist()
    assert found.moving == 0
