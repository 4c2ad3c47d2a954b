"""Streams of windows that the tests of memory are about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np

from stream_icd.core.arrays import Ids
from stream_icd.core.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.icd.presets import preset
from stream_icd.methods.memory.detect import Remembered, detect_remembering
from stream_icd.methods.memory.encoding import decode_memory, encode_memory
from stream_icd.methods.memory.memory import Memory
from stream_icd.methods.model import Model
from tests.testbed.windows import HOUR, START

BELIEFS = BpParameters(resolution=2.0, mixing=0.3, iterations=1)


def model(parameters: BpParameters = BELIEFS) -> Model:
    return Model(preset("L(f,0.3)"), parameters)


def hour(number: float) -> Window:
    return Window(START + number * HOUR, START + (number + 1) * HOUR)


def cliques(number: float, *groups: Sequence[int] | Sequence[str]) -> Snapshot:
    """Hour `number`, in which each group of nodes is a clique."""
    src, dst = zip(*(pair for group in groups for pair in combinations(group, 2)), strict=True)
    return snapshot_from_pairs(src, dst, graph="g", id=f"g/{number}", window=hour(number))


def through_bytes(memory: Memory | None) -> Memory | None:
    return None if memory is None else decode_memory(encode_memory(memory))


def detected(
    windows: Iterable[Snapshot], used: Model | None = None, memory: Memory | None = None
) -> list[Remembered]:
    """The results of one window after the other, each with the memory that was published before."""
    found: list[Remembered] = []
    for window in windows:
        found.append(detect_remembering(window, used or model(), through_bytes(memory)))
        memory = found[-1].memory
    return found


def ids_of(found: Remembered) -> Ids:
    """The id of each node's community, in the order of the window's nodes."""
    return found.community_ids[found.communities]


def bits_of(memory: Memory) -> bytes:
    """All that memory knows of its nodes and their communities, as bytes."""
    arrays = [*memory.posterior[:2], np.array(memory.posterior[2:])]
    arrays += [memory.seen, memory.community_ids]
    for hypothesis in memory.hypotheses:
        numbers = np.array([hypothesis.saved, hypothesis.n_vain, hypothesis.wait])
        arrays += [*hypothesis.evidence, hypothesis.labels, numbers]
    return b"".join(array.tobytes() for array in arrays)
