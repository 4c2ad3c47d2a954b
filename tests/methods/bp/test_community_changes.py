"""Each way in which communities change, on graphs small enough to check by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import block_diag, coo_array, csr_array

from stream_icd.core.arrays import NOBODY
from stream_icd.methods.bp import agglomeration
from stream_icd.methods.bp.agglomeration import merged_communities
from stream_icd.methods.bp.level_graph import LevelGraph, finest_level
from stream_icd.methods.bp.likelihood import broken, mixing_beyond_chance
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.bp.partition import match_labels, split_communities
from stream_icd.methods.bp.posterior import certain_posterior, next_posterior, tidy
from stream_icd.methods.memory.changes import replaced_ids
from stream_icd.methods.quality.agreement import ami
from stream_icd.methods.quality.partition import description_length
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_lfr


def cliques(*sizes: int) -> csr_array:
    adjacency = csr_array(block_diag([np.ones((size, size)) - np.eye(size) for size in sizes]))
    adjacency.eliminate_zeros()
    return adjacency


def labels_of(*sizes: int) -> np.ndarray:
    return np.repeat(np.arange(len(sizes)), sizes).astype(np.int32)


def graph_of(*sizes: int) -> LevelGraph:
    return finest_level(cliques(*sizes))


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_communities_split_only_where_it_shortens_the_description() -> None:
    split = split_communities(graph_of(9, 5, 8), labels_of(14, 8), 2, 4.0, 0.1, rng())
    assert split.tolist() == [0] * 9 + [2] * 5 + [1] * 8
    whole = split_communities(graph_of(9, 8), labels_of(9, 8), 2, 4.0, 0.1, rng())
    assert whole.tolist() == labels_of(9, 8).tolist()


def test_a_star_stays_whole_after_a_few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """If its leaves were joined one after the other, time would be quadratic."""
    found_in, rounds = [], agglomeration._rounds
    monkeypatch.setattr(
        agglomeration, "_rounds", lambda *graph: found_in.append(rounds(*graph)) or found_in[-1]
    )
    leaves = np.arange(1, 3000)
    half = coo_array((np.ones(2999), (0 * leaves, leaves)), (3000, 3000)).tocsr()
    star = finest_level(csr_array(half + half.T))
    whole = np.zeros(3000, np.int32)
    found = split_communities(star, whole, 1, 4.0, 0.1, rng())
    assert found.tolist() == whole.tolist()
    assert 1 < found_in[0][1] < 60


def test_the_communities_of_a_random_graph_do_not_split() -> None:
    planted = generate_lfr(np.random.default_rng(1), LfrSettings(n_nodes=2000, mixing=0.4))
    graph, k = finest_level(planted.adjacency()), planted.n_communities
    labels = split_communities(graph, planted.communities, k, 8.0, 0.4, rng())
    assert np.array_equal(labels, planted.communities)
    halves = (planted.communities // 2).astype(np.int32)  # pairs of communities taken for one
    found = split_communities(graph, halves, int(halves.max()) + 1, 8.0, 0.4, rng())
    adjacency = planted.adjacency()
    assert found.max() + 1 > 0.8 * k
    assert description_length(adjacency, found) < description_length(adjacency, halves)


def test_halves_of_a_community_merge_and_communities_do_not() -> None:
    labels = labels_of(5, 4, 9)
    into = merged_communities(graph_of(9, 9), labels, 3, labels, 3, 0.1)
    assert into.tolist() == [0, 0, 2]
    apart = labels_of(9, 9)
    assert merged_communities(graph_of(9, 9), apart, 2, apart, 2, 0.1).tolist() == [0, 1]


def test_a_remembered_community_gives_the_name_to_a_larger_new_one() -> None:
    labels = labels_of(4, 9, 5)[[0] * 4 + [17] * 5 + [8] * 9]
    remembered = np.where(labels == 0, 0, NOBODY).astype(np.int32)
    into = merged_communities(graph_of(9, 9), labels, 3, remembered, 1, 0.1)
    assert into[2] == 0


def test_what_is_left_of_a_community_merges_although_it_has_hardly_an_edge_of_its_own() -> None:
    adjacency = cliques(20, 9).tolil()
    rest = [16, 17, 18, 19]  # two edges among them, eight to the 16 others
    adjacency[rest, :] = adjacency[:, rest] = 0
    for place, node in enumerate(rest):
        for other in (place, place + 4, rest[place ^ 1]):
            adjacency[node, other] = adjacency[other, node] = 1
    graph, labels = finest_level(csr_array(adjacency)), labels_of(16, 4, 9)
    assert merged_communities(graph, labels, 3, labels, 3, 0.1)[1] == 1
    left = np.array([0] * 8 + [1] * 12 + [2] * 9, np.int32)  # 8 of the 12 have gone to 0
    into = merged_communities(graph, labels, 3, left, 3, 0.1)
    assert into[1] == into[0] != into[2]


def test_nodes_that_leave_others_for_each_other_form_a_community() -> None:
    founders = np.array([*range(8), *range(40, 48)])
    adjacency = cliques(40, 40).tolil()
    adjacency[founders, :] = adjacency[:, founders] = 0
    adjacency[np.ix_(founders, founders)] = 1 - np.eye(16)
    known = certain_posterior(labels_of(40, 40), 0.2)._replace(believed=True)
    posterior = next_posterior(finest_level(csr_array(adjacency)), BpParameters(), known, seed=0)
    expected = np.repeat([0, 1], 40)
    expected[founders] = 2
    assert ami(expected, posterior.likeliest) == pytest.approx(1)


def test_a_graph_continues_while_its_edges_are_more_than_chance() -> None:
    remembered, mixed = labels_of(*[10] * 8), np.arange(80, dtype=np.int32) % 8
    graph = graph_of(*[10] * 8)
    assert not broken(graph, remembered, 8, 0.1)[0]
    assert broken(graph, mixed, 8, 0.1)[0]
    some = np.where(np.arange(80) < 20, remembered, mixed).astype(np.int32)  # two are as they were
    has_broken, communities = broken(graph, some, 8, 0.1)
    assert not has_broken
    assert communities.tolist() == [False, False] + [True] * 6


def test_a_few_edges_or_a_single_community_break_nothing() -> None:
    remembered = labels_of(10, 10)
    links = csr_array(([1.0, 1.0], ([0, 10], [10, 0])), (20, 20))
    assert not broken(finest_level(links), remembered, 2, 0.1)[0]
    assert not broken(graph_of(20), labels_of(20), 1, 0.1)[0]


@pytest.mark.parametrize("mixing", [0.2, 0.6])
def test_the_mixing_beyond_chance_is_the_planted_one(mixing: float) -> None:
    planted = generate_lfr(np.random.default_rng(3), LfrSettings(n_nodes=2000, mixing=mixing))
    graph = finest_level(planted.adjacency())
    found = mixing_beyond_chance(graph, planted.communities, planted.n_communities)
    assert found == pytest.approx(mixing, abs=0.04)
    assert mixing_beyond_chance(graph, np.zeros(2000, np.int32), 1) == 1.0


def test_names_go_to_those_who_hold_most_nodes_of_a_name() -> None:
    labels = np.array([0, 0, 0, 1, 1, 2, 2], np.int32)
    names = np.array([4, 4, 1, 4, 1, NOBODY, NOBODY], np.int32)
    assert match_labels(labels, names, 3, 5).tolist() == [4, 1, 5]


def test_a_name_needs_half_of_its_nodes_or_half_of_the_label() -> None:
    labels = np.array([0] * 6 + [1] * 4 + [0] * 3, np.int32)
    names = np.array([0] * 6 + [1] * 2 + [2] * 2 + [1] * 3, np.int32)  # most of 1 are with 0
    assert match_labels(labels, names, 2, 3).tolist() == [0, 1]
    names[6] = 2
    assert match_labels(labels, names, 2, 3).tolist() == [0, 2]


def test_an_id_that_ended_is_followed_where_most_of_its_nodes_are() -> None:
    before = np.array([0] * 4 + [1] * 4 + [2] * 4, np.int32)
    labels = np.array([0, 0, 0, 1, 0, 1, 1, 0, 0, 0, 0, 0], np.int32)
    found = replaced_ids(labels, np.array([7, 9]), before, np.array([5, 6, 7]))
    assert found.tolist() == [[5, 7], [6, NOBODY]]


def test_tidy_adds_the_shares_of_one_community_and_sorts() -> None:
    names = np.array([[5, 3, 5, -1], [-1, 2, -7, 4]], np.int32)
    shares = np.array([[0.2, 0.4, 0.3, 0.9], [0.5, 0.1, 0.5, 0.2]], np.float32)
    names, shares = tidy(names, shares)
    assert names.tolist() == [[5, 3, -1, -1], [4, 2, -1, -1]]
    assert shares.tolist() == pytest.approx(np.array([[0.5, 0.4, 0, 0], [0.2, 0.1, 0, 0]]))
