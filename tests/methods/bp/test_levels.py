"""Levels of communities are those that shorten the description of a graph."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from stream_icd.core.arrays import Labels
from stream_icd.interfaces.estimator import ICD
from stream_icd.methods.bp.level_graph import finest_level
from stream_icd.methods.bp.levels import ancestors, levels_above, levels_below, levels_of
from stream_icd.methods.quality.agreement import ami
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_lfr

N_SMALL, SIZE, OF_LARGE = 24, 25, 4


def two_levels(seed: int = 0, within: float = 0.5, near: float = 0.06) -> tuple[csr_array, Labels]:
    """A graph of 24 communities of 25 nodes, four of which are one on the level above."""
    rng = np.random.default_rng(seed)
    small = np.repeat(np.arange(N_SMALL), SIZE)
    large = small // OF_LARGE
    chance = np.where(large[:, None] == large, near, 0.004)
    chance = np.where(small[:, None] == small, within, chance)
    upper = np.triu(rng.random(chance.shape) < chance, 1)
    return csr_array((upper | upper.T).astype(np.float64)), small.astype(np.int32)


GRAPH, SMALL = two_levels()
LARGE = (SMALL // OF_LARGE).astype(np.int32)
LEVEL = finest_level(GRAPH)


def test_communities_of_communities_are_found() -> None:
    (above,) = levels_above(LEVEL, SMALL)
    assert ami(LARGE, above[SMALL]) == pytest.approx(1)


def test_communities_inside_communities_are_found() -> None:
    (below,) = levels_below(LEVEL, LARGE)
    assert ami(SMALL, below) > 0.99
    assert levels_below(LEVEL, SMALL) == ()
    assert levels_above(LEVEL, LARGE) == ()


@pytest.mark.parametrize("mixing", [0.3, 0.5])
def test_a_graph_of_one_level_has_one(mixing: float) -> None:
    planted = generate_lfr(np.random.default_rng(4), LfrSettings(2000, mixing=mixing))
    graph = finest_level(planted.adjacency())
    found = levels_of(graph, planted.communities.astype(np.int32), "all")
    assert found == ((), ())


def test_a_graph_without_edges_has_no_levels() -> None:
    alone = finest_level(csr_array((3, 3)))
    assert levels_of(alone, np.arange(3, dtype=np.int32), "all") == ((), ())
    assert levels_of(alone, np.zeros(3, np.int32), "all") == ((), ())
    assert levels_of(LEVEL, LARGE, "above") == ((), ())


def test_the_oldest_community_names_that_which_it_is_in() -> None:
    above = np.array([0, 0, 1, 2, 2], np.int32), np.array([0, 0, 1], np.int32)
    ids = np.array([7, 4, 2, 9, 5])
    assert ancestors(above, ids).tolist() == [[2, 2, 2, 5, 5], [4, 4, 2, 5, 5]]
    assert ancestors((), ids).shape == (0, 5)


def test_an_estimator_leaves_the_levels_as_a_table() -> None:
    icd = ICD.load("default", levels=True)
    icd.predict(GRAPH)
    table = icd.hierarchy_.to_pandas()
    assert list(table) == ["node", "cluster", "parent_cluster", "level", "is_final"]
    finals = table[table.is_final].sort_values("node")
    assert finals.node.tolist() == list(range(len(SMALL)))
    assert ami(SMALL, finals.cluster.to_numpy()) > 0.99
    coarsest = table[table.level == 0]
    assert ami(LARGE, coarsest.sort_values("node").cluster.to_numpy()) > 0.99
    assert coarsest.parent_cluster.isna().all()
    # Each cluster has one parent, on the level before, with all of its nodes.
    below = table[table.level > 0]
    assert (below.groupby("cluster").parent_cluster.nunique() == 1).all()
    level_of = dict(zip(table.cluster, table.level, strict=True))
    assert all(
        level_of[parent] == level - 1
        for parent, level in zip(below.parent_cluster, below.level, strict=True)
    )
    own = table[table.cluster <= icd.labels_.max()].drop_duplicates("node").sort_values("node")
    assert own.cluster.tolist() == icd.labels_.tolist()
    assert ICD.load("default").predict(GRAPH).tolist() == icd.labels_.tolist()


def test_levels_of_a_stream_are_in_the_order_of_its_nodes() -> None:
    icd, order = ICD.load("default", levels=True), np.random.default_rng(1).permutation(len(SMALL))
    shuffled, memory = csr_array(GRAPH[order][:, order]), None
    for _ in range(2):
        found = icd.predict_next(shuffled, memory, nodes=order)
        memory = found.memory
    table = icd.hierarchy_.to_pandas()
    finals = table[table.is_final].sort_values("node")
    assert ami(SMALL, finals.cluster.to_numpy()) > 0.99
    assert ICD.load("default").predict_next(shuffled, nodes=order).levels == ((), ())
