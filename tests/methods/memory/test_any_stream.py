"""What holds for detection with memory on any stream of windows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_icd.core.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.methods.memory.detect import detect_remembering
from stream_icd.methods.memory.encoding import decode_memory, encode_memory
from stream_icd.methods.memory.horizon import Horizon
from stream_icd.methods.memory.memory import Memory
from stream_icd.methods.model import Method
from stream_icd.registry.model import VersionedModel
from stream_icd.streaming.detection.detect import finding
from tests.testbed.windows import HOUR, START

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
        start = START + at * HOUR
        window = Window(start, start + HOUR)
        yield snapshot_from_pairs(*named, graph="g", id=str(number), window=window, weights=weights)


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


def through_bytes(memory: Memory | None) -> Memory | None:
    return None if memory is None else decode_memory(encode_memory(memory))
