"""Hypotheses are judged on all edges of a window, and nothing is forgotten for nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from scipy.sparse import csr_array

from stream_icd.core.errors import BadSettings
from stream_icd.methods.bp.level_graph import finest_level
from stream_icd.methods.bp.parameters import BpParameters, as_weighted
from stream_icd.methods.memory.detect import Remembered, detect_window
from stream_icd.methods.memory.horizon import FILTER, SIDE_BY_SIDE, check_horizon, read_horizon
from stream_icd.methods.memory.judge import MARGIN, judged, leader_of, pause, served
from stream_icd.methods.memory.memory import Hypothesis, Memory, no_edges
from stream_icd.methods.memory.sums import searched
from stream_icd.methods.quality.agreement import nmi
from tests.testbed.windows import window

SEARCH = BpParameters(search=True)
N_CLIQUES, SIZE = 6, 9
CLIQUE = np.repeat(np.arange(N_CLIQUES, dtype=np.int32), SIZE)
CLIQUES = csr_array((CLIQUE[:, None] == CLIQUE).astype(float) - np.eye(len(CLIQUE)))
CLIQUES.eliminate_zeros()
DRAWN = np.triu(np.random.default_rng(0).random(CLIQUES.shape) < 0.2, 1)
ACROSS = csr_array(((DRAWN | DRAWN.T) & (CLIQUE[:, None] != CLIQUE)).astype(float))
"""Edges between the cliques alone, drawn by chance."""


def hypotheses(*labels: np.ndarray) -> list[Hypothesis]:
    """One of each kind, with these communities."""
    return [
        Hypothesis(kind, no_edges(len(CLIQUE)), one.astype(np.int32))
        for kind, one in zip(SIDE_BY_SIDE, labels, strict=False)
    ]


def then(memory: Memory | None, graph: csr_array, number: int, **given: object) -> Remembered:
    at = window(number, []).window
    nodes = pa.array(range(graph.shape[0]))
    return detect_window(graph, nodes, at, SEARCH, memory, **given)  # type: ignore[arg-type]


def test_the_hypothesis_whose_communities_the_edges_fit_leads() -> None:
    nodes = np.arange(len(CLIQUE))
    given = hypotheses(nodes % 7, np.full(len(nodes), -1), nodes % 5, CLIQUE)
    found = judged(given, 0, finest_level(CLIQUES))
    assert leader_of(found) == 3
    assert found[3].saved > 100 > found[0].saved
    assert served(found, 3) == {0, 1}


def test_the_filter_must_be_far_ahead_and_is_never_far_behind() -> None:
    nodes = np.arange(len(CLIQUE))
    ahead = judged(hypotheses(nodes % 7, CLIQUE), 0, finest_level(CLIQUES))
    assert leader_of(ahead) == 1
    behind = judged(hypotheses(CLIQUE, nodes % 7), 0, finest_level(CLIQUES))
    assert behind[1].saved == -MARGIN
    near = [ahead[0], replace(ahead[1], saved=MARGIN)]
    assert leader_of(near) == 0


def test_pauses_double_up_to_a_limit() -> None:
    assert [pause(n_vain) for n_vain in (-3, 0, 1, 2, 3, 2**31)] == [0, 0, 1, 2, 4, 64]


def test_windows_between_communities_do_not_wipe_out_what_is_known() -> None:
    memory = None
    for number in range(4):
        memory = then(memory, CLIQUES, number).memory
    ids = memory.community_ids if memory else None
    found = then(memory, ACROSS, 4)
    assert found.communities.tolist() == CLIQUE.tolist()
    assert found.community_ids.tolist() == list(ids if ids is not None else ())


def test_a_search_keeps_what_each_of_two_partitions_has_right() -> None:
    merged = np.where(CLIQUE < 3, CLIQUE, 3 + CLIQUE // 5).astype(np.int32)
    found, corrected = searched(finest_level(CLIQUES), SEARCH, merged, True, 0)
    assert corrected
    assert found.tolist() == CLIQUE.tolist()


def test_a_clear_second_window_in_which_many_moved_is_not_blurred_by_the_first() -> None:
    """A third of each clique has moved; the sum of two windows shows neither where they are now."""
    moved = np.where(np.arange(len(CLIQUE)) % 3 == 0, (CLIQUE + 1) % (CLIQUE.max() + 1), CLIQUE)
    pairs = np.equal.outer(moved, moved) & ~np.eye(len(moved), dtype=bool)
    first = then(None, CLIQUES, 0)
    second = then(first.memory, csr_array(pairs.astype(float)), 1)
    assert nmi(moved.astype(np.int32), second.communities) == 1.0
    assert second.memory.leading is not None
    assert second.memory.leading.kind == FILTER


def test_the_hypothesis_that_leads_and_since_when_is_known() -> None:
    memory = None
    for number in range(3):
        memory = then(memory, CLIQUES, number).memory
    assert memory is not None
    assert memory.leading is not None
    assert (memory.leading.kind, memory.since) == (SIDE_BY_SIDE[0], 3)
    off = then(None, CLIQUES, 0, horizon="off").memory
    assert off.leading is not None
    assert (off.leading.kind, off.horizon) == (FILTER, 1.0)


class Knowing:
    """Weights edges by what is known of the cliques; stands in for a trained encoder."""

    parameters = as_weighted(0.0)

    def __init__(self, across: float, *, leads: bool = False) -> None:
        self.across, self.leads = across, leads

    def __call__(self, graph: csr_array) -> csr_array:
        rows = np.repeat(np.arange(graph.shape[0]), np.diff(graph.indptr))
        inside = CLIQUE[rows] == CLIQUE[graph.indices]
        weights = np.where(inside, 1.0, self.across)
        return csr_array((weights, graph.indices, graph.indptr), graph.shape)


def test_a_learned_weight_leads_the_first_window_and_does_no_harm() -> None:
    rng = np.random.default_rng(0)
    noise = csr_array(np.triu(rng.random(CLIQUES.shape) < 0.3, 1).astype(float))
    both = csr_array(CLIQUES + noise + noise.T)
    both.data[:] = 1.0
    both.sort_indices()
    first = then(None, both, 0, weigh=Knowing(across=0.01))
    assert first.communities.tolist() == CLIQUE.tolist()
    assert first.memory.leading is not None
    assert first.memory.leading.kind.by == "weighted"
    misled = then(first.memory, CLIQUES, 1, weigh=Knowing(across=100.0))
    assert misled.communities.tolist() == CLIQUE.tolist()


def test_a_weighted_sum_that_labels_chose_leads_whatever_the_edges_say() -> None:
    memory = None
    for number in range(3):
        found = then(memory, CLIQUES, number, weigh=Knowing(across=1.0, leads=True))
        memory = found.memory
    assert memory is not None
    assert memory.leading is not None
    assert (memory.leading.kind.by, memory.since) == ("weighted", 3)


@pytest.mark.parametrize("text", ["", "never", "0", "0.5", "-1", "nan", "1e9"])
def test_a_horizon_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(BadSettings, match="horizon"):
        read_horizon(text)


def test_an_array_of_horizons_is_refused() -> None:
    with pytest.raises(BadSettings, match="horizon array"):
        check_horizon(np.array([5.0]))  # type: ignore[arg-type]
