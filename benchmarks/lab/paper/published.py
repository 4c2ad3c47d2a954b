"""What the ICD paper published: its tables as values; README.md names the table of each file."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.lab.tos import Measure, trade_off_scores

HERE = Path(__file__).parent

IN_PERCENT = ("nmi", "ac", "modularity")
"""The measures that the paper gives in percent; `ncut` and `seconds` are as they are."""


def means() -> dict[tuple[str, str, str], float]:
    """Mean over the paper's test graphs, by measure, method and data set, as printed."""
    return {(r["measure"], r["method"], r["data_set"]): float(r["mean"]) for r in _rows("results")}


def without_a_part() -> dict[tuple[str, str, str, str], float]:
    """Mean with all parts of ICD or without one, by measure, variant, parts and data set."""
    return {
        (r["measure"], r["variant"], r["parts"], r["data_set"]): float(r["mean"])
        for r in _rows("ablation")
    }


def printed_scores() -> dict[tuple[Measure, str, str], float]:
    """TOS as printed, to two digits, by measure of quality, method and data set."""
    return {(r["quality"], r["method"], r["data_set"]): float(r["tos"]) for r in _rows("tos")}  # type: ignore[misc]


def computed_scores() -> dict[tuple[Measure, str, str], float]:
    """TOS from the printed qualities and times, by measure of quality, method and data set."""
    found, scores = means(), {}
    columns = dict.fromkeys((measure, data_set) for measure, _, data_set in printed_scores())
    for measure, data_set in columns:
        methods = [name for of, name, where in found if (of, where) == (measure, data_set)]
        values = np.array([found[measure, name, data_set] for name in methods])
        seconds = np.array([found["seconds", name, data_set] for name in methods])
        fractions = values / 100 if measure in IN_PERCENT else values
        for name, score in zip(methods, trade_off_scores(fractions, seconds, measure), strict=True):
            scores[measure, name, data_set] = float(score)
    return scores


def _rows(table: str) -> Iterator[dict[str, str]]:
    with (HERE / f"{table}.csv").open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)
