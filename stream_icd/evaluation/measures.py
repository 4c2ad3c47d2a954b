"""All measures of one partition."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream_icd.arrays import Labels
from stream_icd.quality.agreement import accuracy, ami, nmi
from stream_icd.quality.cuts import modularity, ncut

UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class Measures:
    """How good a partition is; fractions, not percent.

    Attributes:
        n_communities: number of communities found.
        modularity: see `quality.cuts`.
        ncut: NCut by the paper's equation; see `quality.ncut`.
        nmi, ac: agreement with the true communities, as in the paper; None if none is known.
        ami, ari: the same, adjusted for chance (scikit-learn).
    """

    n_communities: int
    modularity: float
    ncut: float
    nmi: float | None = None
    ac: float | None = None
    ami: float | None = None
    ari: float | None = None


def measure(
    adjacency: csr_array, found: Labels, truth: NDArray[np.int32] | None = None
) -> Measures:
    """Measure a partition.

    adjacency: (n, n), with its weights; found: (n,); truth: (n,), `UNKNOWN` where it is not known.
    Agreement is measured on the nodes whose community is known.

    >>> pair = csr_array(np.array([[0.0, 1.0], [1.0, 0.0]]))
    >>> measure(pair, np.array([0, 0], np.int32), np.array([1, 1], np.int32)).ari
    1.0
    """
    known = np.zeros(len(found), bool) if truth is None else truth != UNKNOWN
    n_communities = len(np.unique(found))
    of_graph = modularity(adjacency, found), ncut(adjacency, found)
    if truth is None or not known.any():
        return Measures(n_communities, *of_graph)
    from sklearn.metrics import adjusted_rand_score  # takes long to import

    true, ours = truth[known], found[known]
    return Measures(
        n_communities,
        *of_graph,
        nmi=nmi(true, ours),
        ac=accuracy(true, ours),
        ami=ami(true, ours),
        ari=float(adjusted_rand_score(true, ours)),
    )
