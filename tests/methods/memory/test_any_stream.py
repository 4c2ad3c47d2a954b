"""What holds for detection with memory on any stream of windows, also of any weights."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from stream_icd.core.snapshot import Snapshot, snapshot_from_pairs
from stream_icd.methods.memory.detect import detect_remembering
from stream_icd.methods.memory.encoding import encode_memory
from stream_icd.methods.memory.horizon import Horizon
from stream_icd.methods.memory.memory import Memory
from stream_icd.methods.model import Method
from stream_icd.methods.quality.agreement import nmi
from stream_icd.registry.find import open_model
from stream_icd.registry.model import VersionedModel
from stream_icd.streaming.detection.detect import finding
from tests.methods.memory.streams import hour, through_bytes

HORIZONS: tuple[Horizon, ...] = ("auto", "off", 1.0, 3.0, 50.0)


def windows(rng: np.random.Generator) -> Iterator[Snapshot]:
    """Windows of varying nodes, with groups or without; there are gaps, and some are late."""
    most, kind, at = int(rng.choice([3, 8, 30, 120])), rng.choice(["text", "number"]), 0
    for number in range(8):
        at += int(rng.choice([1, 1, 1, 5, 0, -2]))
        ids = rng.choice(most, rng.integers(1, most + 1), replace=False)
        pairs = rng.choice(ids, (2, int(rng.integers(0, 4 * len(ids)))))
        grouped = (pairs[0] % 4 == pairs[1] % 4) | (
            rng.random(pairs.shape[1]) < rng.choice([0.1, 1])
        )
        pairs = pairs[:, grouped & (pairs[0] != pairs[1])]
        if not pairs.size:
            continue
        weights = rng.choice([1.0, 2.5, 1e-9, 1e6], pairs.shape[1]) if number % 2 else None
        named = (pa.array(ids).cast(pa.string()) if kind == "text" else ids for ids in pairs)
        yield snapshot_from_pairs(
            *named, graph="g", id=str(number), window=hour(at), weights=weights
        )


@pytest.mark.parametrize("method", ["bp", "icd"])
@settings(max_examples=30)
@given(seed=st.integers(0, 2**32 - 1))
def test_on_any_stream(model: VersionedModel, method: Method, seed: int) -> None:
    rng = np.random.default_rng(seed)
    horizon = HORIZONS[rng.integers(len(HORIZONS))]
    find = finding(method, model.model, seed=0, threads=1, spent={})
    memory, used = None, set[int]()
    for snapshot in windows(rng):
        k = int(rng.integers(1, snapshot.n_nodes + 1)) if rng.random() < 0.3 else None
        found, again = (
            detect_remembering(snapshot, model.model, before, k, horizon=horizon, find=find)
            for before in (memory, through_bytes(memory))
        )
        ids, next_id = found.community_ids.tolist(), 0 if memory is None else memory.next_id
        assert set(found.communities.tolist()) == set(range(len(ids)))
        assert k in {None, len(ids)}
        assert len(set(ids)) == len(ids)
        assert not used & {one for one in ids if one >= next_id}, "an id is given once"
        assert found.predicted_bits is None or np.isfinite(found.predicted_bits)
        assert found.moved is None or np.isfinite(found.moved.bits).all()
        # A detector that starts again goes on with what it has published.
        assert again.communities.tolist() == found.communities.tolist()
        assert again.community_ids.tolist() == ids
        assert encode_memory(again.memory) == encode_memory(found.memory)
        if found.memory is not memory:  # else the window is late: its new ids serve for it alone
            used |= set(ids)
        memory = found.memory


N_NODES, N_GROUPS = 300, 10
HEAVY, MOVED, LAST = 6, 9, 12
"""Numbers of the heavy window, of the first one in which nodes have moved, and of the last."""
MODEL = open_model("default").model
BEFORE = np.arange(N_NODES) * N_GROUPS // N_NODES


def window(number: int, groups: NDArray[np.int64], factor: float) -> Snapshot:
    """A window of 1,500 edges, nearly all within groups, with weights from 1 to 4."""
    rng = np.random.default_rng(number)
    src, dst = rng.integers(0, N_NODES, (2, 60 * N_NODES))
    drawn = (src != dst) & ((groups[src] == groups[dst]) | (rng.random(len(src)) < 0.03))
    src, dst = src[drawn][: 5 * N_NODES], dst[drawn][: 5 * N_NODES]
    weights, at = rng.integers(1, 5, len(src)) * factor, hour(number)
    return snapshot_from_pairs(src, dst, graph="g", id=f"g/{number}", window=at, weights=weights)


def last_agreement(heavy: float) -> float:
    """NMI of the last window, three windows after a fifth of the nodes has moved."""
    rng = np.random.default_rng(5)
    after = np.where(rng.random(N_NODES) < 0.2, rng.integers(0, N_GROUPS, N_NODES), BEFORE)
    memory: Memory | None = None
    for number in range(LAST + 1):
        groups = BEFORE if number < MOVED else after
        snapshot = window(number, groups, heavy if number == HEAVY else 1.0)
        found = detect_remembering(snapshot, MODEL, memory)
        memory = found.memory
    return nmi(found.communities, groups[snapshot.nodes.to_numpy()])


@pytest.mark.parametrize("heavy", [1.0, 1e4, 1e30, 1e140])
def test_moves_are_found_as_soon_as_without_a_window_of_heavy_weights(heavy: float) -> None:
    assert last_agreement(heavy) > 0.98


def after_three(unit: float) -> Memory:
    """The memory after three windows of the horizon 5, all weights in this unit."""
    memory = None
    for number in range(3):
        memory = detect_remembering(window(number, BEFORE, unit), MODEL, memory, horizon=5).memory
    assert memory is not None
    return memory


@pytest.mark.parametrize("unit", [1e-140, 1e-40, 1e40, 1e140])
def test_the_unit_of_all_weights_does_not_matter(unit: float) -> None:
    usual, other = after_three(1.0), after_three(unit)
    edges = (one.hypotheses[0].evidence.indices.tolist() for one in (usual, other))
    assert next(edges) == next(edges)
    assert other.known.likeliest.tolist() == usual.known.likeliest.tolist()
