"""Heavy-edge matching merges any graph to exactly L supernodes, and always ends."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from stream_icd.core.errors import BadSettings
from stream_icd.methods.graphs.adjacency import as_adjacency
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.icd.features import coarsening_matrix, edge_weights, supernodes
from stream_icd.methods.icd.structure import structure_matrix


def merged(adjacency: csr_array, size: int) -> np.ndarray:
    """Supernode of each node under ICD-M's weights."""
    structure = structure_matrix(adjacency, "ICD-M")
    return supernodes(*edge_weights(structure, adjacency), adjacency.shape[0], size)


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
    rng = np.random.default_rng(1)
    structure = structure_matrix(graph.adjacency, "ICD-C")
    i, j, _ = edge_weights(structure, graph.adjacency)
    weights = rng.integers(1, 6, len(i)).astype(float)  # whole numbers: many exact ties
    expected = reference_supernodes(i.tolist(), j.tolist(), weights.tolist(), 300, size)
    assert supernodes(i, j, weights, 300, size).tolist() == expected


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=60),
    st.integers(1, 40),
)
def test_exactly_l_supernodes_whatever_the_graph(pairs: list[tuple[int, int]], size: int) -> None:
    adjacency = as_adjacency((np.sort(np.array(pairs, np.int64).reshape(-1, 2)).T, 31))
    supernode = merged(adjacency, size)
    assert set(supernode.tolist()) == set(range(min(31, size)))


def test_isolated_nodes_are_merged_before_anything_is_lost() -> None:
    adjacency = as_adjacency((np.array([[0, 2], [1, 3]]), 8))  # nodes 4..7 are alone
    supernode = merged(adjacency, 3)
    assert len(set(supernode[[0, 2]])) == 2
    assert len(set(supernode[4:])) == 1


def test_a_star_ends_soon() -> None:
    leaves = np.arange(1, 20_000)
    adjacency = as_adjacency((np.stack([np.zeros_like(leaves), leaves]), 20_000))
    merged(adjacency, 19_999)
    started = time.process_time()
    supernode = merged(adjacency, 1024)
    assert time.process_time() - started < 5
    assert len(set(supernode.tolist())) == 1024
    assert np.bincount(supernode).max() < 200


def test_columns_have_length_one_in_the_paper_and_length_n_in_the_scripts(
    graph: LabelledGraph,
) -> None:
    structure = structure_matrix(graph.adjacency, "ICD-M")
    paper = coarsening_matrix(structure, graph.adjacency, 50)  # the default
    np.testing.assert_allclose(np.sqrt(paper.multiply(paper).sum(axis=0)), 1)
    scripts = coarsening_matrix(structure, graph.adjacency, 50, 0.5)
    members = np.bincount(paper.indices, minlength=50)
    np.testing.assert_allclose(np.sqrt(scripts.multiply(scripts).sum(axis=0)), members)


def test_a_graph_with_few_nodes_is_padded_with_zero_columns(graph: LabelledGraph) -> None:
    structure = structure_matrix(graph.adjacency, "ICD-M")
    padded = coarsening_matrix(structure, graph.adjacency, 400).toarray()
    assert np.array_equal(padded, np.eye(300, 400))


def test_no_supernodes_is_no_coarsening(graph: LabelledGraph) -> None:
    with pytest.raises(BadSettings, match="1 or more"):
        coarsening_matrix(structure_matrix(graph.adjacency, "ICD-M"), graph.adjacency, 0)
