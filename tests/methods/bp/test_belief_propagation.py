"""Belief in communities: what evidence does to it, and that no input breaks it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream_icd.core.arrays import NOBODY
from stream_icd.core.errors import BadInput, LimitExceeded
from stream_icd.methods.bp import level_graph
from stream_icd.methods.bp.belief_propagation import PlantedModel, believe
from stream_icd.methods.bp.find import find_communities, find_memberships
from stream_icd.methods.bp.level_graph import finest_level
from stream_icd.methods.bp.memberships import believed_memberships, memberships_given_others
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.bp.prior import Prior
from stream_icd.methods.quality.agreement import nmi
from stream_icd.methods.synthetic.gn import generate_gn
from tests.methods.bp.adversarial import check_beliefs
from tests.methods.bp.graphs import cliques, graph_of, labels_of, lfr

BELIEFS = BpParameters(mixing=0.4)


def believed(
    adjacency: csr_array, start: NDArray[np.int32], model: PlantedModel, sweeps: int = 10
) -> NDArray[np.int32]:
    n_communities = int(start.max()) + 1
    return believe(finest_level(adjacency), start, n_communities, model, sweeps).likeliest


@pytest.mark.parametrize("size_spread", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("mixing", [0.05, 0.6, 0.9])
def test_beliefs_repair_a_wrong_partition_and_mixing(size_spread: float, mixing: float) -> None:
    graph = generate_gn(np.random.default_rng(2), n_nodes=1000, n_communities=20, p_in=0.4)
    rng, truth = np.random.default_rng(1), graph.communities
    start = np.where(rng.random(len(truth)) < 0.5, rng.permutation(truth), truth)
    found = believed(graph.adjacency(), start, PlantedModel(mixing, size_spread, 20), 30)
    assert nmi(truth, start) < 0.4
    assert nmi(truth, found) > 0.98


def test_a_hub_with_thousands_of_neighbours_goes_where_most_of_them_are() -> None:
    # Node 3000 has 1,000 neighbours in community 0 and then 2,000 in 1, where each also has a
    # hub of its own; alone, the evidence for either is past the range of floating point.
    leaves = np.arange(3000)
    hubs = np.where(leaves < 1000, 3001, 3002)
    edges = np.stack([np.tile(leaves, 2), np.append(np.full(3000, 3000), hubs)])
    start = np.append(leaves >= 1000, [False, False, True]).astype(np.int32)
    assert believed(graph_of(3003, edges, 1.0), start, PlantedModel(0.3, 1.0, 2), 1)[3000] == 1


def test_a_community_that_one_message_could_name_is_kept_however_small_its_share() -> None:
    # Node 1600 has two edges into the first of 400 cliques, and one into the second. Each is worth
    # odds of 40,000 to 1. To a neighbour in the first, that neighbour's own edge does not count.
    fours = np.arange(1600).reshape(400, 4)
    inside = np.concatenate([fours[:, list(pair)] for pair in combinations(range(4), 2)]).T
    edges = np.concatenate([inside, [[0, 1, 4], [1600, 1600, 1600]]], axis=1)
    level = finest_level(graph_of(1601, edges, 1.0))
    start = np.append(np.arange(1600) // 4, 0).astype(np.int32)
    marginals = believe(level, start, 400, PlantedModel(0.01, 1.0, 400), 3)
    assert marginals.communities[1600, :2].tolist() == [0, 1]
    assert marginals.shares[1600, 1] < 1e-4


def test_every_index_of_every_kernel_is_inside_its_array() -> None:
    """As plain Python, where numpy checks each: none is out of bounds, no kernel is left out."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.methods.bp.adversarial"]
    plain = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    run = subprocess.run(command, env=plain, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == []


def test_weights_past_the_range_of_floating_point_leave_labels_that_are_there() -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        check_beliefs(cliques(12), (np.arange(12) % 4).astype(np.int32))


@pytest.mark.parametrize("label", [-1, 3])
def test_a_label_of_no_community_is_refused(label: int) -> None:
    start = np.array([0, 1, 2, label], np.int32)
    with pytest.raises(ValueError, match=r"0\.\.3"):
        believe(finest_level(cliques(4)), start, 3, PlantedModel(0.3, 1.0, 3), 2)


def test_a_matrix_that_would_lead_astray_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    one_way = csr_array(np.triu(np.ones((4, 4)), 1) + np.eye(4, k=-3))
    with pytest.raises(ValueError, match="symmetric"):
        find_communities(one_way, BELIEFS)
    no_node = cliques(4)
    no_node.indices[2] = 4
    with pytest.raises(BadInput, match="4 nodes"):
        find_communities(no_node, BELIEFS)
    monkeypatch.setattr(level_graph, "_MOST_ENTRIES", 10)
    for too_large in (cliques(4), csr_array((11, 11))):  # entries, nodes
        with pytest.raises(LimitExceeded, match="10 nodes and 5 edges"):
            finest_level(too_large)


@pytest.mark.parametrize("search", [True, False], ids=["beliefs", "modularity"])
@pytest.mark.parametrize("is_given", [False, True])
def test_probabilities_are_as_often_right_as_they_say(search: bool, is_given: bool) -> None:
    graph = lfr(9001, 4000, 0.45)
    adjacency, truth, parameters = graph.adjacency(), graph.communities, BpParameters(6.0)
    parameters = BpParameters(search=True) if search else parameters
    k = graph.n_communities if is_given else None
    labels, (own, _, _) = find_memberships(adjacency, parameters, k)
    assert labels.tolist() == find_communities(adjacency, parameters, k).tolist()
    most_are_of = [np.bincount(truth[labels == one]).argmax() for one in range(labels.max() + 1)]
    right = np.array(most_are_of)[labels] == truth
    about = (own > 0.8) & (own < 0.95)
    assert about.sum() > 200
    assert right[about].mean() == pytest.approx(0.9, abs=0.08)
    assert right[own < 0.5].mean() < 0.6 < 0.9 < right[own > 0.99].mean()
    assert own.mean() == pytest.approx(right.mean(), abs=0.08)


def test_a_node_between_two_communities_names_the_second() -> None:
    between = cliques(8, 8, 1, links=[(other, 16) for other in (0, 1, 2, 8, 9, 10)])
    labels = np.append(labels_of(8, 8), np.int32(0))
    own, seconds, of_seconds = memberships_given_others(finest_level(between), labels)
    assert seconds[16] == 1
    assert own[16] == pytest.approx(0.5, abs=0.1)
    assert of_seconds[16] == pytest.approx(1 - own[16])
    assert own[3] > 0.99  # with edges to its own community only
    # Without edges, each community is as probable as it is large.
    labels = np.array([0, 0, 0, 1, 0], np.int32)
    own, seconds, _ = memberships_given_others(finest_level(csr_array((5, 5))), labels)
    assert own[0] == pytest.approx(3 / 4)
    assert (seconds == NOBODY).all()
    labels, nobody = find_memberships(csr_array((0, 0)), BELIEFS)
    assert [len(labels), *map(len, nobody)] == [0, 0, 0, 0]


def test_beliefs_in_communities_that_are_one_now_add_up() -> None:
    communities = [[0, 1, 2, -1], [0, -1, -1, -1], [1, 2, -1, -1], [2, 1, 0, -1]]
    shares = [[0.5, 0.3, 0.2, 0], [1, 0, 0, 0], [0.75, 0.25, 0, 0], [0.5, 0.25, 0.25, 0]]
    beliefs = Prior(np.array(communities, np.int32), np.array(shares, np.float32))
    merged = np.array([0, 0, 0, 1], np.int32)  # 0 and 1 are one
    own, seconds, of_seconds = believed_memberships(beliefs, merged)
    assert own.tolist() == pytest.approx([0.8, 1, 0.75, 0.5])
    assert seconds.tolist() == [1, NOBODY, 1, 0]
    assert of_seconds.tolist() == pytest.approx([0.2, 0, 0.25, 0.5])
