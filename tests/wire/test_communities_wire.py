"""Communities and labels survive the wire, and broken ones are named."""

from __future__ import annotations

import base64
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_icd.core.communities import MOST_IDS, Communities, Labels
from stream_icd.core.errors import BadCommunities
from stream_icd.core.snapshot import Window
from stream_icd.wire.arrow_stream import write_table
from stream_icd.wire.communities import (
    decode_communities,
    decode_labels,
    encode_communities,
    encode_labels,
)
from tests.wire.samples import DAY, with_header


def communities(labels: list[int], nodes: pa.Array | None = None) -> Communities:
    return Communities(
        graph="as733",
        snapshot_id="as733/1999-04-02",
        window=DAY,
        nodes=pa.array(range(len(labels))) if nodes is None else nodes,
        labels=np.array(labels, np.int32),
        n_edges=4,
        model="as-1",
        modularity=0.5,
        ncut=1.25,
        milliseconds={"decode": 1.0, "features": 0.5, "encode": 2.25, "cluster": 3.0},
        detected_at=datetime(2026, 1, 1, tzinfo=UTC),
        evidence="weak",
        bits_saved=0.125,
    )


@given(st.lists(st.integers(0, 3), min_size=4, max_size=20), st.booleans())
def test_what_is_found_is_what_is_read(labels: list[int], named: bool) -> None:
    names = pa.array([f"AS{i}" for i in range(len(labels))][::-1])  # in any order
    sent = communities(labels, names if named else None)
    message = encode_communities(sent)
    got = decode_communities(message.key, message.value, message.headers)
    assert got.nodes.equals(sent.nodes)
    assert got.labels.tolist() == labels
    assert encode_communities(got) == message
    for name in ("window", "milliseconds", "detected_at", "n_communities", "bits_saved"):
        assert getattr(got, name) == getattr(sent, name)
    truth = Labels(*about(sent), sent.nodes, sent.labels, "urn:lfr")
    message = encode_labels(truth)
    known = decode_labels(message.key, message.value, message.headers)
    assert (*about(known), known.source) == (*about(sent), "urn:lfr")
    assert known.nodes.equals(sent.nodes)
    assert known.labels.tolist() == labels
    with pytest.raises(BadCommunities, match="ce_type is .stream_icd"):
        decode_communities(message.key, message.value, message.headers)


def about(one: Communities | Labels) -> tuple[str, str, Window]:
    return one.graph, one.snapshot_id, one.window


def test_values_that_no_message_may_hold_are_refused() -> None:
    ids, integers = pa.array([1, 2]), "labels must be a NumPy array of integers"
    for nodes, labels, said in (
        ([1, 2], np.zeros(2, np.int32), "nodes are a list; give pyarrow.array"),
        (ids, [0, 1], integers),
        (ids, np.array([0.5, 1]), integers),
    ):
        with pytest.raises(BadCommunities, match=said):
            Labels("as733", "as733/1999-04-02", DAY, nodes, labels)  # type: ignore[arg-type]
    pairs = np.array([[0, 1], [2, 1]])
    for bits in (np.nan, -1e308):  # which may add up to infinity
        with pytest.raises(BadCommunities, match="bits between"):
            replace(communities([0, 1]), moved=pairs, moved_bits=np.array([bits, bits]))
    assert replace(communities([0, 1]), moved=pairs, moved_bits=np.array([-3.5, 1e90]))


@given(st.data())
def test_stable_ids_survive_the_wire(data: st.DataObject) -> None:
    k = data.draw(st.integers(1, 12))
    big = st.integers(0, 2**63 - 1)
    ids = data.draw(st.lists(st.integers(0, MOST_IDS - 1), min_size=k, max_size=k, unique=True))
    ended = sorted(data.draw(st.sets(big, max_size=5)))
    now = [data.draw(st.integers(-1, 2**63 - 1)) for _ in ended]
    replaced = np.array([ended, now], np.int64).T.reshape(-1, 2)
    sent = replace(
        communities([*range(k), 0]), community_ids=np.array(ids, np.int64), replaced=replaced
    )
    message = encode_communities(sent)
    got = decode_communities(message.key, message.value, message.headers)
    assert got.community_ids is not None
    assert got.replaced is not None
    assert (got.community_ids.tolist(), got.replaced.tolist()) == (ids, replaced.tolist())
    assert got.ids_of_nodes is not None
    assert got.ids_of_nodes.tolist() == [*ids, ids[0]]


SURE = replace(
    communities([0, 1, 1]),
    community_ids=np.array([7, 3]),
    replaced=np.empty((0, 2), np.int64),
    probabilities=np.array([1, 0.5, 0.75], np.float32),
    second_ids=np.array([-1, 7, 900]),
    second_probabilities=np.array([0, 0.5, 0.25], np.float32),
)


def test_ids_and_probabilities_are_columns_that_any_reader_of_arrow_sees() -> None:
    message = encode_communities(SURE)
    table = pa.ipc.open_stream(message.value).read_all()
    assert table.to_pydict() == {
        "node": [0, 1, 2],
        "community": [0, 1, 1],
        "community_id": [7, 3, 3],
        "probability": [1, 0.5, 0.75],
        "second_id": [None, 7, 900],
        "second_probability": [None, 0.5, 0.25],
    }
    got = decode_communities(message.key, message.value, message.headers)
    for name in ("probabilities", "second_ids", "second_probabilities"):
        assert getattr(got, name).tolist() == getattr(SURE, name).tolist()
    assert encode_communities(got) == message


def test_what_is_not_known_is_null_or_not_there_as_in_earlier_versions() -> None:
    plain = replace(communities([0, 1]), evidence=None, bits_saved=None)
    message = encode_communities(plain)
    table = pa.ipc.open_stream(message.value).read_all()
    assert [column.null_count for column in table.columns] == [0, 0, 2, 2, 2, 2]
    assert not {"icd_evidence", "icd_bits_saved"} & dict(message.headers).keys()
    got = decode_communities(message.key, message.value, message.headers)
    assert (got.probabilities, got.second_ids, got.second_probabilities) == (None, None, None)
    assert (got.evidence, got.bits_saved) == (None, None)
    assert (got.community_ids, got.replaced) == (None, None)
    unknown, message = message, encode_communities(SURE)
    assert not {"icd_community_ids", "icd_replaced"} & dict(message.headers).keys()
    assert pa.ipc.open_stream(message.value).schema.equals(pa.ipc.open_stream(unknown.value).schema)
    table = pa.ipc.open_stream(message.value).read_all().select(["node", "community"])
    got = decode_communities(message.key, write_table(table), message.headers)
    assert got.ids_of_nodes is not None
    assert (got.ids_of_nodes.tolist(), got.probabilities) == ([7, 3, 3], None)


BAD_MEMBERSHIPS: dict[str, tuple[str, Any, str]] = {
    "another id": ("community_id", pa.array([7, 3, 4]), "community_id is not what"),
    "an id missing": ("community_id", pa.array([7, 3, None]), "community_id is not what"),
    "ids as text": ("community_id", pa.array(["7", "3", "3"]), "has type string; expected int64"),
    "more than 1": ("probability", pa.array([1, 1.5, 1], pa.float32()), "3 nodes need one of prob"),
    "one missing": ("probability", pa.array([1, None, 1], pa.float32()), "need one of prob"),
    "seconds alone": ("probability", pa.nulls(3, pa.float32()), "second_ids need probabilities"),
    "itself": ("second_id", pa.array([None, 3, 900]), "is another one than the node's"),
    "too high": ("second_id", pa.array([None, 7, 2**62]), "second_ids each, in -1"),
    "no second": ("second_id", pa.array([None, None, 900]), "not null in the same rows"),
    "none at all": ("second_id", pa.nulls(3, pa.int64()), "both, or neither"),
}


@pytest.mark.parametrize("name", BAD_MEMBERSHIPS)
def test_wrong_memberships_are_refused(name: str) -> None:
    column, values, reason = BAD_MEMBERSHIPS[name]
    message = encode_communities(SURE)
    table = pa.ipc.open_stream(message.value).read_all()
    table = table.set_column(table.column_names.index(column), column, values)
    with pytest.raises(BadCommunities, match=reason):
        decode_communities(message.key, write_table(table), message.headers)
    with pytest.raises(BadCommunities, match="second_ids need probabilities and community_ids"):
        replace(SURE, community_ids=None, replaced=None)


BAD_IDS: dict[str, tuple[dict[str, Any], str]] = {
    "no base64": ({"icd_community_ids": "???"}, "icd_community_ids is not base64 of int64"),
    "too few": ({"icd_community_ids": [4]}, "2 communities need one stable id each"),
    "the same twice": ({"icd_community_ids": [4, 4]}, "there are 1 different ones"),
    "below 0": ({"icd_community_ids": [4, -1]}, "different ones in -1..4"),
    "too high": ({"icd_community_ids": [4, 10**15 - 1]}, "in 0..999999999999998; there are"),
    "half a pair": ({"icd_replaced": [4]}, "icd_replaced is not base64 of pairs"),
    "into nothing known": ({"icd_replaced": [4, -2]}, "replaced needs ascending ids"),
    "ids alone": ({"icd_replaced": None}, "both, or neither"),
}


@pytest.mark.parametrize("name", BAD_IDS)
def test_wrong_stable_ids_are_refused(name: str) -> None:
    wrong, reason = BAD_IDS[name]
    message = encode_communities(communities([0, 1]))
    good: dict[str, Any] = {"icd_community_ids": [4, 5], "icd_replaced": []}
    metadata = {
        key: value
        if isinstance(value, str)
        else base64.b64encode(np.array(value, np.int64).tobytes()).decode()
        for key, value in (good | wrong).items()
        if value is not None
    }
    table = pa.ipc.open_stream(message.value).read_all().replace_schema_metadata(metadata)
    with pytest.raises(BadCommunities, match=reason):
        decode_communities(message.key, write_table(table), message.headers)


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("icd_evidence", "certain", "'certain'; expected one of none, weak, strong"),
        ("icd_bits_saved", "-0.5", "-0.5; expected a number from 0"),
        ("icd_horizon", "0.5", "0.5; expected a number from 1"),
        *[
            (name, text, f"'{text}'; expected a finite number")
            for name in ("icd_modularity", "icd_ms_encode", "icd_predicted_bits")
            for text in ("nan", "-Infinity", "1e999", "1_0", "١.٥", " 1")
        ],
    ],
)
def test_wrong_numbers_and_words_are_refused(name: str, text: str, reason: str) -> None:
    result = replace(communities([0, 1]), horizon=1.0, predicted_bits=-0.25)
    message = encode_communities(result)
    got = decode_communities(message.key, message.value, message.headers)
    assert (got.horizon, got.predicted_bits) == (1.0, -0.25)
    with pytest.raises(BadCommunities, match=f"{name} is {reason}"):
        decode_communities(message.key, message.value, with_header(message.headers, name, text))


def nodes(ids: object, labels: object = (0, 1, 1)) -> pa.Table:
    return pa.table({"node": ids, "community": pa.array(labels, pa.int32())})


TWICE = "a node is in the table more than once"
BAD_TABLES = {
    "int64 communities": (pa.table({"node": [1], "community": [0]}), "expected ids and int32"),
    "no rows": (nodes(pa.array([], pa.int64()), []), "0 rows"),
    "a null": (nodes([1], [None]), "nulls"),
    "a negative community": (nodes([1], [-1]), "run from -1"),
    "a node twice": (nodes([7, 3, 7]), TWICE),
    "a name twice": (nodes(["a", "b", "a"]), TWICE),
    "another K": (nodes([1, 2, 3], [0, 1, 2]), "icd_k says 2 communities; the table has 3"),
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_a_bad_table_says_why(name: str) -> None:
    table, reason = BAD_TABLES[name]
    message = encode_communities(communities([0, 1]))
    with pytest.raises(BadCommunities, match=reason):
        decode_communities(message.key, write_table(table), message.headers)
