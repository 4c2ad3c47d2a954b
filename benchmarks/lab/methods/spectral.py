"""Spectral clustering (SC): the first K eigenvectors of the normalised Laplacian, then K-means."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from benchmarks.lab.clustering import RESTARTS
from stream_icd.core.arrays import Labels
from stream_icd.interfaces.evaluation.method import EvaluatedMethod, Task


def find(task: Task) -> Labels:
    """Cluster the rows of the eigenvectors."""
    from sklearn.cluster import spectral_clustering

    labels = spectral_clustering(
        _with_short_indices(task.adjacency),
        n_clusters=task.k(),
        eigen_solver="arpack",
        n_init=RESTARTS,
        random_state=task.seed,
    )
    return labels.astype(np.int32)


def _with_short_indices(adjacency: csr_array) -> csr_array:
    """The same matrix with the 32-bit indices that scikit-learn asks for."""
    pattern = adjacency.indices.astype(np.int32), adjacency.indptr.astype(np.int32)
    return csr_array((adjacency.data, *pattern), shape=adjacency.shape)


METHODS = {
    "spectral": EvaluatedMethod(
        find, "Shi, Malik 2000, as in von Luxburg 2007; scikit-learn", k="needed", weighted=True
    ),
}
