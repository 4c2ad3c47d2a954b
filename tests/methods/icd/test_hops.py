"""The encoder hops: what it learns means the same in every order of the features' columns."""

from __future__ import annotations

import numpy as np

from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.icd.encoder.contract import Weights
from stream_icd.methods.icd.encoder.hops import Hops
from stream_icd.methods.icd.features import reduced_features
from stream_icd.methods.icd.recipe import EncoderSettings
from stream_icd.methods.icd.structure import SparsePlusRankOne

SETTINGS = EncoderSettings(kind="hops", widths=(64, 64))  # R is then orthogonal


def weights(b: float) -> Weights:
    hops = np.array([0.3, 0, 0, 0.4, 0, 0, 0.3, 0], np.float32)
    return {"hops": hops, "exponents": np.array([0.2, b, 0.1], np.float32)}


def scalar_products(features: SparsePlusRankOne, graph: LabelledGraph, b: float) -> np.ndarray:
    embedding = Hops(SETTINGS).embed(weights(b), features, graph.adjacency)
    return embedding @ embedding.T


def test_another_order_of_the_columns_keeps_all_scalar_products(graph: LabelledGraph) -> None:
    features = reduced_features(graph.adjacency, "ICD-M", 64)
    order = np.random.default_rng(3).permutation(64)
    u, v = features.outer
    permuted = SparsePlusRankOne(features.sparse[:, order], (u, v[order]))
    before, after = (scalar_products(one, graph, 0.1) for one in (features, permuted))
    np.testing.assert_allclose(after, before, atol=1e-5)
    other = scalar_products(features, graph, 0.6)
    assert abs(other - before).max() > 0.01


def test_numbers_before_training_hardly_depend_on_the_seed() -> None:
    first, other = (Hops(SETTINGS).initial_weights(np.random.default_rng(s)) for s in (1, 2))
    for name, weight in first.items():
        assert 0 < abs(weight - other[name]).max() <= 0.02
