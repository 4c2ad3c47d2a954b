"""K-means finds what is there, the same on any number of threads, with no empty community."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from stream_icd.core.errors import BadSettings
from stream_icd.methods.icd import clustering
from stream_icd.methods.icd.clustering import cluster
from stream_icd.methods.icd.row_blocks import product, single_threaded_blas
from stream_icd.methods.quality.agreement import nmi

both_methods = pytest.mark.parametrize("method", ["fast", "scikit-learn"])


def blobs(n: int, k: int, d: int, spread: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(k, size=n).astype(np.int32)
    points = rng.standard_normal((k, d))[labels] + spread * rng.standard_normal((n, d))
    return points.astype(np.float32), labels


def inertia(points: np.ndarray, labels: np.ndarray) -> float:
    centres = np.stack([points[labels == c].mean(axis=0) for c in range(labels.max() + 1)])
    return float(((points - centres[labels]) ** 2).sum())


@both_methods
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
@both_methods
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
    for k in (0, -1, 21):
        with pytest.raises(BadSettings, match="1 to 20"):
            cluster(points, k)


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
