"""A window of much heavier weights than the others does not outweigh those after it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from numpy.typing import NDArray

from stream_icd.core.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.methods.memory.detect import detect_remembering
from stream_icd.methods.memory.memory import Memory
from stream_icd.methods.quality.agreement import nmi
from stream_icd.registry.find import open_model

MODEL = open_model("default").model
START, HOUR = datetime(2026, 1, 1, tzinfo=UTC), timedelta(hours=1)
N_NODES, N_GROUPS = 300, 10
HEAVY, MOVED, LAST = 6, 9, 12
"""Numbers of the heavy window, of the first one in which nodes have moved, and of the last."""


def window(number: int, groups: NDArray[np.int64], factor: float) -> Snapshot:
    """A window of 1,500 edges, nearly all within groups, with weights from 1 to 4."""
    rng = np.random.default_rng(number)
    src, dst = rng.integers(0, N_NODES, (2, 60 * N_NODES))
    drawn = (src != dst) & ((groups[src] == groups[dst]) | (rng.random(len(src)) < 0.03))
    src, dst = src[drawn][: 5 * N_NODES], dst[drawn][: 5 * N_NODES]
    span = Window(START + number * HOUR, START + (number + 1) * HOUR)
    weights = rng.integers(1, 5, len(src)) * factor
    return snapshot_from_pairs(src, dst, graph="g", id=f"g/{number}", window=span, weights=weights)


def last_agreement(heavy: float) -> float:
    """NMI of the last window, three windows after a fifth of the nodes has moved."""
    rng = np.random.default_rng(5)
    before = np.arange(N_NODES) * N_GROUPS // N_NODES
    after = np.where(rng.random(N_NODES) < 0.2, rng.integers(0, N_GROUPS, N_NODES), before)
    memory: Memory | None = None
    for number in range(LAST + 1):
        groups = before if number < MOVED else after
        snapshot = window(number, groups, heavy if number == HEAVY else 1.0)
        found = detect_remembering(snapshot, MODEL, memory)
        memory = found.memory
    return nmi(found.communities, groups[snapshot.nodes.to_numpy()])


@pytest.mark.parametrize("heavy", [1.0, 1e4, 1e30, 1e140])
def test_moves_are_found_as_soon_as_without_the_heavy_window(heavy: float) -> None:
    assert last_agreement(heavy) > 0.98


def after_three(unit: float) -> Memory:
    """The memory after three windows of the horizon 5, all weights in this unit."""
    groups, memory = np.arange(N_NODES) * N_GROUPS // N_NODES, None
    for number in range(3):
        memory = detect_remembering(window(number, groups, unit), MODEL, memory, horizon=5).memory
    assert memory is not None
    return memory


@pytest.mark.parametrize("unit", [1e-140, 1e-40, 1e40, 1e140])
def test_the_unit_of_all_weights_does_not_matter(unit: float) -> None:
    usual, other = after_three(1.0), after_three(unit)
    assert (
        other.hypotheses[0].evidence.indices.tolist()
        == usual.hypotheses[0].evidence.indices.tolist()
    )
    assert other.known.likeliest.tolist() == usual.known.likeliest.tolist()
