"""The number of different values is that of a set."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stream_icd.arrays import n_distinct

INT64 = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(st.one_of(st.integers(0, 3), INT64)))
def test_it_is_the_size_of_the_set(values: list[int]) -> None:
    assert n_distinct(np.array(values, np.int64)) == len(set(values))
    assert n_distinct(np.array([values, values], np.int64)) == len(set(values))
