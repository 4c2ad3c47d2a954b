"""K-means: cluster the rows of an embedding into K communities."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream_icd.core.arrays import Labels, n_distinct
from stream_icd.core.communities import checked_n_communities
from stream_icd.methods.icd.recipe import Clustering
from stream_icd.methods.icd.row_blocks import Floats32, for_blocks, product, single_threaded_blas

_SEED_DIMENSIONS = 128
"""Number of principal components in which the fast method chooses its seeds. With 64, it misses
small communities: 97.3 instead of 98.1 NMI on LFR graphs."""

_SEED_ROWS = 30
"""Sampled rows per cluster, from which the fast method chooses seeds. On 60 sets of hard clusters,
the sum of squares is 1.6 % above that of the true ones, as from all rows; with 20, 2.0 %."""

_TRIALS = 20
"""Candidate points per seed; the best one is used. scikit-learn draws 2 + ln K."""

_MAX_ITERATIONS, _FEWEST_ITERATIONS, _WORK = 100, 8, 10**11
"""Limits of Lloyd's iterations: at most MAX_ITERATIONS, and fewer if n K d times their number
exceeds WORK, but at least FEWEST_ITERATIONS. 5,000 nodes in 250 communities get all 100."""

_FLAT, _FEWEST = 2 * 10**7, 64
"""If n K is at most FLAT, one K-means clusters all rows. Otherwise K-means runs on parts of the
rows, with at most FLAT / n clusters at a time, or FEWEST if that is more."""

_SAMPLE = 64
"""Sampled rows per part, from which the centres of the parts are computed."""

_PART_TRIALS, _FEW_ROWS = 4, 8
"""PART_TRIALS is `_TRIALS` for the clusters of a part. With fewer than FEW_ROWS rows per cluster,
seeds are random rows."""

_DEEPEST = 4
"""Maximum depth of recursive splitting by K-means."""


def cluster(
    embedding: Floats32,
    n_communities: int,
    *,
    method: Clustering = "fast",
    seed: int = 0,
    threads: int = 1,
    before: Labels | None = None,
) -> Labels:
    """K-means of the rows, `(n,)` int32 in 0..K-1, none empty (paper, algorithm 3).

    "scikit-learn" is the method of the authors' scripts: `KMeans(n_init=10)` in float64. "fast"
    is ours, tens of times faster at equal quality: greedy k-means++ seeds and first iterations in
    the leading principal components, then Lloyd's iterations on the whole embedding. Its time is
    bounded (see `_FLAT` and `_WORK`), so it is much less accurate for large graphs or a large K.

    The same seed gives the same result, for "fast" on any number of threads.

    Args:
        embedding: U, `(n, d)` float32, finite.
        n_communities: K, from 1 to n.
        before: clusters of the rows in a similar embedding, `(n,)`, negative where unknown. If they
            are K, Lloyd's iterations also start from their centres, and the clusters with the
            smaller distances to their centres are the result. So equal graphs have equal clusters,
            whatever the seeds.

    Raises:
        BadSettings: K out of range.
    """
    n_communities = checked_n_communities(n_communities, len(embedding))
    if method == "scikit-learn":
        labels = _scikit_learn(embedding, n_communities, seed)
    else:
        labels = _fast(embedding, n_communities, np.random.default_rng(seed), threads)
    again = None if before is None else _again(embedding, n_communities, before, threads)
    # Only if strictly better: equal graphs keep the clusters that they had.
    if again is None or _inertia(embedding, labels) < _inertia(embedding, again):
        return labels
    return again


def seeded(
    embedding: Floats32, start: Labels, k: int, pinned: Labels | None, threads: int = 1
) -> Labels:
    """K-means from the centres of clusters of some rows (Basu, Banerjee and Mooney, ICML 2002).

    Args:
        start: clusters, `(n,)`, 0..K-1, each of at least one row; negative where unknown.
        pinned: clusters of rows that stay there, `(n,)`, negative for others.
    """
    rows = np.flatnonzero(start >= 0)
    centres = _centres(embedding[rows], start[rows], k)
    # Above the limit, one round of assignments only: more would take too long.
    most = 1 if len(embedding) * k > _FLAT else _MAX_ITERATIONS
    return _lloyd(embedding, centres, threads, pinned=pinned, most=most)


def _again(embedding: Floats32, k: int, before: Labels, threads: int) -> Labels | None:
    """K-means from the centres of earlier clusters; None if they are not K, or too many."""
    rows = np.flatnonzero(before >= 0)
    names, labels = np.unique(before[rows], return_inverse=True)
    if len(names) != k or len(embedding) * k > _FLAT:
        return None
    return _lloyd(embedding, _centres(embedding[rows], labels.astype(np.int32), k), threads)


def _inertia(embedding: Floats32, labels: Labels) -> float:
    centres = _centres(embedding, labels, int(labels.max()) + 1)
    return float(np.square(embedding - centres[labels], dtype=np.float64).sum())


def _scikit_learn(embedding: Floats32, k: int, seed: int) -> Labels:
    from sklearn.cluster import KMeans

    kmeans = KMeans(n_clusters=k, n_init=10, random_state=seed)
    labels: Labels = kmeans.fit_predict(embedding.astype(np.float64)).astype(np.int32)
    if n_distinct(labels) == k:
        return labels
    return _nearest(embedding, kmeans.cluster_centers_.astype(np.float32), 1)  # none is empty


def _fast(embedding: Floats32, k: int, rng: np.random.Generator, threads: int) -> Labels:
    n = len(embedding)
    # With more threads, BLAS adds in another order, and a seed would give other clusters.
    with single_threaded_blas():
        leading = _principal_components(embedding, _SEED_DIMENSIONS, threads)
        if n * k > _FLAT:
            return _in_parts(leading, k, max(_FLAT // n, _FEWEST), _WORK // n, rng, threads)
        n_sampled = _SEED_ROWS * k
        sample = leading if n <= n_sampled else leading[rng.choice(n, n_sampled, replace=False)]
        seeds = _greedy_seeds(sample, k, rng)
    rough = _lloyd(leading, seeds, threads)
    if leading is embedding:
        return rough
    return _lloyd(embedding, _centres(embedding, rough, k), threads)


def _in_parts(
    points: Floats32,
    k: int,
    most: int,
    work_per_row: int,
    rng: np.random.Generator,
    threads: int,
    deepest: int = _DEEPEST,
) -> Labels:
    """K-means of at most `most` clusters at a time: parts first, then clusters in each part.

    The time grows with n log K instead of n K. Parts of very different sizes would need many
    levels; beyond `_DEEPEST`, rows are split in their order, which always ends.
    """
    if k <= most:
        return _lloyd(points, _part_seeds(points, k, rng), threads, work_per_row * len(points))
    n, n_parts = len(points), min(most, -(-k // most))
    part = _parts(points, n_parts, rng, threads) if deepest else np.arange(n) * n_parts // n
    labels, n_labels = np.empty(n, np.int32), 0
    sizes = np.bincount(part)
    # Stable, so that the draws inside a part see its rows in one order on any machine.
    members = np.split(np.argsort(part, kind="stable"), np.cumsum(sizes)[:-1])
    for rows, share in zip(members, _shares(sizes, k).tolist(), strict=True):
        inside = _in_parts(points[rows], share, most, work_per_row, rng, threads, deepest - 1)
        labels[rows] = n_labels + inside
        n_labels += share
    return labels


def _part_seeds(points: Floats32, k: int, rng: np.random.Generator) -> Floats32:
    """Greedy seeds from fewer candidates; random rows if clusters have only a few rows."""
    if len(points) < _FEW_ROWS * k:
        return points[rng.choice(len(points), k, replace=False)]
    with single_threaded_blas():
        return _greedy_seeds(points, k, rng, _PART_TRIALS)


def _parts(points: Floats32, n_parts: int, rng: np.random.Generator, threads: int) -> Labels:
    """The part of each row: the nearest of `n_parts` centres, computed from a sample."""
    n_sampled = min(len(points), _SAMPLE * n_parts)
    sample = points[rng.choice(len(points), n_sampled, replace=False)]
    seeds = _part_seeds(sample, n_parts, rng)
    centres = _centres(sample, _lloyd(sample, seeds, threads), n_parts)
    return _nearest(points, centres, threads)


def _shares(sizes: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """The number of clusters for each part: by its size, from 1 to its size, K in total."""
    extra = (sizes - 1) * (k - len(sizes))
    rest = max(int(sizes.sum()) - len(sizes), 1)
    shares: NDArray[np.int64] = 1 + extra // rest
    # The largest remainders get one more, so that there are K in all.
    shares[np.argsort(-(extra % rest), kind="stable")[: k - int(shares.sum())]] += 1
    return shares


def _principal_components(points: Floats32, n_components: int, threads: int = 1) -> Floats32:
    """The leading principal components of the points, `(n, n_components)`; unchanged if fewer."""
    if points.shape[1] <= n_components:
        return points
    centred = points - points.mean(axis=0)
    axes = np.linalg.eigh(centred.T @ centred)[1][:, -n_components:]
    return product(centred, np.ascontiguousarray(axes), threads)


def _greedy_seeds(
    points: Floats32, k: int, rng: np.random.Generator, trials: int = _TRIALS
) -> Floats32:
    """K centres `(k, d)` by greedy k-means++ (Arthur and Vassilvitskii, SODA 2007).

    Each next centre is the best of `trials` candidates, drawn with probability proportional to
    the squared distance to the nearest centre so far.
    """
    squares = np.einsum("ij,ij->i", points, points)
    turned = np.ascontiguousarray(points.T)
    chosen = [int(rng.integers(len(points)))]
    nearest = np.full(len(points), np.inf, np.float32)
    _keep_nearest(points, turned, squares, np.array(chosen), nearest)
    draws = rng.random((k, trials))
    for draw in draws[1:]:
        # In float64: a float32 sum stops growing once it is 2^24 times a distance.
        reach = np.cumsum(nearest, dtype=np.float64)
        # Where all distances are 0, the search ends behind the last point.
        candidates = np.searchsorted(reach, draw * reach[-1]).clip(max=len(points) - 1)
        best = _keep_nearest(points, turned, squares, candidates, nearest)
        chosen.append(int(candidates[best]))
    return points[chosen]


def _keep_nearest(
    points: Floats32,
    turned: Floats32,
    squares: Floats32,
    candidates: NDArray[np.int64],
    nearest: Floats32,
) -> int:
    """The candidate that lowers `nearest` most, the squared distances, which get what it leaves.

    turned: the points, `(d, n)`. squares: their squared lengths, `(n,)`.
    """
    # |x − c|² = |x|² − 2 x·c + |c|²: one product instead of a difference for each pair.
    distances = (-2 * points[candidates]) @ turned
    distances += squares
    distances += squares[candidates, None]
    np.minimum(distances, nearest, out=distances)
    best = int(distances.sum(axis=1).argmin())
    # Rounding leaves a point a little less than nothing away from itself.
    np.maximum(distances[best], 0, out=nearest)
    return best


def _lloyd(
    points: Floats32,
    centres: Floats32,
    threads: int,
    most_work: int = _WORK,
    most: int = _MAX_ITERATIONS,
    pinned: Labels | None = None,
) -> Labels:
    """Lloyd's iterations until no label changes, or the work limit is reached.

    pinned: clusters of rows that stay there, `(n,)`, negative for others.
    """
    labels = np.full(len(points), -1, np.int32)
    work = points.size * len(centres)
    for _ in range(min(most, max(most_work // work, _FEWEST_ITERATIONS))):
        following = _nearest(points, centres, threads)
        if pinned is not None:
            following = np.where(pinned >= 0, pinned, following)
        if np.array_equal(following, labels):
            break
        labels = following
        centres = _centres(points, labels, len(centres))
    return labels


def _nearest(points: Floats32, centres: Floats32, threads: int) -> Labels:
    """The nearest centre of each point; an empty cluster takes the point farthest from its own."""
    labels = np.empty(len(points), np.int32)
    scores = np.empty(len(points), np.float32)
    # The nearest has the largest x·c − |c|²/2: the length of x is the same for all centres.
    offset = np.einsum("ij,ij->i", centres, centres) / 2
    turned = np.ascontiguousarray(centres.T)

    def fill(rows: slice) -> None:
        score = points[rows] @ turned
        score -= offset
        labels[rows] = score.argmax(axis=1)
        scores[rows] = score[np.arange(len(score)), labels[rows]]

    for_blocks(fill, len(points), threads)
    empty = np.flatnonzero(np.bincount(labels, minlength=len(centres)) == 0)
    if len(empty):
        distances = np.einsum("ij,ij->i", points, points) / 2 - scores
        farthest = np.argsort(-distances, kind="stable")
        # Each cluster keeps its nearest point, so filling one cluster never empties another.
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
    # A cluster without points keeps its centre at 0 until `_nearest` gives it one.
    means: Floats32 = (members @ points) / np.maximum(sizes, 1)[:, None].astype(np.float32)
    return means
