"""No compiled loop follows an index past its array, and no label is one that is not there."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from scipy.sparse import csr_array

from stream_icd.core.errors import BadInput, LimitExceeded
from stream_icd.methods.bp import level_graph
from stream_icd.methods.bp.belief_propagation import PlantedModel, believe
from stream_icd.methods.bp.find import find_communities
from stream_icd.methods.bp.level_graph import finest_level
from stream_icd.methods.bp.parameters import BpParameters
from tests.methods.bp.adversarial import check_beliefs

BELIEFS = BpParameters(mixing=0.4)


def complete(n_nodes: int) -> csr_array:
    adjacency = csr_array(np.ones((n_nodes, n_nodes)) - np.eye(n_nodes))
    adjacency.eliminate_zeros()
    return adjacency


def test_every_index_of_every_kernel_is_inside_its_array() -> None:
    """As plain Python, where numpy checks each: none is out of bounds, no kernel is left out."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.methods.bp.adversarial"]
    plain = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    run = subprocess.run(command, env=plain, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == []


def test_weights_past_the_range_of_floating_point_leave_labels_that_are_there() -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        check_beliefs(complete(12), (np.arange(12) % 4).astype(np.int32))


def test_a_hub_of_thousands_is_no_overflow_where_communities_are_equal() -> None:
    # The prior's factor for the hub is past e^709 in communities that are far too small for it.
    leaves = np.arange(1, 4001)
    hub = np.zeros_like(leaves)
    rows, columns = np.concatenate([hub, leaves]), np.concatenate([leaves, hub])
    adjacency = csr_array((np.ones(8000), (rows, columns)), (4001, 4001))
    start = (np.arange(4001) % 1000).astype(np.int32)
    model = PlantedModel(0.1, 0.0, 1000)
    found = believe(finest_level(adjacency), start, 1000, model, 3).likeliest
    assert found.min() >= 0


@pytest.mark.parametrize("label", [-1, 3])
def test_a_label_of_no_community_is_refused(label: int) -> None:
    start = np.array([0, 1, 2, label], np.int32)
    with pytest.raises(ValueError, match=r"0\.\.3"):
        believe(finest_level(complete(4)), start, 3, PlantedModel(0.3, 1.0, 3), 2)


def test_a_matrix_that_is_not_symmetric_is_refused_before_messages_go_astray() -> None:
    one_way = csr_array(np.array([[0.0, 1, 1, 1], [0, 0, 1, 1], [0, 0, 0, 1], [1, 0, 0, 0]]))
    with pytest.raises(ValueError, match="symmetric"):
        find_communities(one_way, BELIEFS)


def test_a_neighbour_that_is_no_node_is_refused() -> None:
    adjacency = complete(4)
    adjacency.indices[2] = 4
    with pytest.raises(BadInput, match="4 nodes"):
        find_communities(adjacency, BELIEFS)


@pytest.mark.parametrize("n_nodes", [4, 11])
def test_more_than_row_pointers_can_count_is_refused_with_the_limit(
    n_nodes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(level_graph, "MOST_ENTRIES", 10)
    with pytest.raises(LimitExceeded, match="10 nodes and 5 edges"):
        finest_level(complete(4) if n_nodes == 4 else csr_array((n_nodes, n_nodes)))
