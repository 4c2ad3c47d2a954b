"""Modularity that expects the edges of a window worse than beliefs do gives way to them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from stream_icd.bp.level_graph import finest_level
from stream_icd.bp.parameters import BpParameters
from stream_icd.bp.recalled import Identified, Recalled, nothing_recalled
from stream_icd.bp.remember import find_remembering
from stream_icd.bp.rivals import is_weak, rival_wins
from stream_icd.quality.nmi import nmi
from stream_icd.synthetic.drift import generate_drifting_lfr
from stream_icd.synthetic.lfr import LfrSettings
from stream_icd.synthetic.planted_graph import PlantedGraph

N = 1000
EITHER = BpParameters(search=True, weight_exponent=0.5)
"""Each graph decides between modularity and beliefs."""


def faint_windows(seed: int, n_windows: int, mixing: float = 0.6) -> list[PlantedGraph]:
    settings = LfrSettings(n_nodes=N, mixing=mixing)
    return [graph for graph, _ in generate_drifting_lfr(seed, n_windows, settings)]


def followed(graphs: list[PlantedGraph], recalled: Recalled) -> Iterator[Identified]:
    for graph in graphs:
        one = find_remembering(graph.adjacency(), EITHER, recalled)
        yield one
        recalled = one.believed


def by_modularity(labels: NDArray[np.int32], rival: NDArray[np.int32] | None) -> Recalled:
    """A memory of communities that modularity has found."""
    empty = nothing_recalled(len(labels), next_id=1000)
    ids, shares = empty.ids.copy(), empty.shares.copy()
    ids[:, 0], shares[:, 0] = labels, 1.0
    return replace(empty, ids=ids, shares=shares, mixing=0.6, stay=0.9, rival=rival)


def blurred(labels: NDArray[np.int32], share: float) -> NDArray[np.int32]:
    """The labels with a share of them exchanged."""
    rng, wrong = np.random.default_rng(0), labels.copy()
    some = rng.permutation(len(labels))[: round(share * len(labels))]
    wrong[some] = labels[rng.permutation(some)]
    return wrong


def test_a_faint_first_window_does_not_bind_a_graph_to_modularity() -> None:
    graphs = faint_windows(1, 12)
    first = by_modularity(blurred(graphs[0].communities // 3, 0.3), None)
    found = list(followed(graphs, first))
    assert [one.believed.believed for one in found[:2]] == [False, True]
    assert nmi(graphs[0].communities, found[0].labels) < 0.6
    assert nmi(graphs[-1].communities, found[-1].labels) > 0.9


def test_where_modularity_says_little_every_second_window_has_a_rival() -> None:
    graph = faint_windows(1, 1)[0]
    joined = blurred(graph.communities // 3, 0.3)
    without = find_remembering(graph.adjacency(), EITHER, by_modularity(joined, None))
    assert without.believed.rival is not None
    loser = np.random.default_rng(0).permutation(joined)
    after = find_remembering(graph.adjacency(), EITHER, by_modularity(joined, loser))
    assert not after.believed.believed
    assert after.believed.rival is None


def test_where_modularity_says_much_there_is_no_rival() -> None:
    graph = faint_windows(1, 1, mixing=0.1)[0]
    memory = by_modularity(graph.communities, None)
    found = find_remembering(graph.adjacency(), EITHER, memory)
    assert found.believed.rival is None
    assert not found.believed.believed


def test_a_model_that_is_modularity_has_no_rival() -> None:
    graph = faint_windows(1, 1)[0]
    memory = by_modularity(blurred(graph.communities // 3, 0.3), None)
    found = find_remembering(graph.adjacency(), BpParameters(), memory)
    assert found.believed.rival is None


def test_the_rival_that_expects_the_edges_replaces_the_memory_and_takes_its_ids() -> None:
    graph = faint_windows(1, 1)[0]
    truth, wrong = graph.communities, blurred(graph.communities, 0.4)
    held = find_remembering(graph.adjacency(), EITHER, by_modularity(wrong, None))
    freed = find_remembering(graph.adjacency(), EITHER, by_modularity(wrong, truth))
    assert (held.believed.believed, freed.believed.believed) == (False, True)
    assert nmi(truth, freed.labels) > max(nmi(truth, held.labels), 0.9)
    kept = set(freed.community_ids) & set(wrong)
    assert len(kept) == freed.n_continued > 0.8 * len(set(wrong))


def test_a_rival_without_counterpart_gets_a_new_id() -> None:
    graph = faint_windows(1, 1)[0]
    truth = graph.communities
    merged = np.where(truth < truth.max() // 2, 0, truth).astype(np.int32)
    found = find_remembering(graph.adjacency(), EITHER, by_modularity(merged, truth))
    new = {int(one) for one in found.community_ids} - set(merged.tolist())
    assert new
    assert min(new) >= 1000
    assert found.n_continued == (found.community_ids < 1000).sum()


def test_a_rival_that_expects_less_changes_nothing() -> None:
    graph = faint_windows(1, 1)[0]
    truth, wrong = graph.communities, blurred(graph.communities, 0.5)
    without = find_remembering(graph.adjacency(), EITHER, by_modularity(truth, None))
    against = find_remembering(graph.adjacency(), EITHER, by_modularity(truth, wrong))
    assert against.labels.tobytes() == without.labels.tobytes()
    assert against.community_ids.tolist() == without.community_ids.tolist()


def test_only_edges_between_nodes_that_both_know_count() -> None:
    graph = finest_level(faint_windows(1, 1)[0].adjacency())
    truth = faint_windows(1, 1)[0].communities
    wrong = blurred(truth, 0.3)
    half = np.where(np.arange(N) < N // 2, truth, -1).astype(np.int32)
    assert rival_wins(graph, half, wrong)
    assert not rival_wins(graph, wrong, half)
    nobody = np.full(N, -1, np.int32)
    assert not rival_wins(graph, nobody, truth)
    assert not is_weak(graph, nobody)
