"""What memory between windows promises: better communities, lasting ids, and nothing invented."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import block_diag, csr_array

from stream_icd.bp.find import find_communities
from stream_icd.bp.parameters import BpParameters
from stream_icd.bp.recalled import NO_ID, Identified, Recalled, nothing_recalled, tidy
from stream_icd.bp.remember import find_remembering
from stream_icd.errors import BadSettings
from stream_icd.quality.nmi import nmi
from stream_icd.synthetic.drift import generate_drifting_lfr
from stream_icd.synthetic.lfr import LfrSettings, generate_lfr
from stream_icd.synthetic.planted_graph import PlantedGraph

N = 1500
BELIEFS = BpParameters(resolution=5.7, mixing=0.5, iterations=1)
MODULARITY = BpParameters()
DECIDING = BpParameters(search=True)
BOTH = pytest.mark.parametrize(
    "parameters", [BELIEFS, MODULARITY, DECIDING], ids=["beliefs", "modularity", "deciding"]
)


def drifting(seed: int, n_windows: int, mixing: float = 0.5, **drift: float) -> list[PlantedGraph]:
    settings = LfrSettings(n_nodes=N, mixing=mixing)
    stream = generate_drifting_lfr(seed, n_windows, settings, **drift)
    return [graph for graph, _ in stream]


def found(graphs: list[PlantedGraph], parameters: BpParameters) -> Iterator[Identified]:
    recalled = nothing_recalled(N)
    for graph in graphs:
        one = find_remembering(graph.adjacency(), parameters, recalled)
        yield one
        recalled = one.believed


def cliques(*sizes: int) -> csr_array:
    adjacency = csr_array(block_diag([np.ones((size, size)) - np.eye(size) for size in sizes]))
    adjacency.eliminate_zeros()
    return adjacency


def node_ids(one: Identified) -> NDArray[np.int64]:
    return one.community_ids[one.labels]


@BOTH
def test_the_first_window_and_one_without_memory_are_found_as_if_alone(
    parameters: BpParameters,
) -> None:
    first, second = drifting(1, 2)
    for k in (None, 20):
        alone = find_communities(first.adjacency(), parameters, k)
        fresh = find_remembering(first.adjacency(), parameters, nothing_recalled(N), k)
        assert fresh.labels.tobytes() == alone.tobytes()
        assert fresh.community_ids.tolist() == list(range(alone.max() + 1))
    off = find_remembering(second.adjacency(), replace(parameters, stay=0.0), fresh.believed)
    assert off.labels.tobytes() == find_communities(second.adjacency(), parameters).tobytes()
    assert off.n_continued == 0
    assert off.community_ids.min() == fresh.believed.next_id


def test_memory_finds_what_a_single_window_does_not_show() -> None:
    graphs = drifting(3, 6)
    remembered = [
        nmi(g.communities, f.labels) for g, f in zip(graphs, found(graphs, BELIEFS), strict=True)
    ]
    alone = [nmi(g.communities, find_communities(g.adjacency(), BELIEFS)) for g in graphs]
    assert max(alone) < 0.9
    assert min(remembered[3:]) > 0.95


@BOTH
def test_windows_that_have_nothing_to_do_with_each_other_are_found_alone(
    parameters: BpParameters,
) -> None:
    rng = np.random.default_rng(5)
    graphs = [generate_lfr(rng, n_nodes=N, mixing=0.4) for _ in range(4)]
    n_ids = 0
    for graph, one in zip(graphs, found(graphs, parameters), strict=True):
        assert one.labels.tobytes() == find_communities(graph.adjacency(), parameters).tobytes()
        assert one.community_ids.min() == n_ids  # no id is given twice
        n_ids = one.believed.next_id


@BOTH
def test_a_complete_change_is_forgotten_at_once_and_learned_anew(
    parameters: BpParameters,
) -> None:
    graphs = drifting(3, 3) + drifting(4, 3)
    windows = list(found(graphs, parameters))
    alone = find_communities(graphs[3].adjacency(), parameters)
    assert [window.n_continued > 0 for window in windows] == [0, 1, 1, 0, 1, 1]
    assert windows[3].labels.tobytes() == alone.tobytes()
    assert set(windows[2].community_ids) <= set(windows[3].replaced[:, 0])
    assert set(windows[3].replaced[:, 1]) == {NO_ID}


def test_communities_keep_their_ids_while_their_nodes_change() -> None:
    graphs = drifting(6, 5, mixing=0.3, event_rate=0.0)
    windows = list(found(graphs, BELIEFS))
    for one, (before, after) in enumerate(pairwise(windows)):
        assert set(before.community_ids) == set(after.community_ids), one
        changed = (node_ids(before) != node_ids(after)).mean()
        moved = (graphs[one].communities != graphs[one + 1].communities).mean()
        assert changed == pytest.approx(moved, abs=0.005)


@BOTH
def test_a_community_that_splits_keeps_its_id_in_the_larger_part(
    parameters: BpParameters,
) -> None:
    before = find_remembering(cliques(20, 20), parameters, nothing_recalled(40))
    after = find_remembering(cliques(20, 13, 7), parameters, before.believed)
    new = before.believed.next_id
    assert node_ids(after).tolist() == [0] * 20 + [1] * 13 + [new] * 7
    assert after.n_continued == 2


def test_communities_that_merge_keep_the_id_of_the_larger() -> None:
    before = find_remembering(cliques(12, 8, 20), BELIEFS, nothing_recalled(40))
    after = find_remembering(cliques(20, 20), BELIEFS, before.believed)
    assert node_ids(after).tolist() == [0] * 20 + [2] * 20
    assert after.replaced.tolist() == [[1, 0]]


def test_a_community_of_nodes_from_many_others_is_new() -> None:
    (graph,) = drifting(8, 1, mixing=0.2)
    before = find_remembering(graph.adjacency(), BELIEFS, nothing_recalled(N))
    founders = np.random.default_rng(0).choice(N, 20, replace=False)
    adjacency = graph.adjacency().tolil()
    adjacency[founders, :] = adjacency[:, founders] = 0
    adjacency[np.ix_(founders, founders)] = 1 - np.eye(20)
    after = find_remembering(csr_array(adjacency), BELIEFS, before.believed)
    assert set(node_ids(after)[founders]) == {before.believed.next_id}
    others = np.setdiff1d(np.arange(N), founders)
    assert (node_ids(after) == node_ids(before))[others].mean() > 0.99


def test_a_part_of_the_graph_that_breaks_is_forgotten_and_the_rest_is_not() -> None:
    before = find_remembering(cliques(*[10] * 8), BELIEFS, nothing_recalled(80))
    order = np.arange(80)
    order[:40] = np.arange(40).reshape(4, 10).T.ravel()  # the first four mix, node by node
    changed = csr_array(cliques(*[10] * 8)[order][:, order])
    changed.sort_indices()
    after = find_remembering(changed, BELIEFS, before.believed)
    assert node_ids(after)[40:].tolist() == node_ids(before)[40:].tolist()
    assert after.n_continued == 4
    assert nmi(node_ids(before)[order], after.labels) == 1.0


def test_nodes_without_edges_stay_where_they_are_remembered() -> None:
    adjacency = cliques(6, 6).tolil()
    before = find_remembering(cliques(6, 6), BELIEFS, nothing_recalled(12))
    adjacency[0, :] = adjacency[:, 0] = 0
    after = find_remembering(csr_array(adjacency), BELIEFS, before.believed)
    assert node_ids(after).tolist() == node_ids(before).tolist()
    assert after.believed.shares[0].sum() < before.believed.shares[0].sum()


@BOTH
@pytest.mark.parametrize("k", [1, 7, 25, 80])
def test_exactly_k_communities_with_memory(parameters: BpParameters, k: int) -> None:
    first, second = drifting(2, 2, mixing=0.3)
    recalled = find_remembering(first.adjacency(), parameters, nothing_recalled(N)).believed
    one = find_remembering(second.adjacency(), parameters, recalled, k)
    assert np.unique(one.labels).tolist() == list(range(k))
    assert len(set(one.community_ids)) == k
    assert np.array_equal(one.believed.ids[:, 0], node_ids(one))


def test_many_moves_make_remembered_beliefs_count_less() -> None:
    graphs = drifting(3, 6, churn=0.2, event_rate=0.0)
    scores = [
        nmi(graph.communities, one.labels)
        for graph, one in zip(graphs, found(graphs, BELIEFS), strict=True)
    ]
    assert np.mean(scores[4:]) > 0.9  # 0.87 if beliefs are trusted as much as they say


def test_what_is_believed_is_a_distribution_over_ids_that_were_given() -> None:
    graphs = drifting(9, 4, mixing=0.6, event_rate=1.0, churn=0.1)
    for one in found(graphs, BELIEFS):
        ids, shares = one.believed.ids, one.believed.shares
        assert ids.max() < one.believed.next_id
        assert ((ids >= 0) | (shares == 0)).all()
        assert (shares.sum(axis=1) <= 1 + 1e-6).all()
        for row in ids:
            kept = row[row != NO_ID]
            assert len(set(kept)) == len(kept)


@BOTH
def test_equal_arguments_give_equal_bytes_in_any_thread(parameters: BpParameters) -> None:
    first, second = drifting(1, 2)
    recalled = find_remembering(first.adjacency(), parameters, nothing_recalled(N)).believed
    before = recalled.ids.tobytes(), recalled.shares.tobytes()

    def again(_: int) -> tuple[bytes, bytes, bytes]:
        one = find_remembering(second.adjacency(), parameters, recalled)
        return one.labels.tobytes(), one.believed.ids.tobytes(), one.believed.shares.tobytes()

    alone = again(0)
    with ThreadPoolExecutor(2) as pool:
        assert set(pool.map(again, range(4))) == {alone}
    assert (recalled.ids.tobytes(), recalled.shares.tobytes()) == before


@BOTH
def test_node_order_does_not_matter_where_structure_is_clear(
    parameters: BpParameters,
) -> None:
    first, second = drifting(7, 2, mixing=0.1, event_rate=0.0)
    recalled = find_remembering(first.adjacency(), parameters, nothing_recalled(N)).believed
    order = np.random.default_rng(0).permutation(N)
    shuffled = csr_array(second.adjacency()[order][:, order])
    shuffled.sort_indices()
    moved = Recalled(
        recalled.ids[order],
        recalled.shares[order],
        recalled.mixing,
        recalled.stay,
        recalled.next_id,
        recalled.believed,
    )
    one = find_remembering(second.adjacency(), parameters, recalled)
    other = find_remembering(shuffled, parameters, moved)
    assert (node_ids(one)[order] == node_ids(other)).mean() > 0.995


def test_the_share_of_nodes_that_stay_is_learned() -> None:
    for churn in (0.01, 0.2):
        *_, last = found(drifting(5, 5, mixing=0.3, churn=churn, event_rate=0.0), BELIEFS)
        assert last.believed.stay == pytest.approx(1 - churn, abs=0.05)


def test_graphs_without_nodes_or_edges_have_an_answer() -> None:
    assert find_remembering(csr_array((0, 0)), BELIEFS, nothing_recalled(0)).labels.size == 0
    before = find_remembering(cliques(3, 3), BELIEFS, nothing_recalled(6))
    after = find_remembering(csr_array((6, 6)), BELIEFS, before.believed)
    assert sorted(set(after.labels)) == list(range(len(after.community_ids)))


def test_k_outside_the_nodes_is_refused() -> None:
    with pytest.raises(BadSettings, match="from 1 to 6"):
        find_remembering(cliques(3, 3), BELIEFS, nothing_recalled(6), 7)


def test_tidy_adds_the_shares_of_one_community_and_sorts() -> None:
    names = np.array([[5, 3, 5, -1], [-1, 2, -7, 4]], np.int64)
    shares = np.array([[0.2, 0.4, 0.3, 0.9], [0.5, 0.1, 0.5, 0.2]], np.float32)
    names, shares = tidy(names, shares)
    assert names.tolist() == [[5, 3, -1, -1], [4, 2, -1, -1]]
    assert shares.tolist() == pytest.approx(np.array([[0.5, 0.4, 0, 0], [0.2, 0.1, 0, 0]]))
