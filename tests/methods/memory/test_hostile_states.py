"""A state is refused, whatever it says, or the next window is detected and leaves one to read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stream_icd.core.errors import BadMemory
from stream_icd.methods.memory.detect import Remembered, detect_remembering
from stream_icd.methods.memory.encoding import (
    METADATA,
    decode_memory,
    enclosed,
    encode_memory,
    table_of_nodes,
)
from stream_icd.methods.memory.memory import COUNTS, MOST_COUNTED, Memory
from stream_icd.wire.communities import decode_communities, encode_communities
from tests.methods.memory.streams import detected
from tests.testbed.drifting import remembering_model, stream
from tests.testbed.windows import window

MODEL = remembering_model().model
*BEFORE, NEXT = stream("g", 4)
NUMBERS: list[object] = [
    -1, 0, 2**31, 2**53, 2**63, 10**15, 0.0, -0.0, 5e-324, 1 - 2**-53, 1e308, -1e308,
    float("nan"), float("inf"), -float("inf"),
]  # fmt: skip
OTHERS: list[object] = [True, None, "x", [], {}, "present", "0001-01-01T00:00:00+23:59"]
BITS = {"not a number": 0x7FC0, "infinite": 0x7F80, "negative": 0xBF80, "zero": 0, "least": 1,
        "most": 0x7F7F}  # fmt: skip
"""Weights of edges, as the upper 16 bits of a float."""


@cache
def memory() -> Memory:
    """The memory of a graph after some windows."""
    return detected(BEFORE, MODEL)[-1].memory


def table() -> pa.Table:
    return table_of_nodes(encode_memory(memory()))


def places(said: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where a number, a text or a list of it stands in the metadata."""
    inner: Any = said.items() if isinstance(said, dict) else ()
    inner = enumerate(said) if isinstance(said, list) else inner
    for at, one in inner:
        yield (*path, at)
        yield from places(one, (*path, at))


SAID = json.loads(pa.ipc.open_stream(encode_memory(memory())).schema.metadata[METADATA])


def with_said(path: tuple[Any, ...], value: object) -> bytes:
    said = deepcopy(SAID)
    within = said
    for at in path[:-1]:
        within = within[at]
    within[path[-1]] = value
    return enclosed(table(), said)


def is_whole(found: Remembered) -> bool:
    """Whether the result and the state after it can be read by those that they are sent to."""
    result = replace(
        window(0, found.communities, NEXT.nodes, ids=found.community_ids),
        replaced=found.replaced,
        horizon=found.horizon,
        predicted_bits=found.predicted_bits,
    )
    message = encode_communities(result)
    sent = decode_communities(message.key, message.value, message.headers)
    return sent.horizon is not None and decode_memory(encode_memory(found.memory)).n_nodes > 0


def ends(value: bytes) -> str:
    """How a state ends: refused, or used."""
    try:
        read = decode_memory(value)
    except BadMemory:
        return "refused"
    assert is_whole(detect_remembering(NEXT, MODEL, read))
    return "used"


@pytest.mark.parametrize("path", [*places(SAID)], ids=lambda path: ".".join(map(str, path)))
def test_metadata_of_any_value_is_refused_or_used(path: tuple[Any, ...]) -> None:
    assert "refused" in {ends(with_said(path, value)) for value in (*NUMBERS, *OTHERS)}


@pytest.mark.parametrize("weight", BITS)
@pytest.mark.parametrize("number", [0, 2])
def test_weights_of_edges_are_positive_and_finite(number: int, weight: str) -> None:
    whole = table()
    field = whole.schema.field(f"weights_{number}")
    at = whole.schema.names.index(field.name)
    rows = whole.column(at).to_pylist()
    first = next(row for row, bits in enumerate(rows) if bits)
    rows[first][0] = BITS[weight]
    changed = whole.set_column(at, field, pa.array(rows, field.type))
    usable = weight in ("least", "most")
    assert ends(enclosed(changed, SAID)) == ("used" if usable else "refused")


def test_ids_near_the_largest_are_refused_or_continued() -> None:
    for next_id in (2**53 - 1, 2**53, 2**53 + 1):
        assert ends(with_said(("next_id",), next_id)) == "refused"
    ids = memory().community_ids + 10**14
    high = replace(memory(), community_ids=ids, next_id=int(ids.max()) + 1)
    found = detect_remembering(NEXT, MODEL, decode_memory(encode_memory(high)))
    assert set(found.community_ids) & set(ids)
    assert is_whole(found)


def test_counts_at_their_maximum_stay_there() -> None:
    most = replace(memory(), **(dict.fromkeys(COUNTS, MOST_COUNTED) | {"leader": 0}))
    hypotheses = [replace(one, n_vain=MOST_COUNTED, wait=MOST_COUNTED) for one in most.hypotheses]
    most = replace(most, hypotheses=tuple(hypotheses))
    found = detect_remembering(NEXT, MODEL, decode_memory(encode_memory(most)))
    assert found.memory.n_windows == MOST_COUNTED
    assert is_whole(found)


def test_a_memory_of_nodes_has_seen_a_window() -> None:
    with pytest.raises(BadMemory, match="n_windows"):
        replace(memory(), n_windows=0).checked()
    assert np.isfinite(memory().horizon)
