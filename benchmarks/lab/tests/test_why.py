"""`lab.why` changes a method in one respect, and only there."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.lab.packages import lab_methods
from benchmarks.lab.run import small_data_sets
from benchmarks.lab.why import (
    CHANGES,
    Changed,
    as_it_is,
    few_columns,
    not_divided_by_degrees,
    percent,
    rows_scaled,
    symmetrically_normalised,
)
from benchmarks.shared.graphs.data_sets import BenchmarkGraph
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_lfr


def test_a_change_ends_with_its_context() -> None:
    graph = next(iter(small_data_sets()[1].test_graphs()))
    before, changed, after = (
        percent("randne", graph, "nmi", change) for change in (as_it_is, rows_scaled, as_it_is)
    )
    assert changed > before + 5
    assert after == before


@pytest.mark.parametrize(
    ("method", "change"),
    [
        ("spectral", not_divided_by_degrees),
        ("snmf", symmetrically_normalised),
        ("prone", few_columns),
    ],
)
def test_a_change_reaches_its_method(method: str, change: Changed) -> None:
    planted = generate_lfr(
        np.random.default_rng(0), LfrSettings(300, max_degree=40, max_community=40, mixing=0.6)
    )
    hard = BenchmarkGraph(planted.adjacency(), planted.communities)
    assert percent(method, hard, "nmi", change) != percent(method, hard, "nmi", as_it_is)


def test_the_methods_that_change_exist() -> None:
    assert {method for method, _, _ in CHANGES} <= lab_methods().keys()
