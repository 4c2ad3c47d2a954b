"""A frozen model finds the communities of a graph it has never seen."""

from __future__ import annotations

import itertools

import networkx
import numpy as np
import pytest
from scipy.sparse import block_array, csr_array

from stream_icd.core.errors import BadSettings
from stream_icd.methods.bp.modularity import estimate_n_communities
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.graphs.adjacency import as_adjacency
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.icd.recipe import EDGES, Recipe
from stream_icd.methods.model import Method, Model
from stream_icd.methods.quality.agreement import nmi
from stream_icd.methods.synthetic.gn import generate_gn
from stream_icd.streaming.detection.detect import detect, embed


@pytest.fixture(scope="module")
def model(recipe: Recipe) -> Model:
    return Model(recipe)


both_methods = pytest.mark.parametrize("method", ["bp", "icd"])


@both_methods
def test_plain_communities_are_found(graph: LabelledGraph, model: Model, method: Method) -> None:
    found = detect(graph.adjacency, model, 15, method=method).communities
    assert found.dtype == np.int32
    assert set(found.tolist()) == set(range(15))
    assert nmi(graph.labels, found) > 0.9


def test_with_the_encoder_edges_description_length_counts_small_communities(
    model: Model,
) -> None:
    of_edges = Model(Recipe(name="edges", encoder=EDGES))
    cliques = as_adjacency(networkx.ring_of_cliques(60, 6))
    adjacency = as_adjacency(block_array([[cliques, None], [None, csr_array((3, 3))]]))
    by_modularity, by_bits = (
        detect(adjacency, one, method="icd").communities for one in (model, of_edges)
    )
    assert by_modularity.max() + 1 < 60
    assert by_bits.max() + 1 == 60 + 3  # each isolated node is alone
    assert detect(csr_array((4, 4)), of_edges, method="icd").communities.tolist() == [0, 1, 2, 3]


def test_each_mode_goes_its_own_way(graph: LabelledGraph, model: Model) -> None:
    blunt = Model(model.recipe, BpParameters(resolution=0.01))
    assert detect(graph.adjacency, blunt).communities.max() == 0
    assert detect(graph.adjacency, blunt, method="icd").communities.max() > 0


def test_stages_are_timed_by_the_clock_given(graph: LabelledGraph, model: Model) -> None:
    ticks = itertools.count(start=10.0, step=0.5)
    clock = lambda: next(ticks)  # noqa: E731
    icd = detect(graph.adjacency, model, 15, method="icd", clock=clock).milliseconds
    assert icd == {"features": 500, "encode": 500, "cluster": 500}
    bp = detect(graph.adjacency, model, 15, clock=clock).milliseconds
    assert bp == {"features": 0, "encode": 0, "cluster": 500}


@both_methods
def test_detection_does_not_change_what_it_is_given(
    graph: LabelledGraph, model: Model, method: Method
) -> None:
    adjacency = graph.adjacency.copy()
    weights = {name: weight.copy() for name, weight in model.weights.items()}
    detect(graph.adjacency, model, 15, method=method)
    assert np.array_equal(adjacency.data, graph.adjacency.data)
    assert np.array_equal(adjacency.indices, graph.adjacency.indices)
    assert all(np.array_equal(weights[name], model.weights[name]) for name in weights)


def test_k_is_estimated_where_it_is_not_given(graph: LabelledGraph, model: Model) -> None:
    found = detect(graph.adjacency, model, method="icd").communities
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


@both_methods
def test_a_graph_without_edges_still_gets_an_answer(model: Model, method: Method) -> None:
    adjacency = as_adjacency((np.empty((2, 0), dtype=np.int64), 5))
    assert detect(adjacency, model, 2, method=method).communities.shape == (5,)


@both_methods
def test_more_communities_than_nodes_are_refused(
    graph: LabelledGraph, model: Model, method: Method
) -> None:
    with pytest.raises(BadSettings, match="300"):
        detect(graph.adjacency, model, 301, method=method)


def test_an_unknown_mode_is_told_which_there_are(graph: LabelledGraph, model: Model) -> None:
    with pytest.raises(BadSettings, match="bp, icd"):
        detect(graph.adjacency, model, 15, method="exact")


@both_methods
def test_one_thread_and_two_give_the_same_answer(model: Model, method: Method) -> None:
    planted = generate_gn(np.random.default_rng(0), 2500, 50, 0.3, 0.004)
    one, two = (
        detect(planted.adjacency(), model, 50, method=method, threads=threads).communities
        for threads in (1, 2)
    )
    assert np.array_equal(one, two)
