"""Adjusted mutual information of two partitions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, gammaln

from stream_icd.quality.contingency import contingency
from stream_icd.quality.labels import Communities


def ami(truth: Communities, found: Communities) -> float:
    """(I − E[I]) / (mean of the entropies − E[I]), at most 1: 1 if the partitions are the same.

    E[I] is the mutual information of two random partitions with communities of these sizes (Vinh,
    Epps, Bailey, "Information theoretic measures for clusterings comparison", JMLR 2010, equation
    24). So random partitions score 0 on average, whatever their number of communities. `nmi` rises
    with that number: use `ami` to compare partitions into different numbers of communities.

    truth, found: integer labels (n,), any values. Raises `BadSettings` for other shapes or types.

    >>> ami(np.array([0, 0, 1, 1]), np.array([1, 1, 0, 0]))
    1.0
    """
    counts = contingency(truth, found)
    sizes, others = counts.sum(axis=1), counts.sum(axis=0)
    if counts.nnz == max(counts.shape, default=0) == min(counts.shape, default=0):
        return 1.0  # the same partition
    entropies = _entropy(sizes), _entropy(others)
    information = sum(entropies) - _entropy(counts.data)
    expected = _expected_information(sizes, others)
    most = float(np.mean(entropies))
    return float((information - expected) / max(most - expected, np.finfo(float).eps))


def _entropy(counts: NDArray[np.int64]) -> float:
    """Shannon entropy, in nats, of positive counts."""
    return float(entr(counts / counts.sum()).sum())


def _expected_information(sizes: NDArray[np.int64], others: NDArray[np.int64]) -> float:
    """Mean mutual information, in nats, over random partitions; equal sizes are summed once."""
    n_nodes, expected = int(sizes.sum()), 0.0
    log_factorial = gammaln(np.arange(n_nodes + 1) + 1.0)
    of_other, n_others = np.unique(others, return_counts=True)
    for size, n_size in zip(*np.unique(sizes, return_counts=True), strict=True):
        shared, at = _possible(int(size), of_other, n_nodes)
        other = of_other[at]
        chance = np.exp(  # hypergeometric: that they share so many nodes
            log_factorial[size]
            + log_factorial[other]
            + log_factorial[n_nodes - size]
            + log_factorial[n_nodes - other]
            - log_factorial[n_nodes]
            - log_factorial[shared]
            - log_factorial[size - shared]
            - log_factorial[other - shared]
            - log_factorial[n_nodes - size - other + shared]
        )
        of_pair = shared / n_nodes * np.log(n_nodes * shared / (size * other)) * chance
        expected += float(n_size * (of_pair @ n_others[at]))
    return expected


def _possible(
    size: int, others: NDArray[np.int64], n_nodes: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many nodes a community may share with each of the others: (number, position of it)."""
    fewest, most = np.maximum(size + others - n_nodes, 1), np.minimum(size, others)
    lengths = most - fewest + 1
    at = np.repeat(np.arange(len(others)), lengths)
    steps = np.arange(len(at)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return fewest[at] + steps, at
