"""What is known of some nodes helps to find the others; communities form levels."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise
from typing import Any

import networkx
import numpy as np
import pytest
from scipy.sparse import csr_array

from stream_icd.core.arrays import NOBODY, Ids, Labels
from stream_icd.core.errors import BadInput, BadSettings
from stream_icd.interfaces.estimator import ICD
from stream_icd.methods.bp.find import find_communities
from stream_icd.methods.bp.known import find_with_known
from stream_icd.methods.bp.level_graph import finest_level
from stream_icd.methods.bp.levels import Levels, levels_of
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.quality.agreement import ami
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_drifting_lfr
from stream_icd.methods.synthetic.planted_graph import PlantedGraph
from tests.methods.bp.graphs import cliques, lfr
from tests.methods.memory.streams import ids_of

SEARCH = BpParameters(search=True)
CLIQUES = cliques(10, 10, 10)


def known_of(n_nodes: int, labels: dict[int, int]) -> np.ndarray:
    known = np.full(n_nodes, NOBODY, np.int32)
    known[list(labels)] = list(labels.values())
    return known


@pytest.mark.parametrize(("fixed", "least"), [(False, 0.5), (True, 0.999)])
def test_known_nodes_help_the_others(fixed: bool, least: float) -> None:
    planted = lfr(9001, 3000, 0.6)
    truth, adjacency = planted.communities, planted.adjacency()
    chosen = np.random.default_rng(0).choice(3000, 600, replace=False)
    known = known_of(3000, dict(zip(chosen, truth[chosen], strict=True)))
    labels, sure, of_known = find_with_known(adjacency, SEARCH, known, fixed=fixed)
    others, alone = known < 0, find_communities(adjacency, SEARCH)
    assert ami(truth[others], labels[others]) > ami(truth[others], alone[others]) + 0.01
    assert set(labels) == set(range(labels.max() + 1))
    assert ((sure.probabilities >= 0) & (sure.probabilities <= 1)).all()
    assert (labels[chosen] == of_known[known[chosen]]).mean() > least


def test_a_prior_gives_way_to_edges_and_what_is_fixed_does_not() -> None:
    known = known_of(30, {0: 0, 1: 1, 12: 0})
    labels, sure, of_known = find_with_known(CLIQUES, SEARCH, known, fixed=True)
    assert labels[0] == labels[12] == of_known[0] != labels[1] == of_known[1]
    assert sure.probabilities[[0, 1, 12]].tolist() == [1, 1, 1]
    known = known_of(30, {0: 0, 1: 0, 2: 0, 12: 0})
    labels, _, of_known = find_with_known(CLIQUES, SEARCH, known)
    assert labels[0] == of_known[0] != labels[12] == labels[13]


def test_nodes_are_known_by_their_names() -> None:
    graph = networkx.ring_of_cliques(4, 8)
    graph = networkx.relabel_nodes(graph, {node: f"n{node}" for node in graph})
    icd = ICD.load("default")
    found = icd.predict(graph, known={"n0": "east", "n9": "west"}, fixed=True)
    of = dict(zip(icd.nodes_.tolist(), found.tolist(), strict=True))
    assert icd.known_ == {"east": of["n0"], "west": of["n9"]}
    assert icd.predict(graph).tolist() == icd.labels_.tolist()
    assert icd.known_ == {}
    with pytest.raises(BadInput, match=r"no node 'acme' \(1 of the known ones are missing\)"):
        icd.predict(graph, known={"acme": 7, "n0": 7})
    with pytest.raises(BadSettings, match="the method bp determines K if communities of nodes"):
        icd.predict(graph, 4, known={"n0": 7})


def test_known_nodes_are_seeds_of_k_means() -> None:
    icd = ICD.load("default", method="icd")
    known = {0: "a", 1: "a", 12: "b", 24: "c", 25: "d"}
    found = icd.predict(CLIQUES, known=known)
    assert found[1] == found[2] == icd.known_["a"] != found[13] == icd.known_["b"]
    assert len(set(found)) == 4  # as many as there are labels
    found = icd.predict(CLIQUES, 4, known={**known, 29: "a"}, fixed=True)
    assert found[0] == found[1] == found[29] == icd.known_["a"]
    assert found[24] == icd.known_["c"] != found[25] == icd.known_["d"]
    with pytest.raises(BadSettings, match="3 communities are too few for 4 known labels"):
        icd.predict(CLIQUES, 3, known=known)
    # Known nodes without edges are with their label if that is fixed.
    known, with_isolated = {0: "a", 30: "a", 31: "b", 32: "b"}, cliques(10, 10, 10, 1, 1, 1)
    assert len(set(icd.predict(with_isolated, known=known)[30:])) == 3
    found = icd.predict(with_isolated, known=known, fixed=True)
    assert found[0] == found[30] == icd.known_["a"] != found[31] == found[32] == icd.known_["b"]
    assert set(found) == set(range(4))


Pairs = list[tuple[str, str]]


def stream(n_windows: int, mixing: float = 0.6) -> Iterator[tuple[PlantedGraph, Ids]]:
    yield from generate_drifting_lfr(5, n_windows, LfrSettings(1000, mixing=mixing))


def letters(*groups: str) -> Pairs:
    """Each group of letters is a clique; one edge joins it to the next."""
    inside = [pair for group in groups for pair in combinations(group, 2)]
    return inside + [(one[0], other[1]) for one, other in pairwise(groups)]


EAST, WEST, SOUTH = "abcdefgh", "ijklmnop", "qrstuvwx"


@pytest.mark.parametrize("horizon", ["auto", "off", 3])
@pytest.mark.parametrize("method", ["bp", "icd"])
def test_a_label_keeps_its_nodes_and_its_id(method: str, horizon: str | int) -> None:
    icd, memory, ids = ICD.load("default", method=method), None, []
    planted = list(stream(5))
    truth = planted[0][0].communities
    known = {node: f"label {of}" for node, of in enumerate(truth.tolist()) if of < 4 and node % 3}
    for snapshot, _ in planted:
        found = icd.predict_next(snapshot, memory, known=known, fixed=True, horizon=horizon)
        memory = found.memory.checked()
        ids.append(icd.known_)
        at = [place for place, node in enumerate(icd.nodes_.tolist()) if node in known]
        labels = [known[icd.nodes_[place]] for place in at]
        assert [icd.known_[label] for label in labels] == ids_of(found)[at].tolist()
        assert method == "icd" or (found.probabilities[at] == 1).all()
    assert all(one == ids[0] for one in ids)
    assert len(set(ids[0].values())) == 4


def test_what_is_known_helps_the_other_nodes_of_a_stream() -> None:
    scores = {}
    for share in (0.0, 0.2):
        icd, memory, own = ICD.load("default"), None, []
        for planted, _ in stream(4, 0.65):
            truth = planted.communities
            given = np.random.default_rng(0).random(len(truth)) < 0.2
            known = dict(zip(np.flatnonzero(given).tolist(), truth[given].tolist(), strict=True))
            found = icd.predict_next(planted, memory, known=known if share else None, fixed=True)
            memory = found.memory
            own.append(ami(truth[~given], found.communities[~given]))
        scores[share] = np.mean(own)
    assert scores[0.2] > scores[0.0] + 0.02


def test_without_known_nodes_in_a_window_nothing_changes() -> None:
    plain, other, memory, same = ICD.load("lfr"), ICD.load("lfr"), None, None
    for snapshot, _ in stream(3):
        found = plain.predict_next(snapshot, memory)
        again = other.predict_next(snapshot, same, known={-7: "nobody"})
        memory, same = found.memory, again.memory
        assert other.known_ == {"nobody": -1}
        assert (found.communities == again.communities).all()
        assert (found.community_ids == again.community_ids).all()
        assert (found.probabilities == again.probabilities).all()


def test_a_label_takes_its_id_along_when_its_nodes_join_others() -> None:
    icd, known = ICD.load("default"), {"a": "us", "b": "us", "i": "them"}
    first = icd.predict_next(letters(EAST, WEST, SOUTH), known=known, fixed=True, horizon="off")
    before = icd.known_
    moved = letters("abijklmnop", "cdefgh", SOUTH)
    then = icd.predict_next(moved, first.memory, known=known, fixed=True, horizon="off")
    assert icd.known_ == before
    of = dict(zip(icd.nodes_.tolist(), ids_of(then).tolist(), strict=True))
    assert of["a"] == of["b"] == before["us"] != of["i"] == before["them"]
    assert len(set(then.community_ids)) == len(then.community_ids)


@pytest.mark.parametrize(
    ("known", "k", "said"),
    [
        ({"a": 1, 7: 2}, None, "known nodes are neither integers of 64 bits nor text"),
        ({1.5: 1}, None, "known nodes are integers or text, not double"),
        ({"a": 1}, 2, "the method bp determines K"),
    ],
)
def test_what_cannot_be_known_is_refused(known: dict[Any, int], k: int | None, said: str) -> None:
    with pytest.raises((BadInput, BadSettings), match=said):
        ICD.load("default").predict_next(letters(EAST, WEST), n_communities=k, known=known)


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
