"""`lab.why` changes a method in one respect, and only there."""

from __future__ import annotations

from lab.packages import lab_methods
from lab.run import small_data_sets
from lab.why import CHANGES, as_it_is, percent, rows_scaled


def test_a_change_ends_with_its_context() -> None:
    graph = next(iter(small_data_sets()[1].test_graphs()))
    before, changed, after = (
        percent("randne", graph, "nmi", change) for change in (as_it_is, rows_scaled, as_it_is)
    )
    assert changed > before + 5
    assert after == before


def test_the_methods_that_change_exist() -> None:
    assert {method for method, _, _ in CHANGES} <= lab_methods().keys()
