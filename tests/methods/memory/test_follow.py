"""Hypotheses are judged on all edges of a window, and nothing is forgotten for nothing."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from scipy.sparse import csr_array

from stream_icd.core.arrays import NOBODY
from stream_icd.core.errors import BadSettings
from stream_icd.methods.bp.level_graph import finest_level
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.memory.detect import Remembered, detect_window
from stream_icd.methods.memory.horizon import FILTER, SIDE_BY_SIDE, HypothesisKind, read_horizon
from stream_icd.methods.memory.memory import Memory
from stream_icd.methods.memory.sums import searched
from stream_icd.methods.quality.agreement import nmi
from stream_icd.methods.weighing import Weighing
from tests.methods.bp.graphs import cliques, labels_of
from tests.methods.memory.streams import hour

SEARCH = BpParameters(search=True)
CLIQUE, CLIQUES = labels_of(*[9] * 6), cliques(*[9] * 6)
DRAWN = np.triu(np.random.default_rng(0).random(CLIQUES.shape) < 0.2, 1)
ACROSS = csr_array(((DRAWN | DRAWN.T) & (CLIQUE[:, None] != CLIQUE)).astype(float))
"""Edges between the cliques alone, drawn by chance."""


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


def leads(memory: Memory) -> HypothesisKind:
    return memory.leading.kind


def test_windows_between_communities_do_not_wipe_out_what_is_known() -> None:
    memory = after(4)
    found = then(memory, ACROSS, 4)
    assert found.communities.tolist() == CLIQUE.tolist()
    assert found.community_ids.tolist() == memory.community_ids.tolist()


def test_a_clear_second_window_in_which_many_moved_is_not_blurred_by_the_first() -> None:
    """Half of each clique has moved; the sum of two windows shows neither where they are now."""
    moved = np.where(np.arange(len(CLIQUE)) % 2 == 0, (CLIQUE + 1) % (CLIQUE.max() + 1), CLIQUE)
    pairs = np.equal.outer(moved, moved) & ~np.eye(len(moved), dtype=bool)
    first = then(None, CLIQUES, 0)
    second = then(first.memory, csr_array(pairs.astype(float)), 1)
    assert nmi(moved.astype(np.int32), second.communities) == 1.0
    assert leads(second.memory) == FILTER


def test_the_hypothesis_that_leads_and_since_when_is_known() -> None:
    memory, off = after(3), after(1, horizon="off")
    assert (leads(memory), memory.since) == (SIDE_BY_SIDE[0], 3)
    assert (leads(off), off.horizon) == (FILTER, 1.0)
    # What finds nothing new in a steady graph pauses, each time for longer.
    assert [after(n).hypotheses[0].wait for n in (2, 3, 6)] == [1, 2, 3]


class Knowing:
    """Weights edges by what is known of the cliques; stands in for a trained encoder."""

    parameters, level = BpParameters.as_weighted(0.0), Weighing.level

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


def test_communities_that_save_no_bits_do_not_shrink_to_a_few_nodes() -> None:
    """The description of edges by chance is shorter, the fewer nodes are in the other community."""
    drawn = np.triu(np.random.default_rng(0).random((60, 60)) < 0.6, 1)
    graph = finest_level(csr_array((drawn | drawn.T).astype(float)))
    before = labels_of(30, 30)
    labels, corrected = searched(graph, SEARCH, before, 0, 0)
    assert (labels.tolist(), corrected) == (before.tolist(), False)


def test_two_communities_that_become_one_are_one_soon() -> None:
    memory, clique = None, csr_array(np.ones((24, 24)) - np.eye(24))
    found = []
    for number, graph in enumerate([cliques(12, 12)] * 2 + [clique] * 16):
        step = then(memory, graph, number)
        memory = step.memory
        found.append(len(step.community_ids))
    assert found[:2] == [2, 2]
    assert found[-1] == 1


def test_new_nodes_join_a_community_though_it_saves_no_bits() -> None:
    graph = finest_level(cliques(6, 6, links=[(0, 6)]))
    labels, _ = searched(graph, SEARCH, np.full(12, NOBODY, np.int32), 0, 0)
    assert labels.tolist() == labels_of(6, 6).tolist()
