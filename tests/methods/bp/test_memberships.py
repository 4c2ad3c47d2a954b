"""How probable the communities of nodes are: calibrated, and the next one is named."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import block_diag, csr_array

from stream_icd.core.arrays import NOBODY
from stream_icd.methods.bp.find import find_communities, find_memberships
from stream_icd.methods.bp.level_graph import finest_level
from stream_icd.methods.bp.memberships import believed_memberships, memberships_given_others
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.bp.sweep import Prior
from stream_icd.methods.quality.agreement import contingency
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_lfr

SEARCH = BpParameters(search=True)
MODULARITY = BpParameters(resolution=6.0)


@pytest.mark.parametrize("parameters", [SEARCH, MODULARITY], ids=["beliefs", "modularity"])
@pytest.mark.parametrize("is_given", [False, True])
def test_of_the_nodes_with_nine_tenths_about_nine_in_ten_are_right(
    parameters: BpParameters, is_given: bool
) -> None:
    planted = generate_lfr(np.random.default_rng(9001), LfrSettings(4000, mixing=0.45))
    adjacency, truth = planted.adjacency(), planted.communities
    k = truth.max() + 1 if is_given else None
    labels, (own, _, _) = find_memberships(adjacency, parameters, k)
    assert labels.tolist() == find_communities(adjacency, parameters, k).tolist()
    right = contingency(labels, truth).toarray().argmax(axis=1)[labels] == truth
    about = (own > 0.8) & (own < 0.95)
    assert about.sum() > 200
    assert right[about].mean() == pytest.approx(0.9, abs=0.08)
    assert right[own < 0.5].mean() < 0.6 < 0.9 < right[own > 0.99].mean()
    assert own.mean() == pytest.approx(right.mean(), abs=0.08)


def between_two_cliques() -> csr_array:
    """Two cliques of 8, and a node with three edges to each."""
    clique = np.ones((8, 8)) - np.eye(8)
    dense = block_diag([clique, clique, np.zeros((1, 1))]).toarray()
    for other in (0, 1, 2, 8, 9, 10):
        dense[16, other] = dense[other, 16] = 1
    return csr_array(dense)


def test_a_node_between_two_communities_names_the_second() -> None:
    labels = np.array([0] * 8 + [1] * 8 + [0], np.int32)
    own, seconds, of_seconds = memberships_given_others(finest_level(between_two_cliques()), labels)
    assert seconds[16] == 1
    assert own[16] == pytest.approx(0.5, abs=0.1)
    assert of_seconds[16] == pytest.approx(1 - own[16])
    assert own[3] > 0.99  # with edges to its own community only


def test_without_edges_each_community_is_as_probable_as_it_is_large() -> None:
    labels = np.array([0, 0, 0, 1, 0], np.int32)
    edges = csr_array(np.zeros((5, 5)))
    own, seconds, _ = memberships_given_others(finest_level(edges), labels)
    assert own[0] == pytest.approx(3 / 4)
    assert (seconds == NOBODY).all()


def test_beliefs_in_communities_that_are_one_now_add_up() -> None:
    communities = np.array(
        [[0, 1, 2, -1], [0, -1, -1, -1], [1, 2, -1, -1], [2, 1, 0, -1]], np.int32
    )
    shares = np.array([[0.5, 0.3, 0.2, 0], [1, 0, 0, 0], [0.75, 0.25, 0, 0], [0.5, 0.25, 0.25, 0]])
    merged = np.array([0, 0, 0, 1], np.int32)  # 0 and 1 are one
    own, seconds, of_seconds = believed_memberships(
        Prior(communities, shares.astype(np.float32)), merged
    )
    assert own.tolist() == pytest.approx([0.8, 1, 0.75, 0.5])
    assert seconds.tolist() == [1, NOBODY, 1, 0]
    assert of_seconds.tolist() == pytest.approx([0.2, 0, 0.25, 0.5])


def test_no_nodes_have_no_memberships() -> None:
    labels, memberships = find_memberships(csr_array((0, 0)), SEARCH)
    assert [len(labels), *map(len, memberships)] == [0, 0, 0, 0]
