"""GraClus: coarsen, cluster the coarsest graph, refine by weighted kernel K-means for NCut."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from stream_icd.core.arrays import Labels
from stream_icd.interfaces.evaluation.method import EvaluatedMethod, Task, module

LEAST_SHRINKAGE = 0.95
"""Coarsening ends when a level has more nodes than this share of the level before."""

SWEEPS = 20
"""Rounds of refinement at a level, at most."""


def coarsen(adjacency: csr_array, volumes: Any, rng: np.random.Generator) -> NDArray[np.int64]:
    """Node of the coarser graph of each node: random nodes are matched with the neighbour y of the
    largest e(x, y) (1/vol(x) + 1/vol(y)) (section 5.1).
    """
    order = rng.permutation(adjacency.shape[0])
    matched = _match(*_csr(adjacency), volumes, order)
    return np.asarray(np.unique(matched, return_inverse=True)[1], np.int64)


def merged(adjacency: csr_array, into: NDArray[np.int64]) -> csr_array:
    """The coarser graph; edges inside a node become a loop, counted from both ends."""
    rows, columns = adjacency.tocoo().coords
    size = int(into.max()) + 1
    return coo_array((adjacency.data, (into[rows], into[columns])), shape=(size, size)).tocsr()


def base(adjacency: csr_array, volumes: Any, k: int, seed: int) -> Labels:
    """K parts of the coarsest graph by METIS, whose region growing the paper uses (section 5.2)."""
    import pymetis

    options = pymetis.Options(seed=seed)
    without_loops = csr_array(adjacency)
    without_loops.setdiag(0)
    without_loops.eliminate_zeros()
    weights = _whole(without_loops.data)
    _, parts = pymetis.part_graph(
        k,
        pymetis.CSRAdjacency(without_loops.indptr, without_loops.indices),
        eweights=weights,
        vweights=_whole(volumes),
        options=options,
    )
    return np.asarray(parts, np.int32)


def find(task: Task) -> Labels:
    """All levels, from the finest to the coarsest and back."""
    rng = np.random.default_rng(task.seed)
    graph, k = task.adjacency, task.k()
    coarsest = max(graph.shape[0] / (40 * max(1.0, np.log2(k))), 20 * k)
    levels: list[tuple[csr_array, Any, NDArray[np.int64]]] = []
    volumes = np.asarray(graph.sum(axis=1)).ravel()
    with task.stage("coarsen"):
        while graph.shape[0] > coarsest:
            into = coarsen(graph, np.maximum(volumes, 1e-12), rng)
            if into.max() + 1 > LEAST_SHRINKAGE * graph.shape[0]:
                break
            levels.append((graph, volumes, into))
            graph, volumes = merged(graph, into), np.bincount(into, weights=volumes)
    with task.stage("base"):
        labels = base(graph, volumes, k, task.seed)
    with task.stage("refine"):
        _refine(*_csr(graph), volumes, labels, k, rng.permutation(graph.shape[0]))
        for finer, finer_volumes, into in reversed(levels):
            labels = labels[into]
            _refine(*_csr(finer), finer_volumes, labels, k, rng.permutation(finer.shape[0]))
    return labels


def _csr(graph: csr_array) -> tuple[Any, Any, Any]:
    return graph.indptr.astype(np.int64), graph.indices.astype(np.int64), graph.data


def _whole(weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """Weights as METIS takes them: positive integers, in proportion to within a thousandth."""
    if np.array_equal(weights, np.round(weights)):
        return np.maximum(1, weights).astype(np.int64)
    return np.maximum(1, np.round(1000 * weights / weights.mean())).astype(np.int64)


@njit(cache=True)
def _match(indptr: Any, indices: Any, data: Any, volumes: Any, order: Any) -> Any:
    matched = np.full(len(order), -1, np.int64)
    for x in order:
        if matched[x] >= 0:
            continue
        best, highest = x, 0.0
        for place in range(indptr[x], indptr[x + 1]):
            y = indices[place]
            if y != x and matched[y] < 0:
                value = data[place] * (1 / volumes[x] + 1 / volumes[y])
                if value > highest:
                    best, highest = y, value
        matched[x] = matched[best] = x
    return matched


@njit(cache=True)
def _refine(
    indptr: Any, indices: Any, data: Any, volumes: Any, labels: Any, k: int, order: Any
) -> None:
    """Move single nodes to neighbouring clusters while Σ_c within_c / vol_c grows: the local search
    for weighted kernel K-means with the weights of NCut (section 5.3).
    """
    volume, within, size = np.zeros(k), np.zeros(k), np.zeros(k, np.int64)
    for x in range(len(labels)):
        volume[labels[x]] += volumes[x]
        size[labels[x]] += 1
        for place in range(indptr[x], indptr[x + 1]):
            if labels[indices[place]] == labels[x]:
                within[labels[x]] += data[place]
    links = np.zeros(k)
    for _ in range(SWEEPS):
        moved = 0
        for x in order:
            old, loop = labels[x], 0.0
            if size[old] == 1:
                continue
            for place in range(indptr[x], indptr[x + 1]):
                if indices[place] == x:
                    loop = data[place]
                else:
                    links[labels[indices[place]]] += data[place]
            rest = volume[old] - volumes[x]
            loss = within[old] / volume[old] if volume[old] > 0 else 0.0
            if rest > 0:
                loss -= (within[old] - 2 * links[old] - loop) / rest
            best, highest = old, 1e-12
            for place in range(indptr[x], indptr[x + 1]):
                new = labels[indices[place]]
                if new == old or volume[new] + volumes[x] <= 0:
                    continue
                after = (within[new] + 2 * links[new] + loop) / (volume[new] + volumes[x])
                before = within[new] / volume[new] if volume[new] > 0 else 0.0
                gain = after - before - loss
                if gain > highest:
                    best, highest = new, gain
            if best != old:
                within[old] -= 2 * links[old] + loop
                within[best] += 2 * links[best] + loop
                volume[old] -= volumes[x]
                volume[best] += volumes[x]
                size[old] -= 1
                size[best] += 1
                labels[x] = best
                moved += 1
            for place in range(indptr[x], indptr[x + 1]):
                links[labels[indices[place]]] = 0.0
            links[old] = 0.0
        if not moved:
            break


METHODS = {
    "graclus": EvaluatedMethod(
        find,
        "Dhillon, Guan, Kulis 2007, sections 5.1 to 5.3; base clustering by METIS",
        k="needed",
        weighted=True,
        missing=module("pymetis", "pip install 'stream-icd[lab]'"),
    ),
}
