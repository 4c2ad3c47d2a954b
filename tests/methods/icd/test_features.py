"""X, C and Z have the paper's values though nothing dense is made; matching always ends."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from stream_icd.methods.graphs.adjacency import as_adjacency
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.icd import features
from stream_icd.methods.icd.features import (
    SparsePlusRankOne,
    model_features,
    structure_matrix,
)
from stream_icd.methods.icd.recipe import EncoderSettings, Recipe, Variant

both_variants = pytest.mark.parametrize("variant", ["ICD-M", "ICD-C"])


def z(
    adjacency: csr_array, size: int, variant: Variant = "ICD-M", exponent: float = -0.5
) -> SparsePlusRankOne:
    encoder = EncoderSettings(widths=(size, 2), coarsening_exponent=exponent)
    return model_features(adjacency, Recipe(name="z", variant=variant, encoder=encoder))


def merged(adjacency: csr_array, size: int) -> np.ndarray:
    """Supernode of each node under ICD-M's weights."""
    return features._supernodes(structure_matrix(adjacency, "ICD-M"), adjacency, size)


def star(n: int) -> csr_array:
    leaves = np.arange(1, n)
    return as_adjacency((np.stack([np.zeros_like(leaves), leaves]), n))


def dense_structure(adjacency: csr_array, variant: Variant) -> np.ndarray:
    """The paper's formula, written down with dense matrices."""
    a = adjacency.toarray()
    d = a.sum(axis=1)
    if variant == "ICD-M":
        return a - np.outer(d, d) / d.sum()
    root = np.diag(1 / np.sqrt(np.where(d > 0, d, 1)))
    return root @ a @ root


@both_variants
@pytest.mark.parametrize("exponent", [-0.5, 0.5])
def test_features_equal_the_dense_product(
    graph: LabelledGraph, variant: Variant, exponent: float
) -> None:
    structure = structure_matrix(graph.adjacency, variant)
    supernode = features._supernodes(structure, graph.adjacency, 128)
    coarsening = (supernode[:, None] == np.arange(128)) * np.bincount(supernode) ** exponent
    found, x = z(graph.adjacency, 128, variant, exponent), dense_structure(graph.adjacency, variant)
    assert found.shape == (300, 128)
    assert found.sparse.nnz <= graph.adjacency.nnz
    np.testing.assert_allclose(found.toarray(), x @ coarsening, rtol=1e-5, atol=1e-6)
    # A graph with few nodes is padded with columns of zeros.
    padded = z(graph.adjacency, 400, variant).toarray()
    np.testing.assert_allclose(padded, np.pad(x, ((0, 0), (0, 100))), rtol=1e-5, atol=1e-6)
    isolated = csr_array(np.pad(1 - np.eye(2), (0, 1)))
    assert not z(isolated, 2, variant).toarray()[2].any()
    assert not z(csr_array((4, 4)), 2, variant).toarray().any()


def reference_supernodes(i: list, j: list, weights: list, n: int, size: int) -> list[int]:
    """Appendix A with plain dictionaries, as an independent check."""
    edges, groups = dict(zip(zip(i, j, strict=True), weights, strict=True)), np.arange(n)
    count = n
    while count > size and edges:
        mapping: dict[int, int] = {}
        for (u, v), _ in sorted(edges.items(), key=lambda e: (e[1], e[0]), reverse=True):
            if u not in mapping and v not in mapping:
                mapping[u] = mapping[v] = len(set(mapping.values()))
                count -= 1
            if count == size:
                break
        for node in range(groups.max() + 1):
            mapping.setdefault(node, len(set(mapping.values())))
        groups = np.array([mapping[g] for g in groups])
        following: dict[tuple[int, int], float] = {}
        for (u, v), weight in edges.items():
            pair = tuple(sorted((mapping[u], mapping[v])))
            if pair[0] != pair[1]:
                following[pair] = following.get(pair, 0.0) + weight
        edges = following
    return groups.tolist()


@pytest.mark.parametrize("size", [290, 150, 149, 40, 8])
def test_the_merges_are_those_of_the_plain_algorithm(graph: LabelledGraph, size: int) -> None:
    x = graph.adjacency.copy()
    x.data = np.random.default_rng(1).integers(1, 6, x.nnz).astype(float)  # many exact ties
    i, j = np.nonzero(np.triu(graph.adjacency.toarray()))
    expected = reference_supernodes(i.tolist(), j.tolist(), x[i, j].tolist(), 300, size)
    found = features._supernodes(SparsePlusRankOne(x), graph.adjacency, size)
    assert found.tolist() == expected


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=60),
    st.integers(1, 40),
)
def test_exactly_l_supernodes_whatever_the_graph(pairs: list[tuple[int, int]], size: int) -> None:
    adjacency = as_adjacency((np.sort(np.array(pairs, np.int64).reshape(-1, 2)).T, 31))
    assert set(merged(adjacency, size).tolist()) == set(range(min(31, size)))


def test_isolated_nodes_are_merged_before_anything_is_lost() -> None:
    adjacency = as_adjacency((np.array([[0, 2], [1, 3]]), 8))  # nodes 4..7 are alone
    supernode = merged(adjacency, 3)
    assert len(set(supernode[[0, 2]])) == 2
    assert len(set(supernode[4:])) == 1


def test_a_star_ends_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    merged(star(20_000), 19_999)
    started = time.process_time()
    supernode = merged(star(20_000), 1024)
    assert time.process_time() - started < 5
    assert len(set(supernode.tolist())) == 1024
    assert np.bincount(supernode).max() < 200
    calls, match = [], features._match
    monkeypatch.setattr(features, "_match", lambda *a: calls.append(1) or match(*a))
    for work, n_passes in ((10**7, features._MAX_PASSES), (0, features._FEWEST_PASSES)):
        monkeypatch.setattr(features, "_WORK", work)
        calls.clear()
        assert set(merged(star(500), 100).tolist()) == set(range(100))
        assert len(calls) == n_passes
