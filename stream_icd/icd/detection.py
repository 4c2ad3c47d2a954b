"""A frozen model on one new graph: features, embedding, communities (paper, algorithm 4)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream_icd.icd.clustering import cluster
from stream_icd.icd.encoder.registry import encoder
from stream_icd.icd.estimate import estimate_n_communities
from stream_icd.icd.features import reduced_features
from stream_icd.icd.model import Model


@dataclass(frozen=True, slots=True, eq=False)
class Detection:
    """Communities of one graph, and what finding them took.

    Attributes:
        communities: community of each node, `(n,)` int32, in 0..K-1.
        milliseconds: time in each stage: "features", "encode", "cluster".
    """

    communities: NDArray[np.int32]
    milliseconds: dict[str, float]


def detect(
    adjacency: csr_array,
    model: Model,
    n_communities: int | None = None,
    *,
    seed: int = 0,
    threads: int = 2,
    clock: Callable[[], float] = time.perf_counter,
) -> Detection:
    """Find the communities of a graph with a frozen model.

    Args:
        adjacency: the graph, `(n, n)`, canonical; see `graphs.as_adjacency`.
        n_communities: K; None to estimate it (`estimate_n_communities`).
        seed: of the clustering; the same seed gives the same answer, on any number of threads.
        clock: seconds, rising; for the stage timings.

    Raises:
        BadSettings: K is not from 1 to n.
    """
    recipe = model.recipe
    started = clock()
    features = reduced_features(
        adjacency,
        recipe.variant,
        recipe.encoder.n_features,
        recipe.encoder.coarsening_exponent,
    )
    described = clock()
    embedding = encoder(recipe.encoder.kind).embed(
        recipe.encoder, model.weights, features, adjacency, threads
    )
    embedded = clock()
    k = estimate_n_communities(adjacency, seed) if n_communities is None else n_communities
    communities = cluster(embedding, k, method=recipe.clustering, seed=seed, threads=threads)
    clustered = clock()
    times = {"features": described - started, "encode": embedded - described}
    times["cluster"] = clustered - embedded
    return Detection(communities, {stage: 1000 * seconds for stage, seconds in times.items()})


def embed(adjacency: csr_array, model: Model, threads: int = 2) -> NDArray[np.float32]:
    """U, `(n, d)` float32: the embedding of a graph under a frozen model."""
    settings = model.recipe.encoder
    features = reduced_features(
        adjacency, model.recipe.variant, settings.n_features, settings.coarsening_exponent
    )
    return encoder(settings.kind).embed(settings, model.weights, features, adjacency, threads)
