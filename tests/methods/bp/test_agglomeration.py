"""Merging shortens the description, and stops where it would lengthen it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from stream_icd.methods.bp.agglomeration import agglomerate
from stream_icd.methods.bp.level_graph import finest_level
from stream_icd.methods.quality.agreement import nmi
from stream_icd.methods.quality.partition import description_length
from stream_icd.methods.synthetic.gn import generate_gn
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_lfr


def cut(labels: np.ndarray, parts: int) -> np.ndarray:
    """Each community cut into parts at random."""
    pieces = np.random.default_rng(0).integers(0, parts, len(labels))
    return np.unique(labels * parts + pieces, return_inverse=True)[1].astype(np.int32)


@pytest.mark.parametrize("parts", [2, 4])
def test_communities_cut_to_pieces_are_found_again(parts: int) -> None:
    graph = generate_lfr(np.random.default_rng(3), LfrSettings(n_nodes=2000, mixing=0.3))
    found = agglomerate(finest_level(graph.adjacency()), cut(graph.communities, parts))
    assert nmi(graph.communities, found) > 0.99


def test_right_communities_stay() -> None:
    graph = generate_gn(np.random.default_rng(3), 1000, 50, 0.5)
    labels = graph.communities.astype(np.int32)
    found = agglomerate(finest_level(graph.adjacency()), labels)
    assert nmi(labels, found) == pytest.approx(1)


@pytest.mark.parametrize("seed", range(5))
def test_the_description_never_gets_longer(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = generate_lfr(rng, LfrSettings(n_nodes=500, mixing=0.5)).adjacency()
    labels = rng.integers(0, 40, 500).astype(np.int32)
    found = agglomerate(finest_level(graph), labels)
    assert description_length(graph, found) <= description_length(graph, labels)


def test_chance_is_one_community() -> None:
    rng = np.random.default_rng(0)
    ends = rng.integers(0, 300, (2, 1500))
    half = csr_array((np.ones(1500), ends), shape=(300, 300))
    graph = csr_array(((half + half.T) > 0).astype(float))
    graph.setdiag(0)
    graph.eliminate_zeros()
    graph.sort_indices()
    labels = rng.integers(0, 10, 300).astype(np.int32)
    assert not agglomerate(finest_level(graph), labels).any()


def test_graphs_without_links_between_communities_stay() -> None:
    clique = np.ones((9, 9)) - np.eye(9)
    four = csr_array(np.kron(np.eye(4), clique))
    labels = (np.arange(36) // 9).astype(np.int32)
    assert agglomerate(finest_level(four), labels).tolist() == labels.tolist()
    empty, alone = finest_level(csr_array((5, 5), dtype=float)), np.arange(5, dtype=np.int32)
    assert np.array_equal(agglomerate(empty, alone), alone)


def test_isolated_nodes_stay_alone() -> None:
    graph = generate_gn(np.random.default_rng(3), 200, 4, 0.5)
    padded = csr_array(graph.adjacency())
    padded.resize((700, 700))
    labels = np.concatenate([cut(graph.communities, 2), 8 + np.arange(500)]).astype(np.int32)
    found = agglomerate(finest_level(padded), labels)
    assert nmi(graph.communities, found[:200]) == pytest.approx(1)
    assert len(set(found[200:].tolist())) == 500


def test_nodes_without_edges_stay_alone_also_as_parts_of_one_community() -> None:
    graph, labels = finest_level(csr_array((6, 6))), np.arange(6, dtype=np.int32)
    for parents in (None, np.zeros(6, np.int32)):
        with np.errstate(all="raise"):
            assert agglomerate(graph, labels, parents).tolist() == labels.tolist()
