"""The weight of the past where modularity decides: as much as the graph allows, and no more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import block_diag, csr_array

from stream_icd.bp.level_graph import finest_level
from stream_icd.bp.multilevel import maximise_modularity
from stream_icd.bp.parameters import BpParameters
from stream_icd.bp.parted import parted_communities
from stream_icd.bp.pull import FASTEST, LEAST, MOST, first_pull, next_pull
from stream_icd.bp.recalled import nothing_recalled
from stream_icd.bp.remember import find_remembering
from stream_icd.synthetic.lfr import generate_lfr

MODULARITY = BpParameters()


def cliques(*sizes: int) -> csr_array:
    adjacency = csr_array(block_diag([np.ones((size, size)) - np.eye(size) for size in sizes]))
    adjacency.eliminate_zeros()
    return adjacency


def test_the_past_pulls_more_while_that_costs_nothing_and_less_once_it_does() -> None:
    graph = generate_lfr(np.random.default_rng(1), n_nodes=600, mixing=0.3)
    level, rng = finest_level(graph.adjacency()), np.random.default_rng(0)
    best = find_remembering(graph.adjacency(), MODULARITY, nothing_recalled(600)).labels
    assert next_pull(level, best, 1.0, 0.1, rng) == pytest.approx(0.1 * FASTEST)
    wrong = np.random.default_rng(2).permutation(best)
    assert next_pull(level, wrong, 1.0, 0.1, rng) == pytest.approx(0.1 / FASTEST)
    assert next_pull(level, best, 1.0, MOST, rng) == MOST
    assert next_pull(level, wrong, 1.0, LEAST, rng) == LEAST


def test_the_first_weight_has_the_odds_of_the_stay_probability() -> None:
    assert first_pull(0.8) == pytest.approx(4 * first_pull(0.5))
    assert first_pull(0.999) == MOST
    assert first_pull(0.001) == LEAST


def test_it_is_remembered_and_begins_anew_after_a_break() -> None:
    rng = np.random.default_rng(5)
    one, other = (generate_lfr(rng, n_nodes=600, mixing=0.3).adjacency() for _ in range(2))
    recalled, pulls = nothing_recalled(600), []
    for adjacency in (one, one, one, other, other):
        recalled = find_remembering(adjacency, MODULARITY, recalled).believed
        pulls.append(recalled.pull)
    first = first_pull(MODULARITY.stay)
    assert pulls[0] == pulls[3] == 0.0
    assert pulls[1] == pulls[4] == FASTEST * first
    assert pulls[2] == FASTEST**2 * first


def test_a_strong_pull_does_not_hold_together_what_has_parted() -> None:
    """Among many communities, modularity hardly notices that two halves have no edge left."""
    adjacency = cliques(*[10] * 60)
    before = find_remembering(adjacency, MODULARITY, nothing_recalled(600)).believed
    now = cliques(*[5] * 2, *[10] * 59)
    found = find_remembering(now, MODULARITY, replace(before, pull=MOST))
    assert found.labels[:10].tolist() == [0] * 5 + [1] * 5
    assert len(found.community_ids) == 61
    assert found.n_continued == 60


def test_a_part_that_is_linked_to_the_rest_as_within_a_community_stays() -> None:
    graph, whole = finest_level(cliques(*[20] * 10)), np.repeat(np.arange(10, dtype=np.int32), 20)
    halves = maximise_modularity(graph, 15.0, np.random.default_rng(0))
    assert halves.max() > 9  # at such a resolution, cliques fall apart
    found = parted_communities(graph, whole, 10, 15.0, 0.1, np.random.default_rng(0))
    assert found.tolist() == whole.tolist()
