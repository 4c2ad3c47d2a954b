"""The attributes of a node on the wire: what is read, and what is refused."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_icd.core.errors import BadAttributes, BadInput, LimitExceeded
from stream_icd.wire.attributes import (
    MOST_ATTRIBUTES,
    MOST_BYTES,
    NodeAttributes,
    decode_attributes,
    encode_attributes,
)

PLAIN = NodeAttributes("as733", "7018", {"country": "US"})
MESSAGE = encode_attributes(PLAIN, datetime(2000, 1, 2, tzinfo=UTC), "noc")


@given(
    graph=st.text(min_size=1, max_size=15),
    node=st.text(min_size=1, max_size=40),
    values=st.dictionaries(st.text(max_size=20), st.text(min_size=1, max_size=20), max_size=4),
)
def test_what_is_written_is_read(graph: str, node: str, values: dict[str, str]) -> None:
    with suppress(UnicodeEncodeError, LimitExceeded):  # lone surrogates; names that are too long
        attributes = NodeAttributes(graph, node, values)
        message = encode_attributes(attributes, datetime(2000, 1, 2, tzinfo=UTC), "noc")
        assert decode_attributes(message.key, message.value, message.headers) == attributes


def test_numbers_and_truth_values_are_texts_and_what_is_unknown_is_left_out() -> None:
    value = json.dumps({"tier": 1, "load": 0.5, "core": True, "owner": None, "city": ""}).encode()
    found = decode_attributes(MESSAGE.key, value, MESSAGE.headers)
    assert found.values == {"tier": "1", "load": "0.5", "core": "true"}


@pytest.mark.parametrize("key", [None, b"", b"as733", b"as733/", b"/7018", b"\xff/1", b"a/\xff"])
def test_a_key_that_names_no_node_of_a_graph_is_refused(key: bytes | None) -> None:
    for value in (MESSAGE.value, None):
        with pytest.raises(BadInput):
            decode_attributes(key, value, MESSAGE.headers)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"[]",
        b"7",
        b"{",
        b"\xff",
        b"[" * 60_000,
        b'{"a": [1]}',
        b'{"a": {}}',
        b'{"a": "\\ud800"}',
    ],
)
def test_other_values_are_refused(value: bytes) -> None:
    with pytest.raises(BadAttributes):
        decode_attributes(MESSAGE.key, value, MESSAGE.headers)


@pytest.mark.parametrize("left_out", ["ce_type", "content-type", "ce_specversion"])
def test_a_missing_header_is_named(left_out: str) -> None:
    headers = tuple(pair for pair in MESSAGE.headers if pair[0] != left_out)
    with pytest.raises(BadAttributes, match=left_out):
        decode_attributes(MESSAGE.key, MESSAGE.value, headers)


def test_what_is_too_large_is_neither_read_nor_written() -> None:
    many = {str(at): "x" for at in range(MOST_ATTRIBUTES + 1)}
    large = {"a": "x" * MOST_BYTES}
    for values in (many, large):
        with pytest.raises(LimitExceeded):
            decode_attributes(MESSAGE.key, json.dumps(values).encode(), MESSAGE.headers)
        with pytest.raises(LimitExceeded):
            encode_attributes(NodeAttributes("g", "n", values), datetime.now(UTC), "noc")
    with pytest.raises(LimitExceeded, match="key"):
        decode_attributes(b"g/" + b"n" * 2000, MESSAGE.value, MESSAGE.headers)


@given(st.binary(max_size=60), st.binary(max_size=200))
def test_any_bytes_are_refused_or_read(key: bytes, value: bytes) -> None:
    with suppress(BadInput):
        decode_attributes(key, value, MESSAGE.headers)
