"""The number of different values is that of a set; masked communities are none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_icd.core.arrays import compact, n_distinct
from stream_icd.core.errors import BadSettings

INT64 = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(st.one_of(st.integers(0, 3), INT64)))
def test_it_is_the_size_of_the_set(values: list[int]) -> None:
    assert n_distinct(np.array(values, np.int64)) == len(set(values))
    assert n_distinct(np.array([values, values], np.int64)) == len(set(values))


def test_masked_communities_are_refused() -> None:
    given = np.ma.array([5, 5, 7], mask=[False, True, False])
    with pytest.raises(BadSettings, match="masked"):
        compact(given)
    assert compact(given.filled(5)).tolist() == [0, 0, 1]
    assert compact(np.ma.array([5, 7])).tolist() == [0, 1]


@given(st.lists(st.integers(-3, 12)), st.sampled_from([np.int32, np.int64]))
def test_compact_labels_are_the_ranks_of_labels(labels: list[int], kind: type[np.integer]) -> None:
    ranks = sorted(set(labels))
    found = compact(np.array(labels, kind))
    assert found.tolist() == [ranks.index(label) for label in labels]
    assert found.dtype == np.int64
