"""X and Z have the paper's values though nothing dense is made."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import coo_array, csr_array

from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.icd.features import coarsening_matrix, reduced_features
from stream_icd.methods.icd.structure import Variant, propagation_matrix, structure_matrix


def dense_structure(adjacency: csr_array, variant: Variant) -> np.ndarray:
    """The paper's formula, written down with dense matrices."""
    a = adjacency.toarray()
    d = a.sum(axis=1)
    if variant == "ICD-M":
        return a - np.outer(d, d) / d.sum()
    root = np.diag(1 / np.sqrt(np.where(d > 0, d, 1)))
    return root @ a @ root


@pytest.mark.parametrize("variant", ["ICD-M", "ICD-C"])
@pytest.mark.parametrize("exponent", [-0.5, 0.5])
def test_features_equal_the_dense_product(
    graph: LabelledGraph, variant: Variant, exponent: float
) -> None:
    structure = structure_matrix(graph.adjacency, variant)
    coarsening = coarsening_matrix(structure, graph.adjacency, 128, exponent)
    dense = dense_structure(graph.adjacency, variant) @ coarsening.toarray()
    features = reduced_features(graph.adjacency, variant, 128, exponent)
    assert features.shape == (300, 128)
    np.testing.assert_allclose(features.toarray(), dense, rtol=1e-5, atol=1e-6)


def test_the_sparse_part_of_features_stays_as_small_as_the_graph(graph: LabelledGraph) -> None:
    features = reduced_features(graph.adjacency, "ICD-M", 128)
    assert features.sparse.nnz <= graph.adjacency.nnz


@pytest.mark.parametrize("variant", ["ICD-M", "ICD-C"])
def test_an_isolated_node_has_a_row_of_zeros(variant: Variant) -> None:
    adjacency = coo_array(([1.0, 1.0], ([0, 1], [1, 0])), shape=(3, 3)).tocsr()
    assert not reduced_features(adjacency, variant, 2).toarray()[2].any()


@pytest.mark.parametrize("variant", ["ICD-M", "ICD-C"])
def test_a_graph_without_edges_has_zero_features(variant: Variant) -> None:
    assert not reduced_features(csr_array((4, 4)), variant, 2).toarray().any()


def test_propagation_adds_a_loop_and_scales_both_sides(graph: LabelledGraph) -> None:
    with_loops = graph.adjacency.toarray() + np.eye(300)
    root = 1 / np.sqrt(with_loops.sum(axis=1))
    expected = root[:, None] * with_loops * root
    np.testing.assert_allclose(propagation_matrix(graph.adjacency).toarray(), expected)
