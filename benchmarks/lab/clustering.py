"""From an embedding to communities, as the paper does for every embedding method."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_icd.core.arrays import Labels
from stream_icd.interfaces.evaluation.method import Task

DIMENSION = 256
"""Width of all embeddings: the paper's for LFR, Taxi, AS and Enron (512 for GN, 100 for Reddit)."""

RESTARTS = 10
"""Runs of K-means, of which the best is taken (ICD paper, section "Experiment Setup")."""


def dimension(task: Task) -> int:
    """The width of an embedding of this graph: `DIMENSION`, or less for a small graph."""
    return min(DIMENSION, task.adjacency.shape[0] // 2)


def clustered(task: Task, embedding: NDArray[np.floating]) -> Labels:
    """K communities by K-means; the stage `cluster`. embedding: (n, d)."""
    from sklearn.cluster import KMeans

    with task.stage("cluster"):
        means = KMeans(task.k(), n_init=RESTARTS, random_state=task.seed)
        return means.fit_predict(embedding).astype(np.int32)
