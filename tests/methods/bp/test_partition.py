"""Partitions are measured, cut, united and named, on graphs small enough to check by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from stream_icd.core.arrays import NOBODY
from stream_icd.methods.bp import agglomeration
from stream_icd.methods.bp.find import find_communities
from stream_icd.methods.bp.level_graph import LevelGraph, finest_level
from stream_icd.methods.bp.likelihood import broken, mixing_beyond_chance, mixing_of, modularity_of
from stream_icd.methods.bp.modularity import maximise_modularity, move_nodes
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.bp.partition import (
    exactly,
    match_labels,
    measured,
    merged_communities,
    split_communities,
)
from stream_icd.methods.bp.posterior import certain_posterior, next_posterior, tidy
from stream_icd.methods.graphs.adjacency import as_adjacency
from stream_icd.methods.memory.changes import replaced_ids
from stream_icd.methods.quality.agreement import ami
from stream_icd.methods.quality.partition import description_length, modularity
from tests.methods.bp.graphs import cliques, labels_of, lfr


def graph_of(*sizes: int) -> LevelGraph:
    return finest_level(cliques(*sizes))


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.mark.parametrize("seed", range(6))
def test_measures_on_a_level_are_those_of_the_adjacency(seed: int) -> None:
    random = np.random.default_rng(seed)
    upper = np.triu(random.random((60, 60)) < 0.1, 1) * random.uniform(0.5, 2, (60, 60))
    upper[:, -1] = 0  # an isolated node
    adjacency = csr_array((upper + upper.T) * (seed > 0))  # the first one without edges
    labels = 3 * random.integers(0, 5, 60).astype(np.int32)  # some labels are unused
    graph = finest_level(adjacency)
    partition = measured(graph, labels)
    assert partition.bits == pytest.approx(description_length(adjacency, labels))
    assert modularity_of(graph, labels) == pytest.approx(modularity(adjacency, labels))
    assert partition.mixing == pytest.approx(mixing_of(adjacency, labels))
    assert len(set(labels.tolist())) == partition.labels.max() + 1


@pytest.mark.parametrize("mixing", [0.2, 0.6])
def test_the_mixing_beyond_chance_is_the_planted_one(mixing: float) -> None:
    planted = lfr(3, 2000, mixing)
    graph = finest_level(planted.adjacency())
    found = mixing_beyond_chance(graph, planted.communities, planted.n_communities)
    assert found == pytest.approx(mixing, abs=0.04)
    assert mixing_beyond_chance(graph, np.zeros(2000, np.int32), 1) == 1.0


def test_communities_split_only_where_it_shortens_the_description() -> None:
    split = split_communities(graph_of(9, 5, 8), labels_of(14, 8), 2, 4.0, 0.1, rng())
    assert split.tolist() == [0] * 9 + [2] * 5 + [1] * 8
    whole = split_communities(graph_of(9, 8), labels_of(9, 8), 2, 4.0, 0.1, rng())
    assert whole.tolist() == labels_of(9, 8).tolist()
    planted = lfr(1, 2000, 0.4)
    adjacency, k, truth = planted.adjacency(), planted.n_communities, planted.communities
    graph = finest_level(adjacency)
    assert np.array_equal(split_communities(graph, truth, k, 8.0, 0.4, rng()), truth)
    halves = (truth // 2).astype(np.int32)  # pairs of communities taken for one
    found = split_communities(graph, halves, int(halves.max()) + 1, 8.0, 0.4, rng())
    assert found.max() + 1 > 0.8 * k
    assert description_length(adjacency, found) < description_length(adjacency, halves)


def test_a_star_stays_whole_after_a_few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """If its leaves were joined one after the other, time would be quadratic."""
    found_in, rounds = [], agglomeration._rounds
    monkeypatch.setattr(
        agglomeration, "_rounds", lambda *graph: found_in.append(rounds(*graph)) or found_in[-1]
    )
    leaves = np.arange(1, 3000)
    star = finest_level(as_adjacency((np.stack([0 * leaves, leaves]), 3000)))
    assert not split_communities(star, np.zeros(3000, np.int32), 1, 4.0, 0.1, rng()).any()
    assert 1 < found_in[0][1] < 60


def test_halves_of_a_community_merge_and_communities_do_not() -> None:
    halves, apart = labels_of(5, 4, 9), labels_of(9, 9)
    assert merged_communities(graph_of(9, 9), halves, 3, halves, 3, 0.1).tolist() == [0, 0, 2]
    assert merged_communities(graph_of(9, 9), apart, 2, apart, 2, 0.1).tolist() == [0, 1]
    # A remembered community gives the name to a larger new one.
    labels = np.repeat([0, 2, 1], [4, 5, 9]).astype(np.int32)
    remembered = np.where(labels == 0, 0, NOBODY).astype(np.int32)
    assert merged_communities(graph_of(9, 9), labels, 3, remembered, 1, 0.1)[2] == 0


def test_what_is_left_of_a_community_merges_although_it_has_hardly_an_edge_of_its_own() -> None:
    adjacency = cliques(20, 9).tolil()
    rest = [16, 17, 18, 19]  # two edges among them, eight to the 16 others
    adjacency[rest, :] = adjacency[:, rest] = 0
    for place, node in enumerate(rest):
        for other in (place, place + 4, rest[place ^ 1]):
            adjacency[node, other] = adjacency[other, node] = 1
    graph, labels = finest_level(csr_array(adjacency)), labels_of(16, 4, 9)
    assert merged_communities(graph, labels, 3, labels, 3, 0.1)[1] == 1
    left = labels_of(8, 12, 9)  # 8 of the 12 have gone to 0
    into = merged_communities(graph, labels, 3, left, 3, 0.1)
    assert into[1] == into[0] != into[2]


def test_nodes_that_leave_others_for_each_other_form_a_community() -> None:
    founders = np.array([*range(8), *range(40, 48)])
    adjacency = cliques(40, 40).tolil()
    adjacency[founders, :] = adjacency[:, founders] = 0
    adjacency[np.ix_(founders, founders)] = 1 - np.eye(16)
    known = certain_posterior(labels_of(40, 40), 0.2)._replace(believed=True)
    posterior = next_posterior(finest_level(csr_array(adjacency)), BpParameters(), known, seed=0)
    expected = labels_of(40, 40)
    expected[founders] = 2
    assert ami(expected, posterior.likeliest) == pytest.approx(1)


def test_a_graph_continues_while_its_edges_are_more_than_chance() -> None:
    remembered, mixed = labels_of(*[10] * 8), np.arange(80, dtype=np.int32) % 8
    graph = graph_of(*[10] * 8)
    assert not broken(graph, remembered, 8, 0.1)
    assert broken(graph, mixed, 8, 0.1)
    some = np.where(np.arange(80) < 20, remembered, mixed).astype(np.int32)  # two are as they were
    assert not broken(graph, some, 8, 0.1)
    # Neither a few edges nor a single community break anything.
    links = finest_level(csr_array(([1.0, 1.0], ([0, 10], [10, 0])), (20, 20)))
    assert not broken(links, labels_of(10, 10), 2, 0.1)
    assert not broken(graph_of(20), labels_of(20), 1, 0.1)


def test_names_go_to_those_who_hold_half_of_the_nodes_of_a_name_or_of_the_label() -> None:
    names = np.array([4, 4, 1, 4, 1, NOBODY, NOBODY], np.int32)
    assert match_labels(labels_of(3, 2, 2), names, 3, 5).tolist() == [4, 1, 5]
    labels = np.array([0] * 6 + [1] * 4 + [0] * 3, np.int32)
    names = np.array([0] * 6 + [1] * 2 + [2] * 2 + [1] * 3, np.int32)  # most of 1 are with 0
    assert match_labels(labels, names, 2, 3).tolist() == [0, 1]
    names[6] = 2
    assert match_labels(labels, names, 2, 3).tolist() == [0, 2]


def test_an_id_that_ended_is_followed_where_most_of_its_nodes_are() -> None:
    before = labels_of(4, 4, 4)
    labels = np.array([0, 0, 0, 1, 0, 1, 1, 0, 0, 0, 0, 0], np.int32)
    found = replaced_ids(labels, np.array([7, 9]), before, np.array([5, 6, 7]))
    assert found.tolist() == [[5, 7], [6, NOBODY]]


def test_tidy_adds_the_shares_of_one_community_and_sorts() -> None:
    names = np.array([[5, 3, 5, -1], [-1, 2, -7, 4]], np.int32)
    shares = np.array([[0.2, 0.4, 0.3, 0.9], [0.5, 0.1, 0.5, 0.2]], np.float32)
    names, shares = tidy(names, shares)
    assert names.tolist() == [[5, 3, -1, -1], [4, 2, -1, -1]]
    assert shares.tolist() == pytest.approx(np.array([[0.5, 0.4, 0, 0], [0.2, 0.1, 0, 0]]))


def ring_of_pairs(*heavy: float, light: float) -> csr_array:
    """Pairs (0, 1), (2, 3), ... joined by these weights, and each to the next by a light one."""
    n_nodes = 2 * len(heavy)
    weights = np.full(n_nodes, light)
    weights[::2] = heavy
    nodes = np.arange(n_nodes)
    one_way = csr_array((weights, (nodes, (nodes + 1) % n_nodes)), (n_nodes, n_nodes))
    return csr_array(one_way.maximum(one_way.T))


@pytest.mark.parametrize(
    ("adjacency", "labels", "expected"),
    [
        (ring_of_pairs(9, 8, 7, 6, light=1), range(8), [0, 0, 1, 2, 3, 4, 5, 6]),
        (ring_of_pairs(9, 8, 7, 6, light=1), range(8), [0, 0, 1, 1, 2, 3, 4, 5]),
        (ring_of_pairs(9, 8, 7, 6, light=1), range(8), [0, 0, 1, 1, 2, 2, 3, 4]),
        (ring_of_pairs(9, 9, 9, light=0.5), [0, 0, 0, 0, 1, 1], [0, 0, 1, 1, 2, 2]),
        (ring_of_pairs(1, 1, light=9), [0, 0, 1, 1], [0, 0, 1, 1]),
        (cliques(2, 2, 1, 1), [0, 0, 1, 1, 2, 3], [0, 0, 1, 1, 2, 2]),
    ],
    ids=["heaviest", "two heaviest", "three heaviest", "cut", "as it was", "small components"],
)
def test_the_heaviest_links_are_merged_first_and_cuts_are_between_parts(
    adjacency: csr_array, labels: list[int], expected: list[int]
) -> None:
    graph, start = finest_level(adjacency), np.array(labels, np.int32)
    found = exactly(graph, start, max(expected) + 1, 1.0, rng(), believed=True)
    assert found.tolist() == expected


def test_far_fewer_communities_than_modularity_finds_are_not_only_merged() -> None:
    adjacency, random = lfr(0, 2000).adjacency(), rng()
    graph = finest_level(adjacency)
    found = maximise_modularity(graph, 1.0, random, iterations=10)
    merged = exactly(graph, found, 5, 1.0, random, believed=True)
    move_nodes(graph, merged, 1.0, rng(), may_empty=False)
    labels = exactly(graph, found, 5, 1.0, random, believed=False)
    assert len(set(labels.tolist())) == 5
    assert modularity(adjacency, labels) > modularity(adjacency, merged) + 0.005


@pytest.mark.parametrize("seed", range(3))
def test_more_communities_than_there_are_describe_no_worse_than_those_of_modularity(
    seed: int,
) -> None:
    random = np.random.default_rng(seed)
    parents = [int(random.integers(node) * random.random()) for node in range(1, 300)]
    tree = csr_array((np.ones(299), (parents, range(1, 300))), (300, 300))
    bits, by_modularity = (
        description_length(tree + tree.T, find_communities(tree + tree.T, parameters, 40))
        for parameters in (BpParameters(search=True), BpParameters())
    )
    assert bits <= by_modularity + 0.01  # beliefs leave most of forty empty
