"""Graphs are split in order, and none is lost or used twice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_icd.errors import BadSettings
from stream_icd.training.train_model import split_in_order


@given(st.integers(10, 500))
def test_every_graph_is_in_one_part_in_order(n: int) -> None:
    train, validation, test = split_in_order(range(n), (0.8, 0.1, 0.1))
    assert [*train, *validation, *test] == list(range(n))
    assert abs(len(train) - 0.8 * n) <= 1
    assert min(len(validation), len(test)) >= 1


def test_a_share_of_nothing_may_be_empty() -> None:
    assert split_in_order("abcd", (0.75, 0.25, 0.0)) == ("abc", "d", "")


def test_too_few_graphs_are_refused() -> None:
    with pytest.raises(BadSettings, match="too few"):
        split_in_order("ab", (0.8, 0.1, 0.1))
