"""A detector's memory survives as bytes, exactly; what is none is refused, or used without harm."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_icd.core.communities import MOST_IDS
from stream_icd.core.errors import BadMemory, LimitExceeded
from stream_icd.methods.bp import level_graph
from stream_icd.methods.bp.level_graph import Rows
from stream_icd.methods.bp.posterior import Posterior
from stream_icd.methods.memory.detect import Remembered, detect_remembering
from stream_icd.methods.memory.encoding import (
    METADATA,
    anew,
    decode_memory,
    enclosed,
    encode_memory,
    next_id_of,
    table_of_nodes,
)
from stream_icd.methods.memory.horizon import FILTER
from stream_icd.methods.memory.memory import (
    BEFORE_ALL,
    COUNTS,
    FAR_IDS,
    MOST_COUNTED,
    MOST_READ_IDS,
    Hypothesis,
    Memory,
)
from stream_icd.methods.memory.nodes import cut, of_nodes
from stream_icd.wire.arrow_stream import write_table
from stream_icd.wire.communities import decode_communities, encode_communities
from tests.methods.memory.streams import bits_of, detected, hour
from tests.testbed.drifting import remembering_model, stream
from tests.testbed.windows import window

MODEL = remembering_model().model
*BEFORE, NEXT = stream("g", 4)


@cache
def memory() -> Memory:
    """The memory of a graph after some windows."""
    return detected(BEFORE, MODEL)[-1].memory


def memory_of(n_nodes: int, **values: Any) -> Memory:
    """The memory of the first nodes of a graph."""
    return replace(of_nodes(memory(), np.arange(n_nodes)), **values)


@settings(max_examples=30)
@given(
    ids=st.one_of(
        st.sets(st.integers(-(2**63), 2**63 - 1), max_size=100),
        st.sets(st.text(max_size=5), max_size=100),
    ),
    credit=st.integers(0, 9),
)
def test_a_memory_comes_back_bit_by_bit(ids: set[int] | set[str], credit: int) -> None:
    kind = pa.string() if any(isinstance(node_id, str) for node_id in ids) else pa.int64()
    memory = memory_of(len(ids), nodes=pa.array(sorted(ids), kind), credit=credit)
    value = encode_memory(memory)
    back = decode_memory(value)
    assert back.nodes.equals(memory.nodes)
    for name in ("window", "next_id", "horizon", *COUNTS):
        assert getattr(back, name) == getattr(memory, name), name
    assert [one.kind for one in back.hypotheses] == [one.kind for one in memory.hypotheses]
    assert bits_of(back) == bits_of(memory)
    assert encode_memory(back) == value


@pytest.mark.parametrize(("n_nodes", "is_known"), [(5_000, True), (300_000, False)])
def test_nodes_without_edges_take_hardly_more_than_their_ids(n_nodes: int, is_known: bool) -> None:
    nodes, seen = pa.array(range(n_nodes)), np.full(n_nodes, is_known)
    certain = Posterior.certain(np.arange(n_nodes, dtype=np.int32), mixing=0.1)
    known = certain if is_known else Posterior.uninformed(n_nodes)
    ids = np.arange(known.n_communities) + 7
    alone = Hypothesis(FILTER, Rows.without_edges(n_nodes), known.likeliest)
    memory = Memory(hour(0), nodes, seen, known, ids, n_nodes + 7, hypotheses=(alone,))
    value = encode_memory(memory)
    assert decode_memory(value).n_nodes == n_nodes
    assert decode_memory(value).community_ids.tolist() == ids.tolist()
    assert len(value) < len(write_table(pa.table({"node": nodes}))) + 10_000


def test_other_bytes_parts_of_a_memory_and_later_versions_are_refused(tmp_path: Path) -> None:
    value, communities = encode_memory(memory_of(50)), {"community": [0]}
    cut_off = [value[:end] for end in range(0, len(value) - 8, 97)]
    for wrong in (b"", b"no table", write_table(pa.table({"node": [1], **communities})), *cut_off):
        with pytest.raises(BadMemory):
            decode_memory(wrong)
    (tmp_path / "memory").write_bytes(value)
    with pytest.raises(BadMemory, match="bytes-like object is required, not 'str'"):
        decode_memory(str(tmp_path / "memory"))
    assert value.count(b'"format": 8') == 1
    with pytest.raises(BadMemory, match="upgrade"):
        decode_memory(value.replace(b'"format": 8', b'"format": 9'))


def test_the_memory_of_the_version_before_starts_the_graph_anew_with_its_ids_used_up() -> None:
    old = pa.table(
        {"node": [1, 2]}
        | {f"community_{rank}": np.array([3, -1]) for rank in range(4)}
        | {f"belief_{rank}": np.array([1, 0], np.float32) for rank in range(4)}
        | {"rival": np.array([-1, -1], np.int32)}
    )
    rest = {"format": 2, "next_id": 4, "mixing": 0.1, "stay": 0.5, "believed": True, "pull": 0.0}
    value = write_table(old.replace_schema_metadata({METADATA: json.dumps(rest).encode()}))
    with pytest.raises(BadMemory, match="format 2"):
        decode_memory(value)
    assert next_id_of(value) == 4
    memory = decode_memory(anew(value))
    assert memory.window == BEFORE_ALL
    assert memory.n_nodes == 0
    assert memory.next_id == 4


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"next_id": 3}, "community ids"),
        ({"next_id": MOST_IDS + 1}, "next_id"),
        ({"n_windows": 0}, "n_windows"),
        ({"nodes": pa.array([0, 2, 1, *range(3, 30)])}, "ascend"),
        ({"nodes": pa.array([0, 0, *range(2, 30)])}, "ascend"),
        ({"nodes": pa.array(["b", "a"] + [f"c{at}" for at in range(10, 38)])}, "ascend"),
        ({"shares": np.full((30, 4), 0.5, np.float32)}, "add up"),
        ({"communities": np.arange(120, dtype=np.int32).reshape(30, 4) % 30 // 10}, "twice"),
        ({"communities": np.full((30, 4), -2, np.int32)}, "communities"),
        ({"communities": np.full((30, 4), 1, np.int32)}, "communities"),
        ({"labels": np.full(30, 30, np.int32)}, "number of nodes"),
    ],
)
def test_values_out_of_range_are_refused(change: dict[str, Any], match: str) -> None:
    memory = memory_of(30)
    if "labels" in change:
        hypotheses = replace(memory.hypotheses[0], **change), *memory.hypotheses[1:]
        memory = replace(memory, hypotheses=hypotheses)
    elif change.keys() <= set(Posterior._fields):
        memory = replace(memory, posterior=memory.posterior._replace(**change))
    else:
        memory = replace(memory, **change)
    with pytest.raises(BadMemory, match=match):
        memory.checked()


def test_a_community_far_above_the_others_is_refused_before_there_is_a_place_for_each() -> None:
    memory = memory_of(30)
    communities = memory.posterior.communities.copy()
    communities[7, 0] = 2**31 - 1  # 16 GiB of places
    known = memory.posterior._replace(communities=communities)
    tracemalloc.start()
    try:
        with pytest.raises(BadMemory, match="communities"):
            replace(memory, posterior=known).checked()
        assert tracemalloc.get_traced_memory()[1] < 1e6
    finally:
        tracemalloc.stop()


EDGE = {"neighbours_0": [[1], [1], []], "weights_0": [[0x3F80], [0x3F80], []]}
"""A path of three nodes: gaps to later neighbours; weights as the upper 16 bits of a float."""


def with_columns(value: bytes, columns: dict[str, list[Any]]) -> bytes:
    table = table_of_nodes(value)
    for name, rows in columns.items():
        at = table.schema.get_field_index(name)
        table = table.set_column(at, name, pa.array(rows, pa.list_(pa.uint16())))
    return enclosed(table, json.loads(pa.ipc.open_stream(value).schema.metadata[METADATA]))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"neighbours_0": [[2], [], []]}, "weight"),
        ({"neighbours_0": [[3], [1], []]}, "names a node"),
        ({"neighbours_0": [[0], [1], []]}, "later nodes"),
        ({"weights_0": [None, [0x3F80], []]}, "null"),
        *(
            ({"weights_0": [[bits], [0x3F80], []]}, "positive and")
            for bits in (0x7FC0, 0x7F80, 0xBF80, 0)
        ),
    ],
    ids=["fewer", "no node", "earlier", "null", "not a number", "infinite", "negative", "zero"],
)
def test_edges_that_are_none_are_refused(
    change: dict[str, list[Any]], match: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = encode_memory(memory_of(3))
    for bits in (1, 0x3F80, 0x7F7F):  # from the least to the most
        good = with_columns(value, {**EDGE, "weights_0": [[bits], [0x3F80], []]})
        assert decode_memory(good).n_nodes == 3
    with pytest.raises(BadMemory, match=match):
        decode_memory(with_columns(value, EDGE | change))
    monkeypatch.setattr(level_graph, "_MOST_ENTRIES", 3)
    with pytest.raises(LimitExceeded, match="too large"):
        decode_memory(with_columns(value, EDGE))


def test_the_next_id_is_known_though_the_table_is_damaged() -> None:
    value = encode_memory(memory_of(100, next_id=41))
    damaged = value[:-900] + bytes(900)
    with pytest.raises(BadMemory):
        decode_memory(damaged)
    assert next_id_of(damaged) == 41
    assert decode_memory(anew(damaged)).next_id == 41
    for lost in (b"", b"no table", encode_memory(memory_of(1, next_id=MOST_IDS))):
        assert next_id_of(lost) is None
        assert decode_memory(anew(lost)).next_id == FAR_IDS


def test_less_is_remembered_the_nodes_that_were_away_longest_go_first() -> None:
    whole, faded = memory_of(40), np.random.default_rng(0).random((40, 1), np.float32)
    posterior = whole.posterior._replace(shares=whole.posterior.shares * faded)
    memory = replace(whole, posterior=posterior)
    kept = cut(memory, 10)
    shares = memory.posterior.shares.sum(axis=1)
    weights = dict(zip(memory.nodes.to_pylist(), shares, strict=True))
    gone = set(weights) - set(kept.nodes.to_pylist())
    assert kept.n_nodes == 10
    assert max(weights[node] for node in gone) <= min(kept.posterior.shares.sum(axis=1))
    assert cut(memory, 40) is memory
    assert decode_memory(encode_memory(cut(memory, 0))).n_nodes == 0


NUMBERS: list[object] = [
    -1, 0, 2**31, 2**53, 2**63, 10**15, 0.0, -0.0, 5e-324, 1 - 2**-53, 1e308, -1e308,
    float("nan"), float("inf"), -float("inf"),
]  # fmt: skip
OTHERS: list[object] = [True, None, "x", [], {}, "present", "0001-01-01T00:00:00+23:59"]


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


def test_ids_near_the_largest_are_refused_or_continued() -> None:
    for next_id in (2**53 - 1, 2**53, 2**53 + 1, MOST_READ_IDS + 1):
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
