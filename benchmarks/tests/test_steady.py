"""All methods go through the same windows, and the second half of them counts."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import steady
from benchmarks.shared.streams.known_streams import planted_windows
from benchmarks.shared.streams.memory_streams import Stream
from stream_icd.core.snapshot import Snapshot

WINDOWS = [one.snapshot for one in planted_windows(Stream(0.1, 200), 0, 5)]


def test_the_first_half_counts_only_as_the_first_ten(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, list[str]] = {"alone": [], "ours": []}

    def run(name: str, window: Snapshot) -> tuple[np.ndarray, float]:
        seen[name].append(window.id)
        by_window = {"alone": [10.0] * 5, "ours": [1000.0, 1000.0, 5.0, 5.0, 20.0]}
        spent = by_window[name][int(window.id)]
        return np.zeros(window.n_nodes, np.int32), spent

    methods = {name: lambda window, name=name: run(name, window) for name in seen}
    monkeypatch.setattr(steady, "runs", lambda: methods)
    rows = steady.rows_of("tiny", WINDOWS)
    assert rows == [
        "| tiny | alone | 10.0 | 10.0 | 1.00 | 0 % | 1.00 | 0.0000 |",
        "| tiny | ours | 5.0 | 10.0 | 1.00 | 33 % | 40.60 | 0.0000 |",
    ]
    assert seen["alone"] == seen["ours"] == ["0", "0", "1", "2", "3", "4"]  # the first warms up


@pytest.mark.parametrize("name", list(steady.runs()))
def test_a_method_finds_the_planted_communities(name: str) -> None:
    if name.startswith("NetworKit"):
        pytest.importorskip("networkit", reason="pip install 'stream-icd[evaluate]'")
    run, planted = steady.runs()[name], planted_windows(Stream(0.1, 1000), 0, 2)
    for window in planted:
        labels, spent = run(window.snapshot)
        together = labels[:, None] == labels
        expected = window.classes[:, None] == window.classes
        assert np.mean(together == expected) > 0.95
        assert spent >= 0
