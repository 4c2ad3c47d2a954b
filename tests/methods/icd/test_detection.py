"""A frozen model finds the communities of any graph; K-means finds the clusters of its rows."""

from __future__ import annotations

import itertools

import networkx
import numpy as np
import pytest
from scipy.sparse import block_array, csr_array
from threadpoolctl import threadpool_info, threadpool_limits

from stream_icd.core.errors import BadSettings
from stream_icd.methods.bp.modularity import estimate_n_communities
from stream_icd.methods.graphs.adjacency import as_adjacency
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.icd import clustering
from stream_icd.methods.icd.clustering import cluster
from stream_icd.methods.icd.recipe import EDGES, Recipe
from stream_icd.methods.icd.row_blocks import product, single_threaded_blas
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


def test_with_the_encoder_edges_small_communities_are_counted(model: Model) -> None:
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


def test_an_unknown_method_is_refused(graph: LabelledGraph, model: Model) -> None:
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
def test_isolated_nodes_are_alone_or_one_community_of_k_and_cost_nothing(
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


both_clusterings = pytest.mark.parametrize("method", ["fast", "scikit-learn"])


def blobs(n: int, k: int, d: int, spread: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(k, size=n).astype(np.int32)
    points = rng.standard_normal((k, d))[labels] + spread * rng.standard_normal((n, d))
    return points.astype(np.float32), labels


def inertia(points: np.ndarray, labels: np.ndarray) -> float:
    centres = np.stack([points[labels == c].mean(axis=0) for c in range(labels.max() + 1)])
    return float(((points - centres[labels]) ** 2).sum())


@both_clusterings
def test_plain_clusters_are_found(method: str) -> None:
    points, labels = blobs(600, 12, 100, spread=0.2)
    found = cluster(points, 12, method=method)
    assert found.dtype == np.int32
    assert nmi(labels, found) > 0.999


def test_the_fast_method_is_as_good_as_scikit_learn_on_hard_clusters() -> None:
    points, _ = blobs(1500, 30, 100, spread=1.2)
    first, again, other = (cluster(points, 30, seed=seed) for seed in (5, 5, 6))
    reference = cluster(points, 30, method="scikit-learn")
    assert inertia(points, first) < 1.005 * inertia(points, reference)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.filterwarnings("ignore:Number of distinct clusters")
@both_clusterings
def test_no_community_is_empty_even_where_points_coincide(method: str) -> None:
    points, _ = blobs(60, 6, 5, spread=0)
    assert len(np.unique(points, axis=0)) == 6
    assert set(cluster(points, 8, method=method).tolist()) == set(range(8))
    same = np.zeros((10, 4), np.float32)
    assert set(cluster(same, 3, method=method).tolist()) == {0, 1, 2}


def test_k_is_from_one_to_one_a_node() -> None:
    points, _ = blobs(20, 4, 5, spread=0.1)
    assert not cluster(points, 1).any()
    assert sorted(cluster(points, 20).tolist()) == list(range(20))
    with pytest.raises(BadSettings, match="1 to 20"):
        cluster(points, 21)


POINTS = {
    "all different": lambda rng: rng.standard_normal((400, 5)),
    "all equal": lambda _: np.ones((400, 5)),
    "mostly equal": lambda rng: np.where(np.arange(400)[:, None] < 390, 1.0, rng.random((400, 5))),
    "ever smaller": lambda _: 2.0 ** -np.arange(400)[:, None] * np.ones(5),
}


@pytest.mark.parametrize("k", [2, 150, 400])
@pytest.mark.parametrize("points", POINTS)
def test_large_clusterings_are_made_in_parts_of_k_in_all(
    points: str, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clustering, "_FLAT", 400)
    monkeypatch.setattr(clustering, "_FEWEST", 4)
    embedding = POINTS[points](np.random.default_rng(0)).astype(np.float32)
    labels = cluster(embedding, k)
    assert set(labels.tolist()) == set(range(k))
    assert np.array_equal(cluster(embedding, k, threads=2), labels)
    plain, truth = blobs(3000, 60, 40, spread=0.05)
    monkeypatch.setattr(clustering, "_FLAT", 3000 * 10)
    assert nmi(truth, cluster(plain, 60)) > 0.95


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


def test_dense_products_are_right_and_no_thread_changes_a_bit() -> None:
    rng = np.random.default_rng(0)
    # Of several blocks; and with inner sums so long that a BLAS splits them over threads.
    for n, inner, m in ((2500, 30, 20), (300, 9000, 300)):
        left = rng.standard_normal((n, inner)).astype(np.float32)
        right = rng.standard_normal((inner, m)).astype(np.float32)
        answers = []
        for blas_threads in (1, 2):
            with threadpool_limits(blas_threads):
                answers += [product(left, right, threads=threads) for threads in (1, 2)]
        np.testing.assert_allclose(answers[0], left @ right, atol=1e-3)
        assert all(np.array_equal(answers[0], answer) for answer in answers)


def test_the_blas_gets_its_threads_back() -> None:
    def threads_of_blas() -> set[object]:
        return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}

    with threadpool_limits(2):
        with single_threaded_blas():
            assert threads_of_blas() == {1}
        assert threads_of_blas() == {2}
