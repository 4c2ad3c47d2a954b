"""Graphs that would cost far more than they say: isolated nodes, equal rows, a large K."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from stream_icd.core.errors import BadSettings
from stream_icd.methods.graphs.adjacency import as_adjacency
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.icd import clustering, features
from stream_icd.methods.icd.clustering import cluster
from stream_icd.methods.icd.features import supernodes
from stream_icd.methods.icd.recipe import Recipe
from stream_icd.methods.model import Model
from stream_icd.methods.quality.agreement import nmi
from stream_icd.streaming.detection.detect import detect, embed

PAIR = np.array([[1], [3]])


@pytest.fixture
def model(recipe: Recipe) -> Model:
    return Model(recipe)


def found(model: Model, edges: NDArray[np.int64], n_nodes: int, k: int | None) -> list[int]:
    return detect(as_adjacency((edges, n_nodes)), model, k, method="icd").communities.tolist()


def test_isolated_nodes_are_alone_where_k_is_unknown(model: Model) -> None:
    assert found(model, PAIR, 6, None) == [1, 0, 2, 0, 3, 4]


@pytest.mark.parametrize(
    ("k", "labels"),
    [
        (1, [0, 0, 0, 0, 0, 0]),
        (2, [1, 0, 1, 0, 1, 1]),
        (3, [2, 0, 2, 1, 2, 2]),
        (4, [2, 0, 3, 1, 2, 3]),
    ],
)
def test_isolated_nodes_are_one_community_of_a_k_given(
    model: Model, k: int, labels: list[int]
) -> None:
    expected, got = np.array(labels), np.array(found(model, PAIR, 6, k))
    assert nmi(expected, got) == 1.0
    assert set(got) == set(range(k))


def test_a_graph_of_isolated_nodes_only_has_an_answer(model: Model) -> None:
    nothing = np.empty((2, 0), np.int64)
    assert found(model, nothing, 3, None) == [0, 1, 2]
    assert found(model, nothing, 3, 2) == [0, 1, 0]
    assert found(model, nothing, 3, 1) == [0, 0, 0]
    with pytest.raises(BadSettings, match="1 to 3"):
        found(model, nothing, 3, 4)


def test_isolated_nodes_cost_no_clustering(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    clustered = []

    def counted(embedding, k, **options):  # type: ignore[no-untyped-def]
        clustered.append((len(embedding), k))
        return cluster(embedding, k, **options)

    monkeypatch.setattr("stream_icd.streaming.detection.detect.cluster", counted)
    assert len(set(found(model, PAIR, 30_000, None))) == 29_999
    assert clustered == [(2, 1)]


def test_isolated_nodes_change_nothing_for_the_others(graph: LabelledGraph, model: Model) -> None:
    more = graph.adjacency.copy()
    more.resize((400, 400))
    assert np.array_equal(embed(more, model)[:300], embed(graph.adjacency, model))
    assert not embed(more, model)[300:].any()
    with_others = detect(more, model, 16, method="icd").communities
    alone = detect(graph.adjacency, model, 15, method="icd").communities
    assert np.array_equal(with_others[:300], alone)
    assert set(with_others[300:]) == {15}


POINTS = {
    "all different": lambda rng: rng.standard_normal((400, 5)),
    "all equal": lambda _: np.ones((400, 5)),
    "mostly equal": lambda rng: np.where(np.arange(400)[:, None] < 390, 1.0, rng.random((400, 5))),
    "ever smaller": lambda _: 2.0 ** -np.arange(400)[:, None] * np.ones(5),
}


@pytest.mark.parametrize("k", [2, 150, 400])
@pytest.mark.parametrize("points", POINTS)
def test_large_clusterings_are_made_in_parts_of_exactly_k_in_all(
    points: str, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clustering, "_FLAT", 400)
    monkeypatch.setattr(clustering, "_FEWEST", 4)
    embedding = POINTS[points](np.random.default_rng(0)).astype(np.float32)
    labels = cluster(embedding, k)
    assert set(labels.tolist()) == set(range(k))
    assert np.array_equal(cluster(embedding, k, threads=2), labels)


def test_clusters_that_are_plain_are_found_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    truth = rng.integers(60, size=6000)
    points = rng.standard_normal((60, 40))[truth] + 0.05 * rng.standard_normal((6000, 40))
    monkeypatch.setattr(clustering, "_FLAT", 6000 * 10)
    monkeypatch.setattr(clustering, "_FEWEST", 10)
    assert nmi(truth, cluster(points.astype(np.float32), 60)) > 0.95


@pytest.mark.parametrize("work", [0, 10**11])
def test_iterations_are_bounded_by_the_work(work: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    points = rng.random((2000, 2)).astype(np.float32)  # no clusters: it would go on for long
    calls = []
    nearest = clustering._nearest
    monkeypatch.setattr(clustering, "_nearest", lambda *a: calls.append(1) or nearest(*a))
    monkeypatch.setattr(clustering, "_WORK", work)
    clustering._lloyd(points, points[:40], 1, work)
    assert (len(calls) > 8) == (work > 0)


def test_matchings_end_after_enough_work(monkeypatch: pytest.MonkeyPatch) -> None:
    leaves = np.arange(1, 500)
    star = as_adjacency((np.stack([np.zeros_like(leaves), leaves]), 500))
    calls = []
    match = features._match
    monkeypatch.setattr(features, "_match", lambda *a: calls.append(1) or match(*a))
    edges = np.zeros_like(leaves), leaves, star.data[:499]
    for work, n_passes in ((10**7, features._MAX_PASSES), (0, features._FEWEST_PASSES)):
        monkeypatch.setattr(features, "_WORK", work)
        calls.clear()
        assert set(supernodes(*edges, 500, 100).tolist()) == set(range(100))
        assert len(calls) == n_passes
