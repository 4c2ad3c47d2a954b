"""Curves of training that advance in turn, so that all are equally far when the time is up."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.shared.training.curves import Curve
from stream_icd.learning.training.icd.training_graph import TrainingGraph

SCORES = ("training", "validation", "test", "induced")


class Planned(NamedTuple):
    """A curve, how far it goes, and the graphs that it is trained on."""

    name: str
    curve: Curve
    steps: int
    between: int
    prepared: Sequence[TrainingGraph]


def advance(curves: Sequence[Planned], minutes: float) -> None:
    """Advance the curve that is furthest behind, until all are done or the time is up."""
    end = time.monotonic() + 60 * minutes
    while time.monotonic() < end:
        behind = [curve for curve in curves if curve.curve.steps < curve.steps]
        if not behind:
            return
        one = min(behind, key=lambda one: one.curve.steps / one.steps)
        left = one.steps - max(one.curve.steps, 0)
        one.curve.advance(min(one.between, left), one.prepared)
        point = one.curve.points[-1]
        print(one.name, *(f"{key} {point[key]:.2f}" for key in SCORES), one.curve.steps, flush=True)
