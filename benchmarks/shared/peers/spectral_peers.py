"""Spectral clustering: K-means on K eigenvectors of a scaled adjacency matrix, K given."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import eigsh
from sklearn.cluster import KMeans, SpectralClustering

Labels = NDArray[np.int32]

RESTARTS = 10
"""Of K-means, as scikit-learn's own spectral clustering has them."""


def spectral(adjacency: csr_array, n_communities: int, seed: int) -> Labels:
    """scikit-learn's, with its defaults but for the affinity: the adjacency matrix."""
    method = SpectralClustering(n_communities, affinity="precomputed", random_state=seed)
    places = adjacency.indices.astype(np.int32), adjacency.indptr.astype(np.int32)
    graph = csr_array((adjacency.data, *places), adjacency.shape)
    return method.fit_predict(graph).astype(np.int32)


def regularised_spectral(adjacency: csr_array, n_communities: int, seed: int) -> Labels:
    """With the mean degree added to each degree (Qin and Rohe, NIPS 2013).

    Eigenvectors are scaled by their eigenvalues, and rows have length 1.
    """
    degrees = adjacency.sum(axis=1)
    scale = diags_array(1 / np.sqrt(degrees + degrees.mean()))
    start = np.ones(len(degrees))
    values, vectors = eigsh(scale @ adjacency @ scale, n_communities, which="LA", v0=start)
    rows = vectors * values  # (n, K)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    means = KMeans(n_communities, n_init=RESTARTS, random_state=seed)
    return means.fit_predict(rows).astype(np.int32)
