"""Communities and labels survive the wire, and broken ones are named."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_icd.core.communities import MOST_IDS, Communities, Labels
from stream_icd.core.errors import BadCommunities
from stream_icd.core.headers import Headers
from stream_icd.wire.arrow_stream import write_table
from stream_icd.wire.communities import (
    decode_communities,
    decode_labels,
    encode_communities,
    encode_labels,
)
from stream_icd.wire.message import Message
from tests.testbed.windows import window
from tests.wire.samples import DAY, decoded, with_header


def communities(labels: list[int], nodes: pa.Array | None = None) -> Communities:
    spent = {"decode": 1.0, "features": 0.5, "encode": 2.25, "cluster": 3.0}
    return replace(window(0, labels, nodes), milliseconds=spent, evidence="weak", bits_saved=0.125)


@given(st.data())
def test_what_is_found_is_what_is_read(data: st.DataObject) -> None:
    k = data.draw(st.integers(1, 12))
    labels = [*range(k), *data.draw(st.lists(st.integers(0, k - 1), max_size=9))]
    names = pa.array([f"AS{i}" for i in range(len(labels))][::-1])  # in any order
    ids = data.draw(st.lists(st.integers(0, MOST_IDS - 1), min_size=k, max_size=k, unique=True))
    ended = sorted(data.draw(st.sets(st.integers(0, 2**63 - 1), max_size=5)))
    merged_into = [data.draw(st.integers(-1, 2**63 - 1)) for _ in ended]
    replaced = np.array([ended, merged_into], np.int64).T.reshape(-1, 2)
    sent = replace(
        communities(labels, data.draw(st.sampled_from([None, names]))),
        community_ids=np.array(ids, np.int64),
        replaced=replaced,
    )
    message = encode_communities(sent)
    got = decoded(message, decode_communities)
    assert got.nodes.equals(sent.nodes)
    assert got.labels.tolist() == labels
    assert got.ids_of_nodes.tolist() == [ids[label] for label in labels]
    assert got.replaced.tolist() == replaced.tolist()
    for name in ("window", "milliseconds", "detected_at", "n_communities", "bits_saved"):
        assert getattr(got, name) == getattr(sent, name)
    assert encode_communities(got) == message


def test_labels_are_read_as_labels_only() -> None:
    sent = Labels("as733", "as733/1", DAY, pa.array(["b", "a"]), np.array([1, 0]), "urn:lfr")
    message = encode_labels(sent)
    got = decoded(message, decode_labels)
    for name in ("graph", "snapshot_id", "window", "source"):
        assert getattr(got, name) == getattr(sent, name)
    assert (got.nodes.to_pylist(), got.labels.tolist()) == (["b", "a"], [1, 0])
    with pytest.raises(BadCommunities, match="ce_type is .stream_icd"):
        decoded(message, decode_communities)


def test_values_that_no_message_may_hold_are_refused() -> None:
    ids, integers = pa.array([1, 2]), "labels must be a NumPy array of integers"
    for nodes, labels, reason in (
        ([1, 2], np.zeros(2, np.int32), "nodes are a list; give pyarrow.array"),
        (ids, [0, 1], integers),
        (ids, np.array([0.5, 1]), integers),
    ):
        with pytest.raises(BadCommunities, match=reason):
            Labels("as733", "as733/1999-04-02", DAY, nodes, labels)  # type: ignore[arg-type]
    pairs = np.array([[0, 1], [2, 1]])
    for bits in (np.nan, -1e308):  # which may add up to infinity
        with pytest.raises(BadCommunities, match="bits between"):
            replace(communities([0, 1]), moved=pairs, moved_bits=np.array([bits, bits]))
    assert replace(communities([0, 1]), moved=pairs, moved_bits=np.array([-3.5, 1e90]))
    with pytest.raises(BadCommunities, match="second_ids need probabilities and community_ids"):
        replace(SURE, community_ids=None, replaced=None)


SURE = replace(
    communities([0, 1, 1]),
    community_ids=np.array([7, 3]),
    replaced=np.empty((0, 2), np.int64),
    probabilities=np.array([1, 0.5, 0.75], np.float32),
    second_ids=np.array([-1, 7, 900]),
    second_probabilities=np.array([0, 0.5, 0.25], np.float32),
    horizon=1.0,
    predicted_bits=-0.25,
)
SENT = encode_communities(SURE)


def table_of(message: Message) -> pa.Table:
    return pa.ipc.open_stream(message.value).read_all()


def test_ids_and_probabilities_are_columns_that_any_reader_of_arrow_sees() -> None:
    assert table_of(SENT).to_pydict() == {
        "node": [0, 1, 2],
        "community": [0, 1, 1],
        "community_id": [7, 3, 3],
        "probability": [1, 0.5, 0.75],
        "second_id": [None, 7, 900],
        "second_probability": [None, 0.5, 0.25],
    }
    got = decoded(SENT, decode_communities)
    for name in ("probabilities", "second_ids", "second_probabilities"):
        assert getattr(got, name).tolist() == getattr(SURE, name).tolist()
    assert (got.horizon, got.predicted_bits) == (1.0, -0.25)
    assert encode_communities(got) == SENT


def test_what_is_not_known_is_null_or_not_there_as_in_earlier_versions() -> None:
    plain = encode_communities(replace(communities([0, 1]), evidence=None, bits_saved=None))
    optional = ("evidence", "bits_saved", "community_ids", "replaced")
    assert not {f"icd_{name}" for name in optional} & dict(plain.headers).keys()
    assert [column.null_count for column in table_of(plain).columns] == [0, 0, 2, 2, 2, 2]
    got = decoded(plain, decode_communities)
    for name in (*optional, "probabilities", "second_ids", "second_probabilities"):
        assert getattr(got, name) is None
    assert table_of(SENT).schema.equals(table_of(plain).schema)
    value = write_table(table_of(SENT).select(["node", "community"]))
    got = decoded(SENT, decode_communities, value=value)
    assert (got.ids_of_nodes.tolist(), got.probabilities) == ([7, 3, 3], None)


def column(name: str, values: pa.Array) -> dict[str, bytes]:
    table = table_of(SENT)
    return {"value": write_table(table.set_column(table.column_names.index(name), name, values))}


def metadata(name: str, value: list[int] | str | None) -> dict[str, bytes]:
    entries: dict[Any, Any] = table_of(SENT).schema.metadata | {name.encode(): value}
    if isinstance(value, list):
        entries[name.encode()] = base64.b64encode(np.array(value, np.int64))
    elif value is None:
        del entries[name.encode()]
    return {"value": write_table(table_of(SENT).replace_schema_metadata(entries))}


def header(name: str, text: str) -> dict[str, Headers]:
    return {"headers": with_header(SENT.headers, name, text)}


def nodes(ids: object, labels: object = (0, 1, 1), kind: object = "int32") -> dict[str, bytes]:
    return {"value": write_table(pa.table({"node": ids, "community": pa.array(labels, kind)}))}


NUMBERS = ("icd_modularity", "icd_ms_encode", "icd_predicted_bits")
NO_NUMBERS = ("nan", "-Infinity", "1e999", "1_0", "١.٥", " 1")
TWICE = "a node is in the table more than once"


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (column("community_id", pa.array([7, 3, 4])), "community_id is not what"),
        (column("community_id", pa.array([7, 3, None])), "community_id is not what"),
        (column("community_id", pa.array(["7", "3", "3"])), "has type string; expected int64"),
        (column("probability", pa.array([1, 1.5, 1], pa.float32())), "3 nodes need one of prob"),
        (column("probability", pa.array([1, None, 1], pa.float32())), "need one of prob"),
        (column("probability", pa.nulls(3, pa.float32())), "second_ids need probabilities"),
        (column("second_id", pa.array([None, 3, 900])), "is another one than the node's"),
        (column("second_id", pa.array([None, 7, 2**62])), "second_ids each, in -1"),
        (column("second_id", pa.array([None, None, 900])), "not null in the same rows"),
        (column("second_id", pa.nulls(3, pa.int64())), "both, or neither"),
        (metadata("icd_community_ids", "???"), "icd_community_ids is not base64 of int64"),
        (metadata("icd_community_ids", [4]), "2 communities need one stable id each"),
        (metadata("icd_community_ids", [4, 4]), "there are 1 different ones"),
        (metadata("icd_community_ids", [4, -1]), "different ones in -1..4"),
        (metadata("icd_community_ids", [4, 10**15 - 1]), "in 0..999999999999998; there are"),
        (metadata("icd_replaced", [4]), "icd_replaced is not base64 of pairs"),
        (metadata("icd_replaced", [4, -2]), "replaced needs ascending ids"),
        (metadata("icd_replaced", None), "both, or neither"),
        (header("icd_evidence", "certain"), "evidence is 'certain'; expected one of none, weak"),
        (header("icd_bits_saved", "-0.5"), "icd_bits_saved is -0.5; expected a number from 0"),
        (header("icd_horizon", "0.5"), "icd_horizon is 0.5; expected a number from 1"),
        *(
            (header(name, text), f"{name} is '.*'; expected a finite number")
            for name in NUMBERS
            for text in NO_NUMBERS
        ),
        (nodes([1], [0], "int64"), "expected ids and int32"),
        (nodes(pa.array([], pa.int64()), []), "0 rows"),
        (nodes([1], [None]), "nulls"),
        (nodes([1], [-1]), "run from -1"),
        (nodes([7, 3, 7]), TWICE),
        (nodes(["a", "b", "a"]), TWICE),
        (nodes([1, 2, 3], [0, 1, 2]), "icd_k says 2 communities; the table has 3"),
    ],
)
def test_a_broken_message_says_why(changed: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadCommunities, match=reason):
        decoded(SENT, decode_communities, **changed)
