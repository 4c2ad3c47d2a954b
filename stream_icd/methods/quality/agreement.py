"""How well two partitions of the same nodes agree: NMI, AMI, and AC."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, eye_array, hstack
from scipy.sparse.csgraph import min_weight_full_bipartite_matching
from scipy.special import gammaln

from stream_icd.core.arrays import AnyLabels, as_labels
from stream_icd.core.errors import BadSettings

_MOST_ROUNDS = 30
"""Rounds in which `accuracy` looks for pairs of communities that are surely matched, at most."""


def of_known(truth: AnyLabels, labels: AnyLabels) -> tuple[AnyLabels, AnyLabels]:
    """True and found labels of the nodes whose true one is known: not negative.

    >>> [of.tolist() for of in of_known(np.array([0, -1, 1]), np.array([5, 6, 7]))]
    [[0, 1], [5, 7]]
    """
    is_known = truth >= 0
    return truth[is_known], labels[is_known]


def _contingency(truth: AnyLabels, labels: AnyLabels) -> csr_array:
    """Counts (K_truth, K_found) of nodes in both communities; no row and no column is empty."""
    rows, columns = as_labels(truth), as_labels(labels)
    if len(rows) != len(columns):
        raise BadSettings(
            f"the two partitions must be of the same nodes, not {len(rows)} and {len(columns)}"
        )
    shape = (rows.max(initial=-1) + 1, columns.max(initial=-1) + 1)
    ones = np.ones(len(rows), dtype=np.int64)
    return coo_array((ones, (rows, columns)), shape=shape).tocsr()


def nmi(truth: AnyLabels, labels: AnyLabels) -> float:
    """2 I(truth; found) / (H(truth) + H(found)), in 0..1: 1 if the partitions are the same.

    The normaliser is the arithmetic mean of the entropies, as in the ICD paper and its authors'
    scripts (and by default in scikit-learn). If both entropies are 0 (one community each, or no
    nodes), the partitions are the same and the score is 1.

    >>> nmi(np.array([0, 0, 1, 1]), np.array([1, 1, 0, 0]))
    1.0
    """
    counts = _contingency(truth, labels)
    if max(counts.shape) <= 1:
        return 1.0
    entropies = _entropy(counts.sum(axis=1)) + _entropy(counts.sum(axis=0))
    # I = H(truth) + H(found) - H(both); rounding may leave it slightly outside the range.
    information = entropies - _entropy(counts.data)
    return float(np.clip(2 * information / entropies, 0.0, 1.0))


def _entropy(counts: NDArray[np.int64]) -> float:
    shares = counts / counts.sum()
    return float(-(shares * np.log(shares)).sum())


def accuracy(truth: AnyLabels, labels: AnyLabels) -> float:
    """AC of the ICD paper, in 0..1: 1 if the partitions are the same.

    Found and true communities are matched one to one so that as many nodes as possible agree (the
    assignment problem of Kuhn and Munkres). It is solved on the sparse contingency table, never on
    all K × K pairs. Without nodes the score is 1.

    >>> accuracy(np.array([0, 0, 1, 1]), np.array([1, 1, 1, 0]))
    0.75
    """
    counts = _contingency(truth, labels)
    n_nodes = counts.sum()
    if n_nodes == 0:
        return 1.0
    return float(_most_in_agreement(counts) / n_nodes)


def _most_in_agreement(counts: csr_array) -> int:
    """The largest sum of entries with no two in the same row or column.

    First entries that belong to a largest sum, whatever the others: no others of their row and
    column are larger together. In most comparisons they are nearly all, and the solver below takes
    quadratic time. It solves the rest.

    Every row gets an extra column of its own, so that a matching of all rows exists. One is added
    to every entry, since the solver treats a zero as a missing entry. The best matching stays the
    same, and its sum grows by one per row.
    """
    (rows, columns), shared, n_agreeing = counts.tocoo().coords, counts.data, 0
    for _ in range(_MOST_ROUNDS):
        sure = shared >= _largest_other(rows, shared) + _largest_other(columns, shared)
        chosen = np.flatnonzero(sure)
        for ends in (rows, columns):  # of equal ones, the first
            chosen = chosen[np.unique(ends[chosen], return_index=True)[1]]
        n_agreeing += int(shared[chosen].sum())
        unmatched = ~(np.isin(rows, rows[chosen]) | np.isin(columns, columns[chosen]))
        rows, columns, shared = rows[unmatched], columns[unmatched], shared[unmatched]
        if not (len(chosen) and len(shared)):
            break
    if not len(shared):
        return n_agreeing
    rest = coo_array((shared + 1, (as_labels(rows), as_labels(columns))))
    n_rows = int(rest.shape[0])
    padded = hstack([rest, eye_array(n_rows, dtype=np.int64)], format="csr")
    rows, columns = min_weight_full_bipartite_matching(padded, maximize=True)
    return n_agreeing + int(padded[rows, columns].sum()) - n_rows


def _largest_other(groups: NDArray[np.integer], values: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each value, the largest of the *other* values in its group; 0 for a group of one."""
    order = np.lexsort((-values, groups))
    ranked, starts = values[order], np.flatnonzero(np.diff(groups[order], prepend=-1))
    sizes = np.diff(starts, append=len(order))
    largest = np.repeat(ranked[starts], sizes)
    largest[starts] = np.where(sizes > 1, np.append(ranked, 0)[starts + 1], 0)
    unsorted = np.empty_like(largest)
    unsorted[order] = largest
    return unsorted


def ami(truth: AnyLabels, labels: AnyLabels) -> float:
    """(I − E[I]) / (mean of the entropies − E[I]), at most 1: 1 if the partitions are the same.

    E[I] is the mutual information of two random partitions with communities of these sizes (Vinh,
    Epps, Bailey, "Information theoretic measures for clusterings comparison", JMLR 2010, equation
    24). So random partitions score 0 on average, whatever their number of communities. `nmi` rises
    with that number: use `ami` to compare partitions into different numbers of communities.

    >>> ami(np.array([0, 0, 1, 1]), np.array([1, 1, 0, 0]))
    1.0
    """
    counts = _contingency(truth, labels)
    true_sizes, found_sizes = counts.sum(axis=1), counts.sum(axis=0)
    if counts.nnz == max(counts.shape, default=0) == min(counts.shape, default=0):
        return 1.0  # the same partition
    entropies = _entropy(true_sizes), _entropy(found_sizes)
    information = sum(entropies) - _entropy(counts.data)
    expected = _expected_information(true_sizes, found_sizes)
    most = float(np.mean(entropies))
    # Where nothing can be gained over chance, both differences are 0: no division by 0.
    return float((information - expected) / max(most - expected, np.finfo(float).eps))


def _expected_information(true_sizes: NDArray[np.int64], found_sizes: NDArray[np.int64]) -> float:
    """Mean mutual information, in nats, over random partitions; equal sizes are summed once."""
    n_nodes, expected = int(true_sizes.sum()), 0.0
    log_factorial = gammaln(np.arange(n_nodes + 1) + 1.0)
    of_other, n_others = np.unique(found_sizes, return_counts=True)
    for size, n_size in zip(*np.unique(true_sizes, return_counts=True), strict=True):
        shared, at = _possible(int(size), of_other, n_nodes)
        found_size = of_other[at]
        chance = np.exp(  # hypergeometric: that they share so many nodes
            log_factorial[size]
            + log_factorial[found_size]
            + log_factorial[n_nodes - size]
            + log_factorial[n_nodes - found_size]
            - log_factorial[n_nodes]
            - log_factorial[shared]
            - log_factorial[size - shared]
            - log_factorial[found_size - shared]
            - log_factorial[n_nodes - size - found_size + shared]
        )
        of_pair = shared / n_nodes * np.log(n_nodes * shared / (size * found_size)) * chance
        expected += float(n_size * (of_pair @ n_others[at]))
    return expected


def _possible(
    size: int, found_sizes: NDArray[np.int64], n_nodes: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many nodes a community may share with each of the others: (number, position of it)."""
    fewest, most = np.maximum(size + found_sizes - n_nodes, 1), np.minimum(size, found_sizes)
    lengths = most - fewest + 1
    at = np.repeat(np.arange(len(found_sizes)), lengths)
    steps = np.arange(len(at)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return fewest[at] + steps, at
