"""Loops over graphs read indices as unsigned numbers, and find what they found before."""

from __future__ import annotations

import numpy as np
import pytest
from numba.core.errors import TypingError
from scipy.sparse import csr_array

from stream_icd.core.arrays import Labels
from stream_icd.core.compiled import compiled, unsigned
from stream_icd.methods.bp.level_graph import coarsen, finest_level


@compiled()
def _last(numbers: Labels) -> int:
    return int(unsigned(numbers)[len(numbers) - 1])


def test_numbers_stay_the_same_in_a_loop_and_outside() -> None:
    numbers = np.array([0, 2**31 - 1], np.int32)
    assert _last(numbers) == 2**31 - 1
    assert _last(np.repeat(numbers, 2)[::3]) == 2**31 - 1
    assert unsigned(numbers).tolist() == numbers.tolist()


def test_numbers_of_64_bits_are_no_pairs_of_32() -> None:
    with pytest.raises(TypingError, match="unsigned"):
        _last(np.array([1, 2]))  # type: ignore[arg-type]


def test_groups_have_the_sums_of_the_edges_between_them() -> None:
    rng = np.random.default_rng(0)
    upper = np.triu(rng.random((60, 60)) * (rng.random((60, 60)) < 0.2), 1)
    graph, labels = finest_level(csr_array(upper + upper.T)), rng.integers(0, 7, 60, np.int32)
    coarse = coarsen(graph, labels, 7)
    member = np.eye(7)[labels]
    expected = member.T @ (upper + upper.T) @ member
    np.fill_diagonal(expected, 0.0)
    found = csr_array((coarse.weights, coarse.indices, coarse.indptr), (7, 7))
    assert np.allclose(found.toarray(), expected)
    assert len(coarse.indices) == np.count_nonzero(expected)  # each once
