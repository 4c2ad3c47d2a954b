"""All measures of one partition."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream_icd.arrays import Labels
from stream_icd.quality.agreement import accuracy, ami, nmi
from stream_icd.quality.cuts import modularity, ncut


@dataclass(frozen=True, slots=True)
class Measures:
    """How good a partition is; fractions, not percent.

    `nmi` and `ac` are the agreement with the true communities as in the paper, `ami` and `ari` the
    same adjusted for chance; None if no true community is known.
    """

    n_communities: int
    modularity: float
    ncut: float
    nmi: float | None = None
    ac: float | None = None
    ami: float | None = None
    ari: float | None = None


def measure(
    adjacency: csr_array, labels: Labels, truth: NDArray[np.int32] | None = None
) -> Measures:
    """Measure a partition; its agreement on the nodes whose community is known.

    adjacency: (n, n), with its weights; found: (n,); truth: (n,), -1 where it is not known.

    >>> pair = csr_array(np.array([[0.0, 1.0], [1.0, 0.0]]))
    >>> measure(pair, np.array([0, 0], np.int32), np.array([1, 1], np.int32)).ari
    1.0
    """
    of_graph = len(np.unique(labels)), modularity(adjacency, labels), ncut(adjacency, labels)
    if truth is None or (truth < 0).all():
        return Measures(*of_graph)
    from sklearn.metrics import adjusted_rand_score  # takes long to import

    true, ours = truth[truth >= 0], labels[truth >= 0]
    return Measures(
        *of_graph,
        nmi=nmi(true, ours),
        ac=accuracy(true, ours),
        ami=ami(true, ours),
        ari=float(adjusted_rand_score(true, ours)),
    )
