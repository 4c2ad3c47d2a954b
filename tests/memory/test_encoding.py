"""A detector's memory survives as bytes, exactly, and nothing else passes for one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_icd.errors import BadMemory
from stream_icd.memory.bounds import cut
from stream_icd.memory.encoding import decode_memory, encode_memory, next_id_of
from stream_icd.memory.forget import FAR_IDS, anew
from stream_icd.memory.memory import MOST_IDS, MOST_READ_IDS, Memory
from stream_icd.snapshot import Window
from stream_icd.wire.arrow_stream import write_table

START = datetime(2026, 1, 1, tzinfo=UTC)
WINDOW = Window(START, START + timedelta(hours=1))


def memory_of(nodes: pa.Array, seed: int = 0, **values: Any) -> Memory:
    rng = np.random.default_rng(seed)
    shape = (len(nodes), 4)
    communities = np.argsort(rng.random((len(nodes), 9)), axis=1)[:, :4]
    beliefs = rng.dirichlet(np.ones(5), len(nodes))[:, :4].astype(np.float32)
    communities[beliefs < 0.1], beliefs[beliefs < 0.1] = -1, 0.0
    rest = {"mixing": 0.1 + 0.2, "stay": 1 / 3, "next_id": 9, **values}
    return Memory(WINDOW, nodes, communities, beliefs.reshape(shape), **rest)


@settings(max_examples=30)
@given(
    ids=st.one_of(st.sets(st.integers(-(2**63), 2**63 - 1)), st.sets(st.text(max_size=5))),
    seed=st.integers(0, 9),
)
def test_a_memory_comes_back_bit_by_bit(ids: set[int] | set[str], seed: int) -> None:
    kind = pa.string() if any(isinstance(one, str) for one in ids) else pa.int64()
    rival = np.arange(len(ids), dtype=np.int32) - 1 if seed % 2 else None
    memory = memory_of(pa.array(sorted(ids), kind), seed, pull=seed / 6, rival=rival)
    value = encode_memory(memory)
    back = decode_memory(value)
    assert back.nodes.equals(memory.nodes)
    assert back.communities.tobytes() == memory.communities.tobytes()
    assert back.beliefs.tobytes() == memory.beliefs.tobytes()
    assert (back.mixing, back.stay, back.next_id) == (memory.mixing, memory.stay, memory.next_id)
    assert (back.window, back.pull) == (memory.window, memory.pull)
    assert (back.rival is None) == (rival is None)
    assert rival is None or (back.rival is not None and back.rival.tolist() == rival.tolist())
    assert encode_memory(back) == value


@pytest.mark.parametrize(
    "value",
    [b"", b"no table", write_table(pa.table({"node": [1], "community": [0]}))],
    ids=["empty", "foreign", "communities"],
)
def test_other_bytes_are_refused(value: bytes) -> None:
    with pytest.raises(BadMemory):
        decode_memory(value)


def test_truncated_and_altered_bytes_are_refused_or_whole() -> None:
    value = encode_memory(memory_of(pa.array(range(50))))
    for end in range(0, len(value) - 8, 97):
        with pytest.raises(BadMemory):
            decode_memory(value[:end])


def test_the_memory_of_a_later_version_is_refused() -> None:
    value = encode_memory(memory_of(pa.array([1, 2])))
    assert value.count(b'"format": 1') == 1
    with pytest.raises(BadMemory, match="upgrade"):
        decode_memory(value.replace(b'"format": 1', b'"format": 2'))


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ({"mixing": 1.5}, "mixing"),
        ({"stay": float("nan")}, "stay"),
        ({"next_id": 3}, "community ids"),
        ({"next_id": MOST_IDS + 1}, "next_id"),
        ({"next_id": 2**63}, "next_id"),
        ({"pull": -0.1}, "pull"),
        ({"pull": float("inf")}, "pull"),
        ({"pull": 1e308}, "pull"),
        ({"rival": np.full(29, 0, np.int32)}, "rival"),
        ({"rival": np.full(30, 30, np.int32)}, "rival"),
        ({"rival": np.full(30, -2, np.int32)}, "rival"),
    ],
)
def test_values_out_of_range_are_refused(values: dict[str, Any], match: str) -> None:
    with pytest.raises(BadMemory, match=match):
        memory_of(pa.array(range(30)), **values)


def test_bytes_with_ids_that_no_stream_reaches_are_refused() -> None:
    value = encode_memory(memory_of(pa.array([1, 2]), next_id=MOST_READ_IDS + 1))
    with pytest.raises(BadMemory, match="next_id"):
        decode_memory(value)


def test_arrays_that_do_not_fit_are_refused() -> None:
    good = memory_of(pa.array([1, 2, 3]))
    with pytest.raises(BadMemory, match="shape"):
        Memory(WINDOW, pa.array([1]), good.communities, good.beliefs, 0.1, 0.1, 9)
    with pytest.raises(BadMemory, match="probabilities"):
        Memory(WINDOW, good.nodes, good.communities, good.beliefs * np.nan, 0.1, 0.1, 9)


@pytest.mark.parametrize("nodes", [[2, 1, 3], [1, 1, 2], ["b", "a", "c"], ["a", "a", "b"]])
def test_nodes_that_do_not_ascend_are_refused(nodes: list[int] | list[str]) -> None:
    with pytest.raises(BadMemory, match="ascend"):
        memory_of(pa.array(nodes))


@pytest.mark.parametrize(
    ("ids", "beliefs", "match"),
    [
        ([0, 1, 2, 3], [1.0, 1.0, 1.0, 1.0], "add up to 1"),
        ([0, 1, -1, -1], [0.5, 0.3, 0.1, 0.0], "without a community"),
        ([0, 4, 0, -1], [0.5, 0.3, 0.1, 0.0], "named twice"),
    ],
)
def test_beliefs_that_no_detector_holds_are_refused(
    ids: list[int], beliefs: list[float], match: str
) -> None:
    shares = np.array([beliefs], np.float32)
    with pytest.raises(BadMemory, match=match):
        Memory(WINDOW, pa.array([1]), np.array([ids]), shares, 0.1, 0.1, 9)


@pytest.mark.parametrize(
    ("said", "instead"),
    [
        ('"believed": false', '"believed": 0.00'),
        ('"next_id": 9', '"next_id": "9"'),
        ('"format": 1', '"format": 0'),
        ('"mixing": 0.30000000000000004', '"mixing": true'),
    ],
)
def test_metadata_of_another_type_is_refused(said: str, instead: str) -> None:
    table = pa.ipc.open_stream(encode_memory(memory_of(pa.array([1, 2])))).read_all()
    (name, text), *_ = table.schema.metadata.items()
    assert said.encode() in text
    other = {name: text.replace(said.encode(), instead.encode())}
    with pytest.raises(BadMemory):
        decode_memory(write_table(table.replace_schema_metadata(other)))


def test_the_next_id_is_known_though_the_table_is_damaged() -> None:
    value = encode_memory(memory_of(pa.array(range(500)), next_id=41))
    damaged = value[:-900] + bytes(900)
    with pytest.raises(BadMemory):
        decode_memory(damaged)
    assert next_id_of(damaged) == 41
    assert decode_memory(anew(damaged)).next_id == 41
    for lost in (b"", b"no table", encode_memory(memory_of(pa.array([1]), next_id=MOST_IDS))):
        assert next_id_of(lost) is None
        assert decode_memory(anew(lost)).next_id == FAR_IDS


def test_less_is_remembered_the_nodes_that_were_away_longest_go_first() -> None:
    memory = memory_of(pa.array(range(40)), rival=np.arange(40, dtype=np.int32) - 1)
    kept = cut(memory, 10)
    weights = dict(zip(memory.nodes.to_pylist(), memory.beliefs.sum(axis=1), strict=True))
    gone = set(weights) - set(kept.nodes.to_pylist())
    assert kept.n_nodes == 10
    assert max(weights[node] for node in gone) <= min(kept.beliefs.sum(axis=1))
    assert cut(memory, 40) is memory
    assert decode_memory(encode_memory(cut(memory, 0))).n_nodes == 0
