"""A frozen model finds the communities of any graph, also of one made to cost much."""

from __future__ import annotations

import itertools

import networkx
import numpy as np
import pytest
from scipy.sparse import block_array, csr_array

from stream_icd.core.errors import BadSettings
from stream_icd.methods.bp.modularity import estimate_n_communities
from stream_icd.methods.graphs.adjacency import as_adjacency
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.icd.clustering import cluster
from stream_icd.methods.icd.recipe import EDGES, Recipe
from stream_icd.methods.model import Method, Model
from stream_icd.methods.quality.agreement import nmi
from stream_icd.methods.synthetic.gn import generate_gn
from stream_icd.streaming.detection.detect import detect, embed

both_methods = pytest.mark.parametrize("method", ["bp", "icd"])
PAIR = as_adjacency((np.array([[1], [3]]), 6))
NO_EDGE = csr_array((5, 5))


@pytest.fixture(scope="module")
def model(recipe: Recipe) -> Model:
    return Model(recipe)


def found(adjacency: csr_array, model: Model, k: int | None = None) -> list[int]:
    return detect(adjacency, model, k, method="icd").communities.tolist()


@both_methods
def test_plain_communities_are_found_and_what_is_given_stays(
    graph: LabelledGraph, model: Model, method: Method
) -> None:
    adjacency = graph.adjacency.copy()
    weights = {name: weight.copy() for name, weight in model.weights.items()}
    communities = detect(graph.adjacency, model, 15, method=method).communities
    assert communities.dtype == np.int32
    assert set(communities.tolist()) == set(range(15))
    assert nmi(graph.labels, communities) > 0.9
    assert np.array_equal(adjacency.data, graph.adjacency.data)
    assert np.array_equal(adjacency.indices, graph.adjacency.indices)
    assert all(np.array_equal(weights[name], model.weights[name]) for name in weights)


def test_with_the_encoder_edges_description_length_counts_small_communities(
    model: Model,
) -> None:
    of_edges = Model(Recipe(name="edges", encoder=EDGES))
    cliques = as_adjacency(networkx.ring_of_cliques(60, 6))
    adjacency = as_adjacency(block_array([[cliques, None], [None, csr_array((3, 3))]]))
    assert max(found(adjacency, model)) + 1 < 60  # by modularity
    assert max(found(adjacency, of_edges)) + 1 == 60 + 3  # each isolated node is alone
    assert found(NO_EDGE, of_edges) == [0, 1, 2, 3, 4]


def test_stages_are_timed_by_the_clock_given(graph: LabelledGraph, model: Model) -> None:
    ticks = itertools.count(start=10.0, step=0.5)
    clock = lambda: next(ticks)  # noqa: E731
    icd = detect(graph.adjacency, model, 15, method="icd", clock=clock).milliseconds
    assert icd == {"features": 500, "encode": 500, "cluster": 500}
    bp = detect(graph.adjacency, model, 15, clock=clock).milliseconds
    assert bp == {"features": 0, "encode": 0, "cluster": 500}


def test_k_is_estimated_where_it_is_not_given(graph: LabelledGraph, model: Model) -> None:
    k = estimate_n_communities(graph.adjacency)
    assert len(set(found(graph.adjacency, model))) == k
    cliques = [c * 8 + np.argwhere(~np.eye(8, dtype=bool)).T for c in range(6)]
    adjacency = as_adjacency((np.concatenate(cliques, axis=1), 50))  # 48 and 49 are alone
    assert estimate_n_communities(adjacency) == 8


@both_methods
def test_a_k_or_mode_that_cannot_be_is_refused(
    graph: LabelledGraph, model: Model, method: Method
) -> None:
    with pytest.raises(BadSettings, match="300"):
        detect(graph.adjacency, model, 301, method=method)
    with pytest.raises(BadSettings, match="1 to 5"):
        detect(NO_EDGE, model, 6, method=method)
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


@pytest.mark.parametrize(
    ("k", "labels"),
    [
        (1, [0, 0, 0, 0, 0, 0]),
        (2, [1, 0, 1, 0, 1, 1]),
        (3, [2, 0, 2, 1, 2, 2]),
        (4, [2, 0, 3, 1, 2, 3]),
        (None, [1, 0, 2, 0, 3, 4]),
    ],
)
def test_isolated_nodes_are_alone_or_one_community_of_a_k_given_and_cost_no_clustering(
    model: Model, k: int | None, labels: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    communities = np.array(found(PAIR, model, k))
    assert nmi(np.array(labels), communities) == 1.0
    assert set(communities) == set(range(k or 5))
    clustered = []

    def counted(embedding, k, **options):  # type: ignore[no-untyped-def]
        clustered.append((len(embedding), k))
        return cluster(embedding, k, **options)

    monkeypatch.setattr("stream_icd.streaming.detection.detect.cluster", counted)
    more = PAIR.copy()
    more.resize((30_000, 30_000))
    assert len(set(found(more, model))) == 29_999
    assert clustered == [(2, 1)]
    assert found(NO_EDGE, model) == [0, 1, 2, 3, 4]
    assert len(set(found(NO_EDGE, model, 2))) == 2


def test_isolated_nodes_change_nothing_for_the_others(graph: LabelledGraph, model: Model) -> None:
    more = graph.adjacency.copy()
    more.resize((400, 400))
    assert np.array_equal(embed(more, model)[:300], embed(graph.adjacency, model))
    assert not embed(more, model)[300:].any()
    with_others = found(more, model, 16)
    assert with_others[:300] == found(graph.adjacency, model, 15)
    assert set(with_others[300:]) == {15}
