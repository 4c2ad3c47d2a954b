"""A frozen model finds the communities of a graph it has never seen."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from stream_icd.errors import BadSettings
from stream_icd.icd.detection import detect, embed
from stream_icd.icd.estimate import estimate_n_communities
from stream_icd.icd.graphs import as_adjacency
from stream_icd.icd.labelled_graph import LabelledGraph
from stream_icd.icd.model import Model, initial_model
from stream_icd.icd.recipe import Recipe
from stream_icd.quality.nmi import nmi


@pytest.fixture(scope="module")
def model(recipe: Recipe) -> Model:
    return initial_model(recipe)


def test_plain_communities_are_found(graph: LabelledGraph, model: Model) -> None:
    found = detect(graph.adjacency, model, 15).communities
    assert found.dtype == np.int32
    assert set(found.tolist()) == set(range(15))
    assert nmi(graph.labels, found) > 0.9


def test_stages_are_timed_by_the_clock_given(graph: LabelledGraph, model: Model) -> None:
    ticks = itertools.count(start=10.0, step=0.5)
    times = detect(graph.adjacency, model, 15, clock=lambda: next(ticks)).milliseconds
    assert times == {"features": 500, "encode": 500, "cluster": 500}


def test_detection_does_not_change_what_it_is_given(graph: LabelledGraph, model: Model) -> None:
    adjacency = graph.adjacency.copy()
    weights = {name: weight.copy() for name, weight in model.weights.items()}
    detect(graph.adjacency, model, 15)
    assert np.array_equal(adjacency.data, graph.adjacency.data)
    assert np.array_equal(adjacency.indices, graph.adjacency.indices)
    assert all(np.array_equal(weights[name], model.weights[name]) for name in weights)


def test_k_is_estimated_where_it_is_not_given(graph: LabelledGraph, model: Model) -> None:
    found = detect(graph.adjacency, model).communities
    assert len(set(found.tolist())) == estimate_n_communities(graph.adjacency)


def test_the_estimate_counts_plain_communities_and_isolated_nodes() -> None:
    cliques = [c * 8 + np.argwhere(~np.eye(8, dtype=bool)).T for c in range(6)]
    adjacency = as_adjacency((np.concatenate(cliques, axis=1), 50))  # 48 and 49 are alone
    assert estimate_n_communities(adjacency) == 8


def test_graphs_of_any_size_are_embedded_alike(model: Model) -> None:
    for n in (3, 128, 500):
        ring = np.arange(n)
        adjacency = as_adjacency((np.stack([ring, (ring + 1) % n]), n))
        assert embed(adjacency, model).shape == (n, 32)
        assert np.isfinite(embed(adjacency, model)).all()


def test_a_graph_without_edges_still_gets_an_answer(model: Model) -> None:
    adjacency = as_adjacency((np.empty((2, 0), dtype=np.int64), 5))
    assert detect(adjacency, model, 2).communities.shape == (5,)


def test_more_communities_than_nodes_are_refused(graph: LabelledGraph, model: Model) -> None:
    with pytest.raises(BadSettings, match="1 to 300"):
        detect(graph.adjacency, model, 301)
