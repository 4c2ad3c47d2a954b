"""The encoder edges: what it computes, on any graph, and that it runs without torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.icd.encoder.contract import Weights, projection
from stream_icd.methods.icd.encoder.edges import ROUNDS, Edges
from stream_icd.methods.icd.features import SparsePlusRankOne, model_features
from stream_icd.methods.icd.recipe import EncoderSettings, Recipe

HOPS, LAST_HOPS = 4, 10
SETTINGS = EncoderSettings(kind="edges", widths=(64, 16))


def z(adjacency: csr_array) -> SparsePlusRankOne:
    return model_features(adjacency, Recipe(name="edges", encoder=SETTINGS))


def random_weights(seed: int = 0) -> Weights:
    """Weights that correct every edge in every round."""
    rng = np.random.default_rng(seed)
    weights = Edges(SETTINGS).initial_weights(rng)
    weights["last"] = rng.normal(0, 0.1, weights["last"].shape).astype(np.float32)
    weights["mean"] = rng.normal(0, 0.3, weights["mean"].shape).astype(np.float32)
    weights["scale"] = rng.uniform(0.8, 2, weights["scale"].shape).astype(np.float32)
    return weights


def weighed(adjacency: csr_array, weights: Weights | None = None) -> Any:
    return Edges(SETTINGS).weigh(weights or random_weights(), z(adjacency), adjacency)


def embedded(adjacency: csr_array, weights: Weights | None = None) -> np.ndarray:
    return Edges(SETTINGS).embed(weights or random_weights(), z(adjacency), adjacency)


def weighted_graph(graph: LabelledGraph) -> csr_array:
    """The graph with weights from 0.5 to 3, equal in both directions."""
    adjacency = graph.adjacency.copy()
    rows = np.repeat(np.arange(adjacency.shape[0]), np.diff(adjacency.indptr))
    adjacency.data = 0.5 + (rows + adjacency.indices) % 6 / 2
    return adjacency


def dense_hops(weights: np.ndarray, features: np.ndarray, number: int) -> list[np.ndarray]:
    hidden, hops = features @ projection(features.shape[1], 16, number), []
    hidden /= np.linalg.norm(hidden, axis=1, keepdims=True)
    for _ in range(LAST_HOPS if number == ROUNDS else HOPS):
        hidden = weights * weights.sum(axis=1) ** -0.1 @ hidden
        hidden /= np.linalg.norm(hidden, axis=1, keepdims=True)
        hops.append(hidden)
    return hops


def mean_row(hops: list[np.ndarray]) -> np.ndarray:
    mean = np.mean(hops[len(hops) // 2 :], axis=0)
    return mean / np.linalg.norm(mean, axis=1, keepdims=True)


def dense_columns(
    adjacency: np.ndarray, log_odds: np.ndarray, features: np.ndarray, number: int
) -> np.ndarray:
    """The columns of all pairs of nodes, `(n_columns, n, n)`, as `edges._COLUMNS` names them."""
    there = adjacency > 0
    probability = there / (1 + np.exp(-log_odds))
    kept = adjacency * probability
    strengths, before, degrees = kept.sum(axis=1), adjacency.sum(axis=1), there.sum(axis=1)
    hops = dense_hops(kept, features, number)
    cosines = [hidden @ hidden.T for hidden in hops]
    typical = (there * cosines[-1]).sum(axis=1) / degrees
    common = kept @ kept
    both = np.sqrt(np.outer(strengths, strengths))
    raw = np.where(there, adjacency, 1)

    def ends(of_nodes: np.ndarray) -> list[np.ndarray]:
        return [each.outer(of_nodes, of_nodes) for each in (np.minimum, np.maximum)]

    return np.array(
        [
            *cosines,
            2 * cosines[-1] - np.add.outer(typical, typical),
            abs(np.subtract.outer(typical, typical)),
            np.log1p(common),
            common / both,
            log_odds,
            *ends(strengths / before),
            *ends((probability**2).sum(axis=1) / probability.sum(axis=1)),
            *ends(np.log(degrees)),
            np.log(raw),
            np.log(raw / np.sqrt(np.outer(before, before))),
        ]
    )


def dense_probabilities(
    adjacency: np.ndarray, features: np.ndarray, weights: Weights
) -> np.ndarray:
    """The probability of each pair after all rounds, as the equations say, from dense matrices."""
    log_odds = np.zeros_like(adjacency)
    for number in range(ROUNDS):
        one = {name: weight[number] for name, weight in weights.items() if len(weight) > 1}
        columns = dense_columns(adjacency, log_odds, features, number)
        hidden = (np.moveaxis(columns, 0, -1) - one["mean"]) / one["scale"]
        for layer in ("first", "second"):
            hidden = np.maximum(hidden @ one[layer] + one[f"{layer}_bias"], 0)
        log_odds = (log_odds + hidden @ one["last"][:-1] + one["last"][-1]).clip(-12, 12)
    return 1 / (1 + np.exp(-log_odds))


@pytest.mark.parametrize("with_weights", [False, True])
def test_it_computes_what_its_equations_say(graph: LabelledGraph, with_weights: bool) -> None:
    adjacency = weighted_graph(graph) if with_weights else graph.adjacency
    weights = random_weights()
    dense = adjacency.toarray()
    features = z(adjacency).toarray()
    probability = dense_probabilities(dense, features, weights)
    found = weighed(adjacency, weights)
    np.testing.assert_allclose(found.adjacency.toarray(), dense * probability, atol=2e-3)
    with_square = weights | {"power": np.array([2], np.float32)}
    squared = weighed(adjacency, with_square)
    np.testing.assert_allclose(squared.adjacency.toarray(), dense * probability**2, atol=4e-3)
    embedding = embedded(adjacency, weights)
    np.testing.assert_array_equal(embedded(adjacency, with_square), embedding)
    expected = mean_row(dense_hops(found.adjacency.toarray(), features, ROUNDS))
    np.testing.assert_allclose(embedding, expected, atol=1e-4)


def test_before_training_no_weight_changes(graph: LabelledGraph) -> None:
    untrained = Edges(SETTINGS).initial_weights(np.random.default_rng(0))
    found = weighed(graph.adjacency, untrained)
    np.testing.assert_array_equal(found.adjacency.toarray(), graph.adjacency.toarray() / 2)
    assert not found.log_odds.any()
    expected = mean_row(dense_hops(found.adjacency.toarray(), z(graph.adjacency).toarray(), ROUNDS))
    np.testing.assert_allclose(embedded(graph.adjacency, untrained), expected, atol=1e-5)


EDGE, STAR = np.ones((2, 2)) - np.eye(2), np.zeros((41, 41))
STAR[0, 1:] = STAR[1:, 0] = 1
CLIQUE = np.ones((4, 4)) - np.eye(4)


@pytest.mark.parametrize(
    "dense",
    [np.zeros((0, 0)), np.zeros((1, 1)), np.zeros((5, 5)), EDGE, np.kron(np.diag([1, 0, 1]), EDGE),
     STAR, 1e9 * CLIQUE, 1e-9 * CLIQUE],
    ids=["no node", "one node", "no edge", "one edge", "isolated", "star", "heavy", "light"],
)  # fmt: skip
def test_any_graph_has_finite_results(dense: np.ndarray) -> None:
    adjacency = csr_array(dense)
    embedding, found = embedded(adjacency), weighed(adjacency).adjacency
    assert embedding.shape == (len(dense), 16)
    assert np.isfinite(embedding).all()
    assert np.isfinite(found.data).all()
    assert (found != found.T).nnz == 0
    assert found.data.min(initial=1) > 0
    assert (found.shape, found.nnz) == (adjacency.shape, adjacency.nnz)
