"""Arrays of ids: how many differ, where they are among others, and labels of communities."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_icd.core.arrays import as_labels, n_distinct
from stream_icd.core.errors import BadSettings
from stream_icd.core.node_ids import places

INT64 = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(st.one_of(st.integers(0, 3), INT64)))
def test_it_is_the_size_of_the_set(values: list[int]) -> None:
    assert n_distinct(np.array(values, np.int64)) == len(set(values))
    assert n_distinct(np.array([values, values], np.int64)) == len(set(values))


def test_masked_communities_are_refused() -> None:
    masked = np.ma.array([5, 5, 7], mask=[False, True, False])
    with pytest.raises(BadSettings, match="masked"):
        as_labels(masked)
    assert as_labels(masked.filled(5)).tolist() == [0, 0, 1]
    assert as_labels(np.ma.array([7, -5, 7])).tolist() == [1, 0, 1]


NEAR = st.integers(-40, 40)
FAR = st.sampled_from([-(1 << 63), -(1 << 40), 0, 1 << 20, (1 << 63) - 1])


@given(wanted=st.lists(NEAR | FAR), known=st.sets(NEAR | FAR), in_order=st.booleans())
def test_each_id_is_found_where_it_is(wanted: list[int], known: set[int], in_order: bool) -> None:
    among = sorted(known) if in_order else sorted(known, reverse=True)
    found = places(pa.array(wanted, pa.int64()), pa.array(among, pa.int64()))
    assert found.tolist() == [among.index(id) if id in known else -1 for id in wanted]


@pytest.mark.parametrize("span", [100, 1 << 40])
def test_ids_above_the_range_of_int64_are_found(span: int) -> None:
    among = pa.array([(1 << 63) + 1, (1 << 63) + span], pa.uint64())
    wanted = pa.array([0, 1 << 63, (1 << 63) + 1, (1 << 63) + span, (1 << 64) - 1], pa.uint64())
    assert places(wanted, among).tolist() == [-1, -1, 0, 1, -1]
