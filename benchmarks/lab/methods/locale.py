"""Locale: modularity in a relaxation where a node may be in a few communities, then in one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from benchmarks.lab.clustering import RESTARTS
from stream_icd.core.arrays import Labels
from stream_icd.interfaces.evaluation.method import EvaluatedMethod, Task

CARDINALITY = 8
"""Communities of a node at most: the paper's."""

SWEEPS, ROUNDS, LEVELS = 20, 10, 10
"""Sweeps of one optimisation, rounds of the whole, and levels of a round, at most."""

TOLERANCE = 1e-6
"""Gain of modularity of a sweep, relative to the graph's weight, at which sweeps end."""


def embed(adjacency: csr_array, cardinality: int, start: NDArray[np.int64]) -> csr_array:
    """V (n, n), rows of length 1, at least 0, with that many entries at most, by coordinate ascent:
    v_i = top_k₊(Σ_j a_ij v_j − d_i/2m Σ_j d_j v_j), scaled to length 1 (section 3.1).

    start: the column of each node's single 1 at first.
    """
    n_nodes = adjacency.shape[0]
    degrees = np.asarray(adjacency.sum(axis=1)).ravel()
    columns = np.zeros((n_nodes, cardinality), np.int64)
    columns[:, 0] = start
    values = np.zeros((n_nodes, cardinality))
    values[:, 0] = 1.0
    _ascend(*_csr(adjacency), degrees, columns, values)
    rows = np.repeat(np.arange(n_nodes), cardinality)
    found = coo_array((values.ravel(), (rows, columns.ravel())), shape=(n_nodes, n_nodes))
    return csr_array(found.tocsr())


def rounded(adjacency: csr_array, embedding: csr_array) -> NDArray[np.int64]:
    """One community for each node (section 3.2): its largest entry, then cardinality 1."""
    largest = np.asarray(embedding.argmax(axis=1)).ravel()
    hard = embed(adjacency, 1, np.asarray(largest, np.int64))
    return np.asarray(np.unique(hard.indices, return_inverse=True)[1], np.int64)


def without_k(adjacency: csr_array) -> NDArray[np.int64]:
    """Leiden with this relaxation for its local moves (section 3.3, algorithm 2)."""
    n_nodes = adjacency.shape[0]
    found = np.arange(n_nodes)
    for _ in range(ROUNDS):
        graph, into, start = adjacency, np.arange(n_nodes), found
        for _ in range(LEVELS):
            communities = rounded(graph, embed(graph, CARDINALITY, start))
            refined = _refined(graph, communities)
            n_refined = int(refined.max()) + 1
            latest = communities[into]
            if n_refined == graph.shape[0]:
                break
            start = np.zeros(n_refined, np.int64)
            start[refined] = communities
            graph, into = _merged(graph, refined), refined[into]
        if np.array_equal(latest, found):
            break
        found = latest
    return found


def find(task: Task) -> Labels:
    """K-means of the embedding with K, else the whole algorithm."""
    adjacency = task.adjacency
    if task.n_communities is None:
        return without_k(adjacency).astype(np.int32)
    from sklearn.cluster import KMeans

    with task.stage("embed"):
        embedding = embed(adjacency, CARDINALITY, np.arange(adjacency.shape[0]))
        used = np.unique(embedding.indices)
        embedding = csr_array(embedding[:, used])
    with task.stage("cluster"):
        means = KMeans(task.k(), n_init=RESTARTS, random_state=task.seed)
        return means.fit_predict(_with_short_indices(embedding)).astype(np.int32)


def _refined(adjacency: csr_array, communities: NDArray[np.int64]) -> NDArray[np.int64]:
    """Parts of the communities: single nodes that join others of their community."""
    rows, columns = adjacency.tocoo().coords
    inside = communities[rows] == communities[columns]
    parts = np.arange(adjacency.shape[0])
    kept = csr_array((adjacency.data * inside, adjacency.indices, adjacency.indptr))
    degrees = np.asarray(adjacency.sum(axis=1)).ravel()
    _join(*_csr(kept), degrees, parts)
    return np.asarray(np.unique(parts, return_inverse=True)[1], np.int64)


def _merged(adjacency: csr_array, into: NDArray[np.int64]) -> csr_array:
    """The graph of the parts; edges inside a part become a loop, counted from both ends."""
    rows, columns = adjacency.tocoo().coords
    size = int(into.max()) + 1
    return csr_array(
        coo_array((adjacency.data, (into[rows], into[columns])), shape=(size, size)).tocsr()
    )


def _csr(graph: csr_array) -> tuple[Any, Any, Any]:
    return graph.indptr.astype(np.int64), graph.indices.astype(np.int64), graph.data


def _with_short_indices(matrix: csr_array) -> csr_array:
    """The same matrix with the 32-bit indices that scikit-learn asks for."""
    pattern = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
    return csr_array((matrix.data, *pattern), shape=matrix.shape)


@njit(cache=True)
def _ascend(indptr: Any, indices: Any, data: Any, degrees: Any, columns: Any, values: Any) -> None:
    """Sweeps over the nodes, in place, until a sweep gains less than `TOLERANCE`."""
    n_nodes, cardinality = columns.shape
    total = degrees.sum()
    if total == 0:
        return
    pull = np.zeros(n_nodes)  # Σ_j d_j v_j
    for i in range(n_nodes):
        for slot in range(cardinality):
            pull[columns[i, slot]] += degrees[i] * values[i, slot]
    gradient = np.zeros(n_nodes)
    touched = np.empty(n_nodes, np.int64)
    for _ in range(SWEEPS):
        gain = 0.0
        for i in range(n_nodes):
            n_touched = 0
            for place in range(indptr[i], indptr[i + 1]):
                j = indices[place]
                if j == i:
                    continue
                for slot in range(cardinality):
                    if values[j, slot] > 0:
                        column = columns[j, slot]
                        if gradient[column] == 0:
                            touched[n_touched] = column
                            n_touched += 1
                        gradient[column] += data[place] * values[j, slot]
            if n_touched == 0:
                continue
            before = 0.0
            for slot in range(cardinality):
                if values[i, slot] > 0:
                    column = columns[i, slot]
                    pull[column] -= degrees[i] * values[i, slot]
                    reached = gradient[column] - degrees[i] * pull[column] / total
                    before += values[i, slot] * reached
            found = touched[:n_touched]
            slopes = np.empty(n_touched)
            for n in range(n_touched):
                slopes[n] = gradient[found[n]] - degrees[i] * pull[found[n]] / total
                gradient[found[n]] = 0.0
            order = np.argsort(-slopes)
            length = 0.0
            for slot in range(min(cardinality, n_touched)):
                length += max(slopes[order[slot]], 0.0) ** 2
            if length > 0 and np.sqrt(length) > before:
                gain += np.sqrt(length) - before
                for slot in range(cardinality):
                    slope = slopes[order[slot]] if slot < n_touched else 0.0
                    values[i, slot] = max(slope, 0.0) / np.sqrt(length)
                    columns[i, slot] = found[order[slot]] if slot < n_touched else columns[i, 0]
            for slot in range(cardinality):
                pull[columns[i, slot]] += degrees[i] * values[i, slot]
        if gain < TOLERANCE * total:
            break


@njit(cache=True)
def _join(indptr: Any, indices: Any, data: Any, degrees: Any, parts: Any) -> None:
    """One sweep: a node that is still alone joins the part with the highest gain of modularity."""
    n_nodes = len(parts)
    total = degrees.sum()
    volume, size = degrees.copy(), np.ones(n_nodes, np.int64)
    links = np.zeros(n_nodes)
    for i in range(n_nodes):
        if size[parts[i]] > 1:
            continue
        for place in range(indptr[i], indptr[i + 1]):
            if indices[place] != i:
                links[parts[indices[place]]] += data[place]
        best, highest = parts[i], 0.0
        for place in range(indptr[i], indptr[i + 1]):
            part = parts[indices[place]]
            if part != parts[i]:
                gain = links[part] - degrees[i] * volume[part] / total
                if gain > highest:
                    best, highest = part, gain
        for place in range(indptr[i], indptr[i + 1]):
            links[parts[indices[place]]] = 0.0
        if best != parts[i]:
            volume[parts[i]] -= degrees[i]
            size[parts[i]] -= 1
            volume[best] += degrees[i]
            size[best] += 1
            parts[i] = best


METHODS = {
    "locale": EvaluatedMethod(
        find,
        "Wang, Kolter 2020, sections 3.1 to 3.3; with K, K-means of the embedding",
        k="optional",
        weighted=True,
    ),
}
