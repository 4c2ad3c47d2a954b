"""Which values of attributes are over-represented in which communities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc

from stream_icd.names.attributes import Attribute

FALSE_NAMES = 0.05
"""Expected fraction of the reported values that are there by chance."""

PRIOR_NODES = 1.0
"""α₀: the prior weighs as much as one node (the unit-information prior of Kass and Wasserman)."""


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """How many members of each community have each value of one attribute: pairs that occur."""

    community: NDArray[np.int64]  # (n_pairs,) number of the community of each pair, ascending
    value: NDArray[np.int64]  # (n_pairs,) number of the value, ascending in each community
    members: NDArray[np.int64]  # (n_pairs,) nodes, at least 1
    known: NDArray[np.int64]  # (K,) members of each community that have a value
    totals: NDArray[np.int64]  # (V,) nodes that have each value


def counts(labels: NDArray[np.integer], k: int, attribute: Attribute) -> Counts:
    """Count the values of an attribute in each of `k` communities; labels: `(n,)` in 0..k-1."""
    has = attribute.codes >= 0
    of, codes = labels[has].astype(np.int64), attribute.codes[has].astype(np.int64)
    n_values = len(attribute.values)
    if k * n_values <= 16 * max(len(of), 1):  # ten times faster than sorting
        table = np.bincount(of * n_values + codes, minlength=k * n_values)
        pairs = np.flatnonzero(table)
        members = table[pairs]
    else:
        pairs, members = np.unique(of * n_values + codes, return_counts=True)
    community, value = np.divmod(pairs, max(n_values, 1))
    known, totals = np.bincount(of, minlength=k), np.bincount(codes, minlength=n_values)
    return Counts(community, value, members, known, totals)


def log_odds(table: Counts) -> NDArray[np.float64]:
    """Return z of each pair, `(n_pairs,)`: log-odds in the community against all others.

    With y nodes of n in the community and y' of n' in the others, and a Dirichlet prior in
    proportion to the whole graph, α = α₀ Y / N:

        δ = log (y + α) / (n + α₀ − y − α) − log (y' + α) / (n' + α₀ − y' − α),    z = δ / σ(δ)

    σ² is the sum of the reciprocals of the four counts (Monroe, Colaresi and Quinn, "Fightin'
    words: lexical feature selection and evaluation for identifying the content of political
    conflict", Political Analysis 2008, equations 15, 18 and 22). A pair without others has z 0.
    """
    all_known, total = table.known.sum(), table.totals[table.value]
    inside = table.members, table.known[table.community]
    outside = total - inside[0], all_known - inside[1]
    prior = PRIOR_NODES * total / max(all_known, 1)
    delta, variance = np.zeros(len(prior)), np.zeros(len(prior))
    for sign, (y, n) in ((1, inside), (-1, outside)):
        has, has_not = y + prior, n - y + PRIOR_NODES - prior
        has_not = np.maximum(has_not, np.finfo(float).tiny)  # all nodes have the value
        delta += sign * (np.log(has) - np.log(has_not))
        variance += 1 / has + 1 / has_not
    z = delta / np.sqrt(variance)
    z[(outside[1] == 0) | (total == all_known)] = 0.0
    return z


def chance(table: Counts) -> NDArray[np.float64]:
    """Return the probability of as many members with the value, or more, by chance, `(n_pairs,)`.

    The tail of the binomial distribution, for n members drawn from the whole graph: an upper bound
    of that without replacement where members are more than expected (Hoeffding, JASA 1963). The
    normal distribution of z is no substitute for counts of 1 to 5, which are most: by it, three in
    ten windows with shuffled communities had a name.
    """
    n = table.known[table.community]
    fraction = table.totals[table.value] / max(table.known.sum(), 1)
    p: NDArray[np.float64] = betainc(table.members, n - table.members + 1, fraction)
    return p


def significant(p: Sequence[NDArray[np.float64]], n_tests: int) -> list[NDArray[np.bool_]]:
    """Return which counts are too large for chance, with a false discovery rate of 5%.

    p: the probabilities of `chance`, one array for each attribute; they are corrected together,
    since all of them are tried.
    n_tests: number of all comparisons, also of those that are in none of the arrays because the
    community has no such member (Benjamini and Hochberg, JRSS B 1995).

    >>> [names.tolist() for names in significant([np.array([0.1, 1e-4]), np.array([0.004])], 20)]
    [[False, True], [True]]
    """
    ascending = np.sort(np.concatenate(p))
    limits = FALSE_NAMES * np.arange(1, len(ascending) + 1) / max(n_tests, 1)
    passing = np.flatnonzero(ascending <= limits)
    most = ascending[passing[-1]] if len(passing) else -1.0
    return [of_attribute <= most for of_attribute in p]
