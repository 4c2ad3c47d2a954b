"""The simulated processes share windows as the real ones do."""

from __future__ import annotations

import pytest

from benchmarks.shared.streams.schedule import Parts, makespan


def windows(chain: str | None, count: int = 20, chained: float = 3.0) -> list[Parts]:
    return [Parts(chain, 1.0, chained, 1.0)] * count


def test_one_process_takes_the_sum() -> None:
    assert makespan(windows("a"), 1) == pytest.approx(20 * 5.0)


def test_windows_without_memory_are_shared() -> None:
    assert makespan(windows(None), 2) == pytest.approx(10 * 5.0)


def test_windows_of_one_graph_wait_for_each_other() -> None:
    """Only what is before and after the chained part is done side by side."""
    assert makespan(windows("a"), 2) == pytest.approx(1.0 + 20 * 3.0 + 1.0)
    assert makespan(windows("a", chained=0.0), 2) == pytest.approx(10 * 2.0, rel=0.1)


def test_windows_of_several_graphs_are_shared() -> None:
    mixed = [parts for pair in zip(windows("a"), windows("b"), strict=True) for parts in pair]
    assert makespan(mixed, 2) == pytest.approx(20 * 5.0, rel=0.1)
