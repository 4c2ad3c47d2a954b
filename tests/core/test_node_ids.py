"""Where ids are among others, whatever their numbers."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_icd.core.node_ids import places

NEAR = st.integers(-40, 40)
FAR = st.sampled_from([-(1 << 63), -(1 << 40), 0, 1 << 20, (1 << 63) - 1])


@given(
    wanted=st.lists(NEAR | FAR),
    known=st.sets(NEAR | FAR),
    in_order=st.booleans(),
)
def test_each_id_is_found_where_it_is(wanted: list[int], known: set[int], in_order: bool) -> None:
    among = sorted(known) if in_order else sorted(known, reverse=True)
    found = places(pa.array(wanted, pa.int64()), pa.array(among, pa.int64()))
    assert found.tolist() == [among.index(one) if one in known else -1 for one in wanted]


@pytest.mark.parametrize("span", [100, 1 << 40])
def test_ids_above_the_range_of_int64_are_found(span: int) -> None:
    among = pa.array([(1 << 63) + 1, (1 << 63) + span], pa.uint64())
    wanted = pa.array([0, 1 << 63, (1 << 63) + 1, (1 << 63) + span, (1 << 64) - 1], pa.uint64())
    assert places(wanted, among).tolist() == [-1, -1, 0, 1, -1]
