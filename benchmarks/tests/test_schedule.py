"""The simulated processes share windows as the real ones do."""

from __future__ import annotations

import pytest

from benchmarks.shared.streams.schedule import Cost, makespan


def windows(chain: str | None, count: int = 20) -> list[Cost]:
    return [Cost(chain, 5.0)] * count


def test_one_process_takes_the_sum() -> None:
    assert makespan(windows("a"), 1) == pytest.approx(20 * 5.0)


def test_windows_without_memory_are_shared() -> None:
    assert makespan(windows(None), 2) == pytest.approx(10 * 5.0)


def test_windows_of_one_graph_follow_each_other() -> None:
    assert makespan(windows("a", 100), 2) == pytest.approx(100 * 5.0)


def test_windows_of_several_graphs_are_shared() -> None:
    mixed = [cost for pair in zip(windows("a"), windows("b"), strict=True) for cost in pair]
    assert makespan(mixed, 2) == pytest.approx(20 * 5.0, rel=0.1)
