"""Levels of communities are those that shorten the description of a graph."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from stream_icd.core.arrays import Labels
from stream_icd.interfaces.estimator import ICD
from stream_icd.methods.bp.level_graph import finest_level
from stream_icd.methods.bp.levels import Levels, levels_of
from stream_icd.methods.quality.agreement import ami
from tests.methods.bp.graphs import lfr


def two_levels(seed: int = 0) -> tuple[csr_array, Labels]:
    """A graph of 24 communities of 25 nodes, four of which are one on the level above."""
    rng = np.random.default_rng(seed)
    small = np.repeat(np.arange(24), 25)
    chance = np.where(small[:, None] // 4 == small // 4, 0.06, 0.004)
    chance = np.where(small[:, None] == small, 0.5, chance)
    upper = np.triu(rng.random(chance.shape) < chance, 1)
    return csr_array((upper | upper.T).astype(np.float64)), small.astype(np.int32)


GRAPH, SMALL = two_levels()
LARGE = (SMALL // 4).astype(np.int32)


@pytest.mark.parametrize("mixing", [0.3, 0.5])
def test_a_graph_of_one_level_has_one(mixing: float) -> None:
    planted = lfr(4, 2000, mixing)
    found = levels_of(finest_level(planted.adjacency()), planted.communities, "all")
    assert found == ((), ())


def test_a_graph_without_edges_has_no_levels() -> None:
    for labels in (np.arange(3, dtype=np.int32), np.zeros(3, np.int32)):
        assert levels_of(finest_level(csr_array((3, 3))), labels, "all") == ((), ())


def test_the_oldest_community_names_that_which_it_is_in() -> None:
    above = np.array([0, 0, 1, 2, 2], np.int32), np.array([0, 0, 1], np.int32)
    ids = np.array([7, 4, 2, 9, 5])
    assert Levels(above).ancestors(ids).tolist() == [[2, 2, 2, 5, 5], [4, 4, 2, 5, 5]]
    assert Levels().ancestors(ids).shape == (0, 5)


def test_an_estimator_leaves_the_levels_as_a_table() -> None:
    icd = ICD.load("default", levels=True)
    icd.predict(GRAPH)
    table = icd.hierarchy_.to_pandas().sort_values("node")
    assert list(table) == ["node", "cluster", "parent_cluster", "level", "is_final"]
    finals, coarsest = table[table.is_final], table[table.level == 0]
    assert finals.node.tolist() == list(range(len(SMALL)))
    assert ami(SMALL, finals.cluster.to_numpy()) > 0.99
    assert ami(LARGE, coarsest.cluster.to_numpy()) > 0.99
    assert coarsest.parent_cluster.isna().all()
    # Each cluster has one parent, on the level before, with all of its nodes.
    below = table[table.level > 0]
    assert (below.groupby("cluster").parent_cluster.nunique() == 1).all()
    level_of = table.drop_duplicates("cluster").set_index("cluster").level
    assert (level_of[below.parent_cluster].to_numpy() == below.level.to_numpy() - 1).all()
    own = table[table.cluster <= icd.labels_.max()].drop_duplicates("node")
    assert own.cluster.tolist() == icd.labels_.tolist()
    assert ICD.load("default").predict(GRAPH).tolist() == icd.labels_.tolist()


def test_levels_of_a_stream_are_in_the_order_of_its_nodes() -> None:
    icd, order = ICD.load("default", levels=True), np.random.default_rng(1).permutation(len(SMALL))
    shuffled, memory = csr_array(GRAPH[order][:, order]), None
    for _ in range(2):
        memory = icd.predict_next(shuffled, memory, nodes=order).memory
    table = icd.hierarchy_.to_pandas()
    finals = table[table.is_final].sort_values("node")
    assert ami(SMALL, finals.cluster.to_numpy()) > 0.99
    assert ICD.load("default").predict_next(shuffled, nodes=order).levels == ((), ())
