"""A search changes only what it has found better."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from stream_icd.methods.bp.level_graph import finest_level
from stream_icd.methods.bp.posterior import Posterior, certain_posterior
from stream_icd.methods.memory.detect import _recombined

N_CLIQUES, SIZE = 8, 9
CLIQUE = np.repeat(np.arange(N_CLIQUES, dtype=np.int32), SIZE)
IN_PAIRS = CLIQUE // 2
FIRST_HALF = CLIQUE < N_CLIQUES // 2
GRAPH = finest_level(csr_array(np.kron(np.eye(N_CLIQUES), np.ones((SIZE, SIZE)) - np.eye(SIZE))))


def known_as(labels: np.ndarray) -> Posterior:
    return certain_posterior(labels.astype(np.int32), mixing=0.1)


def test_what_each_of_two_partitions_has_right_is_kept() -> None:
    right_first = known_as(np.where(FIRST_HALF, CLIQUE, 100 + IN_PAIRS))
    right_last = known_as(np.where(FIRST_HALF, 100 + IN_PAIRS, CLIQUE))
    best = _recombined(GRAPH, right_first, right_last)
    assert best is not None
    assert best.likeliest.tolist() == CLIQUE.tolist()


@pytest.mark.parametrize("known", [IN_PAIRS, CLIQUE, np.zeros_like(CLIQUE)])
def test_a_partition_that_is_best_by_itself_is_taken_as_it_is(known: np.ndarray) -> None:
    assert _recombined(GRAPH, known_as(known), known_as(CLIQUE)) is None


def test_a_single_community_is_never_the_best() -> None:
    """It costs no bits, so that where others save none it would always be."""
    nodes = np.arange(60)
    ring = np.isin((nodes[:, None] - nodes) % 60, [1, 2, 29, 31, 58, 59]).astype(float)
    assert (
        _recombined(finest_level(csr_array(ring)), known_as(nodes // 6), known_as(nodes % 7))
        is None
    )
