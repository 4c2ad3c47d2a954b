"""docs/measured/memory.md is written from the figures there are."""

from __future__ import annotations

from benchmarks import memory
from benchmarks.shared.pages.memory_page import Figures, memory_page


def page(known: dict[str, Figures]) -> str:
    return memory_page(
        known,
        mixings=memory.STREAMS[:6],
        streams=memory.STREAMS,
        broken=memory.BROKEN,
        learned=memory.LEARNED,
        peers=list(memory.PEERS),
    )


def test_rows_without_figures_are_left_out() -> None:
    assert "| 0.6 |" not in page({})


def test_a_row_has_the_means_of_all_seeds() -> None:
    def one(score: float) -> Figures:
        return {
            "alone": [0.5] * 10,
            "memory": [score] * 10,
            "smooth": [0.99] * 10,
            "stay": [0.9] * 10,
            "milliseconds": [10.0, 12.0],
            "smooth_milliseconds": 20.0,
            "commit": "abc1234",
        }

    name = memory.STREAMS[3].name
    text = page({f"{name} seed=9000": one(0.8), f"{name} seed=9001": one(0.6)})
    row = "| 2 % |  | 2 | 50.0 | **70.0 ± 14.1** | +10.0 | 99.0 | 0.900 | 10 | 12 | 1.20 |"
    assert f"| 0.6 | 5,000 {row}" in text
    assert "| **memory** | its past | 2 | 70.0 | 70.0 ± 14.1 | 0.01 |" in text
    assert text.endswith("\nMeasured at commit abc1234.\n")
    assert "| **smoothed** | all | 2 | 99.0 | 99.0 ± 0.0 | 0.02 |" in text
