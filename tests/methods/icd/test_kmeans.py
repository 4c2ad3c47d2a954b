"""K-means finds what is there, the same on any machine load, with no empty community."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from stream_icd.core.errors import BadSettings
from stream_icd.methods.icd.clustering import cluster
from stream_icd.methods.quality.agreement import nmi


def blobs(n: int, k: int, d: int, spread: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(k, size=n).astype(np.int32)
    points = rng.standard_normal((k, d))[labels] + spread * rng.standard_normal((n, d))
    return points.astype(np.float32), labels


def inertia(points: np.ndarray, labels: np.ndarray) -> float:
    centres = np.stack([points[labels == c].mean(axis=0) for c in range(labels.max() + 1)])
    return float(((points - centres[labels]) ** 2).sum())


@pytest.mark.parametrize("method", ["fast", "scikit-learn"])
def test_plain_clusters_are_found(method: str) -> None:
    points, labels = blobs(600, 12, 100, spread=0.2)
    found = cluster(points, 12, method=method)
    assert found.dtype == np.int32
    assert nmi(labels, found) > 0.999


def test_the_fast_method_is_as_good_as_scikit_learn_on_hard_clusters() -> None:
    points, _ = blobs(1500, 30, 100, spread=1.2)
    fast, reference = (
        inertia(points, cluster(points, 30, method=method)) for method in ("fast", "scikit-learn")
    )
    assert fast < 1.005 * reference


def test_the_same_seed_gives_the_same_answer_and_another_may_give_another() -> None:
    points, _ = blobs(400, 20, 80, spread=1.5)
    first, again, other = (cluster(points, 20, seed=seed) for seed in (5, 5, 6))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_one_thread_and_two_give_the_same_answer() -> None:
    points, _ = blobs(3000, 40, 200, spread=1.5)
    answers = []
    for threads in (1, 2):
        with threadpool_limits(threads):  # the machine's BLAS may use as many, too
            answers.append(cluster(points, 40, threads=threads))
    assert np.array_equal(*answers)


@pytest.mark.filterwarnings("ignore:Number of distinct clusters")
@pytest.mark.parametrize("method", ["fast", "scikit-learn"])
def test_no_community_is_empty_even_where_points_coincide(method: str) -> None:
    points, _ = blobs(60, 6, 5, spread=0)
    assert len(np.unique(points, axis=0)) == 6
    assert set(cluster(points, 8, method=method).tolist()) == set(range(8))
    same = np.zeros((10, 4), np.float32)
    assert set(cluster(same, 3, method=method).tolist()) == {0, 1, 2}


def test_one_community_and_one_a_node() -> None:
    points, _ = blobs(20, 4, 5, spread=0.1)
    assert not cluster(points, 1).any()
    assert sorted(cluster(points, 20).tolist()) == list(range(20))


@pytest.mark.parametrize("k", [0, -1, 21])
def test_k_out_of_range_is_refused(k: int) -> None:
    with pytest.raises(BadSettings, match="1 to 20"):
        cluster(np.zeros((20, 2), np.float32), k)
