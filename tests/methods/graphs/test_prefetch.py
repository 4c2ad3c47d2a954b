"""Asking for memory that is read later changes nothing, wherever one asks."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from stream_icd.core.compiled import compiled, prefetch


@compiled()
def _sum_of_first(array: NDArray[np.float64], asked: NDArray[np.int64]) -> float:
    total = 0.0
    for index in asked:
        prefetch(array, index)
    for row in array:
        total += row[0]
    return total


@pytest.mark.parametrize("index", [0, 2, 3, -1, 2**40, -(2**40)])
def test_a_loop_may_ask_for_what_is_not_there(index: int) -> None:
    array = np.arange(6.0).reshape(3, 2)
    assert _sum_of_first(array, np.array([index])) == 6.0
    assert _sum_of_first(array[::2], np.array([index])) == 4.0
