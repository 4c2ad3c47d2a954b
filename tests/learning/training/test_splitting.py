"""Graphs are split in order, and none is lost or used twice."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from stream_icd.core.errors import BadSettings
from stream_icd.core.snapshot import Window
from stream_icd.learning.training.train_model import split, split_in_order
from stream_icd.methods.graphs.labelled_graph import LabelledGraph, Moment
from stream_icd.methods.icd.recipe import Recipe

RECIPE = Recipe(name="sliding", split=(0.0, 0.8, 0.2))


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


def sliding(n: int, hours: int, every: int = 1) -> list[LabelledGraph]:
    """Windows of so many hours, one every so many hours."""
    begin, length = datetime(2026, 1, 1, tzinfo=UTC), timedelta(hours=hours)
    starts = [begin + number * timedelta(hours=every) for number in range(n)]
    moments = [Moment("mails", pa.array([1]), Window(at, at + length)) for at in starts]
    return [LabelledGraph(csr_array((1, 1)), moment=moment) for moment in moments]


def test_windows_that_overlap_those_of_the_test_teach_nothing() -> None:
    graphs = sliding(20, hours=3)
    _, learned, tests = split(graphs, RECIPE)
    assert (learned, tests) == (graphs[:14], graphs[16:])
    with pytest.raises(BadSettings, match="overlap those to test on"):
        split(sliding(5, hours=10), RECIPE)


def test_other_windows_all_teach_also_those_of_one_day() -> None:
    for graphs in (sliding(10, hours=1), sliding(10, hours=1, every=0)):
        assert split(graphs, RECIPE) == ([], graphs[:8], graphs[8:])
