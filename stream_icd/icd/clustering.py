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

MAX_ITERATIONS, FEWEST_ITERATIONS, WORK = 100, 8, 10**11
"""Lloyd's iterations: at most the first, and fewer, but never less than the second, where
n K d times their number would be above the third. 5,000 nodes in 250 communities keep all 100."""

FLAT, FEWEST = 2 * 10**7, 64
"""Up to this many products n K, one K-means is made of all; above, K-means of at most FLAT / n
clusters, or FEWEST if that is more, are made of parts of the rows."""

SAMPLE = 64
"""Rows for each part that the parts' centres are made from."""

PART_TRIALS, FEW_ROWS = 4, 8
"""As `TRIALS`, for the clusters of a part; with fewer rows than the second for each cluster, seeds
are random rows."""

DEEPEST = 4
"""Times that parts are cut into parts by K-means."""


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
    in the leading principal components, then Lloyd's iterations on the whole embedding. Its time
    is bounded, see `FLAT` and `WORK`: what large graphs or a large K get is a good deal rougher.

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
    n = len(embedding)
    if n * k <= FLAT:
        return _flat(embedding, k, rng, threads)
    with single_threaded_blas():
        leading = principal_components(embedding, SEED_DIMENSIONS, threads)
    return _in_parts(leading, k, max(FLAT // n, FEWEST), WORK // n, rng, threads)


def _flat(embedding: Floats32, k: int, rng: np.random.Generator, threads: int) -> Labels:
    with single_threaded_blas():
        leading = principal_components(embedding, SEED_DIMENSIONS, threads)
        seeds = greedy_seeds(leading, k, rng)
    rough = _lloyd(leading, seeds, threads)
    return _lloyd(embedding, _centres(embedding, rough, k), threads)


def _in_parts(
    points: Floats32,
    k: int,
    most: int,
    work_per_row: int,
    rng: np.random.Generator,
    threads: int,
    deepest: int = DEEPEST,
) -> Labels:
    """K-means of at most `most` clusters at a time: parts first, then clusters in each part.

    So the time grows with n log K instead of n K. Parts of very different sizes would need many
    levels; after the deepest, the rows are cut in their order, which always ends.
    """
    if k <= most:
        return _lloyd(points, _part_seeds(points, k, rng), threads, work_per_row * len(points))
    n_parts = min(most, -(-k // most))
    part = _parts(points, n_parts, rng, threads) if deepest else _even(points, n_parts)
    labels, n_labels = np.empty(len(points), np.int32), 0
    sizes = np.bincount(part)
    members = np.split(np.argsort(part, kind="stable"), np.cumsum(sizes)[:-1])
    for rows, share in zip(members, _shares(sizes, k).tolist(), strict=True):
        inside = _in_parts(points[rows], share, most, work_per_row, rng, threads, deepest - 1)
        labels[rows] = n_labels + inside
        n_labels += share
    return labels


def _part_seeds(points: Floats32, k: int, rng: np.random.Generator) -> Floats32:
    """Greedy seeds from fewer draws; random rows where clusters are of a few rows only."""
    if len(points) < FEW_ROWS * k:
        return points[rng.choice(len(points), k, replace=False)]
    with single_threaded_blas():
        return greedy_seeds(points, k, rng, PART_TRIALS)


def _parts(points: Floats32, n_parts: int, rng: np.random.Generator, threads: int) -> Labels:
    """The rows by their nearest of `n_parts` centres, which are those of a sample."""
    n_sampled = min(len(points), SAMPLE * n_parts)
    sample = points[rng.choice(len(points), n_sampled, replace=False)]
    seeds = _part_seeds(sample, n_parts, rng)
    centres = _centres(sample, _lloyd(sample, seeds, threads), n_parts)
    return _nearest(points, centres, threads)


def _even(points: Floats32, n_parts: int) -> Labels:
    """Parts of equal sizes, in the order of the rows."""
    n = len(points)
    return (np.arange(n) * n_parts // n).astype(np.int32)


def _shares(sizes: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """How many of K clusters each part gets: by its size, from 1 to its size, K in all."""
    extra = (sizes - 1) * (k - len(sizes))
    rest = max(int(sizes.sum()) - len(sizes), 1)
    shares: NDArray[np.int64] = 1 + extra // rest
    shares[np.argsort(-(extra % rest), kind="stable")[: k - int(shares.sum())]] += 1
    return shares


def principal_components(points: Floats32, n_components: int, threads: int = 1) -> Floats32:
    """The points in their leading principal axes, `(n, n_components)`; as they are if fewer."""
    if points.shape[1] <= n_components:
        return points
    centred = points - points.mean(axis=0)
    axes = np.linalg.eigh(centred.T @ centred)[1][:, -n_components:]
    return product(centred, np.ascontiguousarray(axes), threads)


def greedy_seeds(
    points: Floats32, k: int, rng: np.random.Generator, trials: int = TRIALS
) -> Floats32:
    """K centres `(k, d)` by greedy k-means++ (Arthur and Vassilvitskii, SODA 2007).

    Each next centre is the best of `trials` points drawn by their squared distance to the
    centres so far.
    """
    squares = np.einsum("ij,ij->i", points, points)
    chosen = [int(rng.integers(len(points)))]
    nearest = _distances(points, squares, chosen)[0]
    draws = rng.random((k, trials))
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


def _lloyd(points: Floats32, centres: Floats32, threads: int, most_work: int = WORK) -> Labels:
    """Lloyd's iterations until no label changes, or enough work was done."""
    labels = np.full(len(points), -1, np.int32)
    work = points.size * len(centres)
    for _ in range(min(MAX_ITERATIONS, max(most_work // work, FEWEST_ITERATIONS))):
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
        farthest = np.argsort(-distances, kind="stable")
        # The last of each cluster, its nearest point, stays: a cluster filled empties no other.
        _, nearest = np.unique(labels[farthest[::-1]], return_index=True)
        leaving = np.delete(farthest, len(points) - 1 - nearest)
        labels[leaving[: len(empty)]] = empty
    return labels


def _centres(points: Floats32, labels: Labels, k: int) -> Floats32:
    """Mean of each cluster's points, `(k, d)`."""
    order = np.argsort(labels, kind="stable")
    sizes = np.bincount(labels, minlength=k)
    ends = np.concatenate([[0], np.cumsum(sizes)])
    members = csr_array((np.ones(len(points), np.float32), order, ends), shape=(k, len(points)))
    means: Floats32 = (members @ points) / np.maximum(sizes, 1)[:, None].astype(np.float32)
    return means
