"""node2vec: random walks of second order, then skip-gram."""

from __future__ import annotations

import logging

import numpy as np
from numpy.typing import NDArray

from benchmarks.lab.clustering import clustered, dimension
from benchmarks.lab.walks import random_walks
from stream_icd.core.arrays import Labels
from stream_icd.interfaces.evaluation.method import EvaluatedMethod, Task, module

WALKS, LENGTH, WINDOW = 10, 80, 10
"""Walks from each node, nodes of a walk, and nodes on each side that are its context: the paper's
(section 4.3), as its p and q below."""

RETURN, IN_OUT = 1.0, 1.0


def embed(task: Task) -> NDArray[np.float32]:
    """Embedding (n, d) of the nodes, by gensim's skip-gram with five negative samples."""
    from gensim.models import Word2Vec

    logging.getLogger("gensim").setLevel(logging.WARNING)
    with task.stage("walk"):
        walks = random_walks(task.adjacency, WALKS, LENGTH, RETURN, IN_OUT, task.seed)
        sentences = [list(map(str, walk)) for walk in walks.tolist()]
    with task.stage("embed"):
        model = Word2Vec(
            sentences,
            vector_size=dimension(task),
            window=WINDOW,
            min_count=0,
            sg=1,
            negative=5,
            epochs=1,
            workers=1,
            seed=task.seed + 1,
        )
        n_nodes = task.adjacency.shape[0]
        return np.stack([model.wv[str(node)] for node in range(n_nodes)])


def find(task: Task) -> Labels:
    """Walk, embed, then K-means."""
    return clustered(task, embed(task))


METHODS = {
    "node2vec": EvaluatedMethod(
        find,
        "Grover, Leskovec 2016, algorithm 1; walks ours, skip-gram gensim",
        k="needed",
        weighted=True,
        missing=module("gensim", "pip install 'stream-icd[lab]'"),
    ),
}
