"""K-means: an embedding's rows to K communities."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream_icd.errors import BadSettings
from stream_icd.icd.recipe import Clustering
from stream_icd.icd.row_blocks import Floats32, for_blocks, product, single_threaded_blas

Labels = NDArray[np.int32]

SEED_DIMENSIONS = 128
"""Principal components that the fast method's seeds are chosen in. With 64, communities that are
smaller than others go unseen: 97.3 instead of 98.1 NMI on LFR graphs."""

TRIALS = 20
"""Points drawn for each seed, of which the best is taken; scikit-learn draws 2 + ln K."""

MAX_ITERATIONS = 100


def cluster(
    embedding: Floats32,
    n_communities: int,
    *,
    method: Clustering = "fast",
    seed: int = 0,
    threads: int = 1,
) -> Labels:
    """K-means of the rows, `(n,)` int32 in 0..K-1 (paper, algorithm 4).

    "scikit-learn" is what the authors' scripts call: `KMeans(n_init=10)` in float64. "fast"
    is ours, tens of times faster at equal quality: greedy k-means++ seeds and a first descent
    in the leading principal components, then Lloyd's iterations on the whole embedding.

    The same seed gives the same answer, for "fast" on any number of threads.

    Args:
        embedding: U, `(n, d)` float32, finite.
        n_communities: K, from 1 to n.

    Raises:
        BadSettings: K out of range.
    """
    n = len(embedding)
    if not 1 <= n_communities <= n:
        raise BadSettings(
            f"{n} nodes cannot form {n_communities} communities; give K from 1 to {n}"
        )
    if method == "scikit-learn":
        return _scikit_learn(embedding, n_communities, seed)
    return _fast(embedding, n_communities, np.random.default_rng(seed), threads)


def _scikit_learn(embedding: Floats32, k: int, seed: int) -> Labels:
    from sklearn.cluster import KMeans

    kmeans = KMeans(n_clusters=k, n_init=10, random_state=seed)
    labels: Labels = kmeans.fit_predict(embedding.astype(np.float64)).astype(np.int32)
    return labels


def _fast(embedding: Floats32, k: int, rng: np.random.Generator, threads: int) -> Labels:
    with single_threaded_blas():
        leading = principal_components(embedding, SEED_DIMENSIONS, threads)
        seeds = greedy_seeds(leading, k, rng)
    rough = _lloyd(leading, seeds, threads)
    return _lloyd(embedding, _centres(embedding, rough, k), threads)


def principal_components(points: Floats32, n_components: int, threads: int = 1) -> Floats32:
    """The points in their leading principal axes, `(n, n_components)`; as they are if fewer."""
    if points.shape[1] <= n_components:
        return points
    centred = points - points.mean(axis=0)
    axes = np.linalg.eigh(centred.T @ centred)[1][:, -n_components:]
    return product(centred, np.ascontiguousarray(axes), threads)


def greedy_seeds(points: Floats32, k: int, rng: np.random.Generator) -> Floats32:
    """K centres `(k, d)` by greedy k-means++ (Arthur and Vassilvitskii, SODA 2007).

    Each next centre is the best of `TRIALS` points drawn by their squared distance to the
    centres so far.
    """
    squares = np.einsum("ij,ij->i", points, points)
    chosen = [int(rng.integers(len(points)))]
    nearest = _distances(points, squares, chosen)[0]
    draws = rng.random((k, TRIALS))
    for draw in draws[1:]:
        reach = np.cumsum(nearest, dtype=np.float64)
        candidates = np.searchsorted(reach, draw * reach[-1]).clip(max=len(points) - 1)
        distances = np.minimum(_distances(points, squares, candidates), nearest)
        best = int(distances.sum(axis=1).argmin())
        nearest = distances[best]
        chosen.append(int(candidates[best]))
    return points[chosen]


def _distances(
    points: Floats32, squares: Floats32, chosen: list[int] | NDArray[np.int64]
) -> Floats32:
    """Squared distances from the chosen points to all, `(n_chosen, n)`, never negative."""
    distances = squares - 2 * (points[chosen] @ points.T) + squares[chosen, None]
    nonnegative: Floats32 = np.maximum(distances, 0, out=distances)
    return nonnegative


def _lloyd(points: Floats32, centres: Floats32, threads: int) -> Labels:
    """Lloyd's iterations until no label changes."""
    labels = np.full(len(points), -1, np.int32)
    for _ in range(MAX_ITERATIONS):
        following = _nearest(points, centres, threads)
        if np.array_equal(following, labels):
            break
        labels = following
        centres = _centres(points, labels, len(centres))
    return labels


def _nearest(points: Floats32, centres: Floats32, threads: int) -> Labels:
    """The nearest centre of each point; an empty cluster takes the point farthest from its."""
    labels = np.empty(len(points), np.int32)
    scores = np.empty(len(points), np.float32)
    offset = np.einsum("ij,ij->i", centres, centres) / 2
    turned = np.ascontiguousarray(centres.T)

    def fill(rows: slice) -> None:
        score = points[rows] @ turned
        score -= offset
        labels[rows] = score.argmax(axis=1)
        scores[rows] = score.max(axis=1)

    for_blocks(fill, len(points), threads)
    empty = np.flatnonzero(np.bincount(labels, minlength=len(centres)) == 0)
    if len(empty):
        distances = np.einsum("ij,ij->i", points, points) / 2 - scores
        labels[np.argsort(-distances, kind="stable")[: len(empty)]] = empty
    return labels


def _centres(points: Floats32, labels: Labels, k: int) -> Floats32:
    """Mean of each cluster's points, `(k, d)`."""
    order = np.argsort(labels, kind="stable")
    sizes = np.bincount(labels, minlength=k)
    ends = np.concatenate([[0], np.cumsum(sizes)])
    members = csr_array((np.ones(len(points), np.float32), order, ends), shape=(k, len(points)))
    means: Floats32 = (members @ points) / np.maximum(sizes, 1)[:, None].astype(np.float32)
    return means
