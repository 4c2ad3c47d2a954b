"""Hypotheses are judged on all edges of a window, and nothing is forgotten for nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from stream_icd.core.errors import BadSettings
from stream_icd.methods.bp.level_graph import Rows, entries_at, finest_level, rows_of
from stream_icd.methods.bp.parameters import BpParameters, as_weighted
from stream_icd.methods.memory.detect import Remembered, detect_window
from stream_icd.methods.memory.horizon import FILTER, SIDE_BY_SIDE, Kind, read_horizon
from stream_icd.methods.memory.judge import MARGIN, judged, leader_of, pause, served
from stream_icd.methods.memory.memory import Hypothesis, Memory, no_edges
from stream_icd.methods.memory.sums import added, searched
from stream_icd.methods.quality.agreement import nmi
from tests.methods.bp.graphs import cliques, labels_of
from tests.methods.memory.streams import hour

SEARCH = BpParameters(search=True)
CLIQUE, CLIQUES = labels_of(*[9] * 6), cliques(*[9] * 6)
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
    nodes, at = pa.array(range(graph.shape[0])), hour(number)
    return detect_window(graph, nodes, at, SEARCH, memory, **given)  # type: ignore[arg-type]


def after(n_windows: int, **given: object) -> Memory:
    """What is known after so many windows of the cliques."""
    memory: Memory | None = None
    for number in range(n_windows):
        memory = then(memory, CLIQUES, number, **given).memory
    assert memory is not None
    return memory


def leads(memory: Memory) -> Kind:
    assert memory.leading is not None
    return memory.leading.kind


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
    memory = after(4)
    found = then(memory, ACROSS, 4)
    assert found.communities.tolist() == CLIQUE.tolist()
    assert found.community_ids.tolist() == memory.community_ids.tolist()


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
    assert leads(second.memory) == FILTER


def test_the_hypothesis_that_leads_and_since_when_is_known() -> None:
    memory, off = after(3), after(1, horizon="off")
    assert (leads(memory), memory.since) == (SIDE_BY_SIDE[0], 3)
    assert (leads(off), off.horizon) == (FILTER, 1.0)


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
    both = csr_array(((CLIQUES + noise + noise.T) > 0).astype(float))
    both.sort_indices()
    first = then(None, both, 0, weigh=Knowing(across=0.01))
    assert first.communities.tolist() == CLIQUE.tolist()
    assert leads(first.memory).by == "weighted"
    misled = then(first.memory, CLIQUES, 1, weigh=Knowing(across=100.0))
    assert misled.communities.tolist() == CLIQUE.tolist()


def test_a_weighted_sum_that_labels_chose_leads_whatever_the_edges_say() -> None:
    memory = after(3, weigh=Knowing(across=1.0, leads=True))
    assert (leads(memory).by, memory.since) == ("weighted", 3)


@pytest.mark.parametrize("horizon", ["", "never", "0", "0.5", "-1", "nan", "1e9"])
def test_a_horizon_that_is_none_is_refused(horizon: str) -> None:
    with pytest.raises(BadSettings, match="horizon"):
        read_horizon(horizon)
    for wrong in (horizon, float(horizon) if horizon[-1:].isdigit() else float("nan")):
        with pytest.raises(BadSettings, match="horizon"):
            after(1, horizon=wrong)
    with pytest.raises(BadSettings, match="horizon array"):
        after(1, horizon=np.array([5.0]))


N = 12


def random_graph(seed: int, n_edges: int) -> csr_array:
    rng = np.random.default_rng(seed)
    weights = np.zeros((N, N))
    for one, other in rng.integers(0, N, (n_edges, 2)):
        weights[one, other] = weights[other, one] = rng.uniform(0.5, 2.0) * (one != other)
    return csr_array(weights)


def dense(rows: Rows) -> np.ndarray:
    n_nodes = len(rows.indptr) - 1
    graph = csr_array((rows.weights, rows.indices, rows.indptr), (n_nodes, n_nodes))
    return np.asarray(graph.toarray())


def assert_same(found: Rows, expected: np.ndarray) -> None:
    assert np.array_equal(dense(found), expected)
    for row in range(len(found.indptr) - 1):
        assert (np.diff(found.indices[found.indptr[row] : found.indptr[row + 1]]) > 0).all()
    assert (found.weights != 0).all()


@given(st.integers(0, 10**6), st.integers(0, 40), st.integers(1, 40))
def test_evidence_and_a_window_add_up(seed: int, n_known: int, n_new: int) -> None:
    known, window = random_graph(seed, n_known), random_graph(seed + 1, n_new)
    expected = known.toarray() * 0.5 + window.toarray()
    assert_same(added(rows_of(known), 0.5, rows_of(window)), expected)


def test_what_fades_to_nothing_is_no_edge() -> None:
    known, window = random_graph(0, 30) * 0.1, random_graph(1, 10)
    assert_same(added(rows_of(known), 5e-324, rows_of(window)), window.toarray())


@given(st.integers(0, 10**6), st.integers(0, 40), st.sets(st.integers(0, N - 1), min_size=1))
def test_some_nodes_have_their_edges_among_each_other(
    seed: int, n_edges: int, nodes: set[int]
) -> None:
    graph, rows = random_graph(seed, n_edges), np.array(sorted(nodes))
    part = entries_at(rows_of(graph), rows)
    assert_same(part, graph.toarray()[np.ix_(rows, rows)])
    back = np.zeros((N, N))
    back[np.ix_(rows, rows)] = dense(part)
    at = np.full(N, -1)
    at[rows] = np.arange(len(rows))
    assert_same(entries_at(part, at), back)
