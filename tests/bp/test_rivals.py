"""Memory that expects the edges of a window worse than a window found alone gives way to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from stream_icd.bp.find import find_communities
from stream_icd.bp.level_graph import finest_level
from stream_icd.bp.parameters import BpParameters
from stream_icd.bp.recalled import Identified, Recalled, nothing_recalled
from stream_icd.bp.remember import find_remembering
from stream_icd.bp.rivals import is_weak, rival_wins
from stream_icd.quality.nmi import nmi
from stream_icd.synthetic.drift import generate_drifting_lfr
from stream_icd.synthetic.lfr import LfrSettings, generate_lfr
from stream_icd.synthetic.planted_graph import PlantedGraph

N = 1000
FAINT = BpParameters(resolution=2.3, mixing=0.6, iterations=1)
"""Of which a single window of 1,000 nodes shows next to nothing."""


def faint_windows(seed: int, n_windows: int) -> list[PlantedGraph]:
    settings = LfrSettings(n_nodes=N, mixing=0.6)
    return [graph for graph, _ in generate_drifting_lfr(seed, n_windows, settings)]


def followed(graphs: list[PlantedGraph]) -> Iterator[Identified]:
    recalled = nothing_recalled(N)
    for graph in graphs:
        one = find_remembering(graph.adjacency(), FAINT, recalled)
        yield one
        recalled = one.believed


def remembering(labels: NDArray[np.int32], rival: NDArray[np.int32] | None) -> Recalled:
    empty = nothing_recalled(len(labels), next_id=1000)
    ids, shares = empty.ids.copy(), empty.shares.copy()
    ids[:, 0], shares[:, 0] = labels, 0.9
    return replace(empty, ids=ids, shares=shares, mixing=0.6, stay=0.9, believed=True, rival=rival)


def shuffled(labels: NDArray[np.int32], share: float) -> NDArray[np.int32]:
    """The labels with a share of them exchanged."""
    rng, wrong = np.random.default_rng(0), labels.copy()
    some = rng.permutation(len(labels))[: round(share * len(labels))]
    wrong[some] = labels[rng.permutation(some)]
    return wrong


@pytest.mark.parametrize("seed", [3, 7])
def test_memory_does_not_hold_on_to_a_first_window_that_was_wrong(seed: int) -> None:
    graphs = faint_windows(seed, 10)
    alone = [nmi(g.communities, find_communities(g.adjacency(), FAINT)) for g in graphs]
    memory = [nmi(g.communities, f.labels) for g, f in zip(graphs, followed(graphs), strict=True)]
    assert np.mean(memory[6:]) > np.mean(alone[6:]) + 0.15


def test_where_a_window_says_little_the_next_one_has_a_rival_to_judge() -> None:
    has_rival = [one.believed.rival is not None for one in followed(faint_windows(7, 6))]
    assert has_rival[:3] == [False, True, False]
    assert not any(one and after for one, after in pairwise(has_rival))  # never two in a row


def test_where_memory_says_much_there_is_no_rival() -> None:
    graph = generate_lfr(np.random.default_rng(1), n_nodes=N, mixing=0.3)
    parameters = BpParameters(2.3, 0.3, iterations=1)
    recalled = nothing_recalled(N)
    for _ in range(3):
        recalled = find_remembering(graph.adjacency(), parameters, recalled).believed
        assert recalled.rival is None


def test_the_rival_that_expects_the_edges_replaces_the_memory_and_takes_its_ids() -> None:
    graph, parameters = faint_windows(1, 1)[0], replace(FAINT, mixing=0.5)
    truth, wrong = graph.communities, shuffled(graph.communities, 0.4)
    held = find_remembering(graph.adjacency(), parameters, remembering(wrong, None))
    freed = find_remembering(graph.adjacency(), parameters, remembering(wrong, truth))
    assert nmi(truth, freed.labels) > max(nmi(truth, held.labels), 0.8)
    kept = set(freed.community_ids) & set(wrong)
    assert len(kept) == freed.n_continued > 0.8 * len(set(wrong))


def test_a_rival_without_counterpart_gets_a_new_id() -> None:
    graph = faint_windows(1, 1)[0]
    truth = graph.communities
    merged = np.where(truth == truth.max(), 0, truth).astype(np.int32)
    found = find_remembering(graph.adjacency(), FAINT, remembering(merged, truth))
    assert {int(one) for one in found.community_ids} - set(merged.tolist()) <= {1000}
    assert found.believed.next_id == 1001
    assert found.n_continued == (found.community_ids < 1000).sum()


def test_a_rival_that_expects_less_changes_nothing() -> None:
    graph = faint_windows(1, 1)[0]
    truth, wrong = graph.communities, shuffled(graph.communities, 0.5)
    without = find_remembering(graph.adjacency(), FAINT, remembering(truth, None))
    against = find_remembering(graph.adjacency(), FAINT, remembering(truth, wrong))
    assert against.labels.tobytes() == without.labels.tobytes()
    assert against.community_ids.tolist() == without.community_ids.tolist()


def test_only_edges_between_nodes_that_both_know_count() -> None:
    graph = finest_level(faint_windows(1, 1)[0].adjacency())
    truth = faint_windows(1, 1)[0].communities
    wrong = shuffled(truth, 0.3)
    half = np.where(np.arange(N) < N // 2, truth, -1).astype(np.int32)
    assert rival_wins(graph, half, wrong)
    assert not rival_wins(graph, wrong, half)
    nobody = np.full(N, -1, np.int32)
    assert not rival_wins(graph, nobody, truth)
    assert not is_weak(graph, nobody)
