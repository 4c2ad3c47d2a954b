"""The known community of a node on the wire: what is read, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_icd.core.errors import BadInput, BadKnown, LimitExceeded
from stream_icd.wire.known import MOST_LABEL_BYTES, KnownNode, decode_known, encode_known

AT = datetime(2026, 1, 2, tzinfo=UTC)
PLAIN = KnownNode("as733", "7018", "east")
MESSAGE = encode_known(PLAIN, AT, "noc")

names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=50)


@given(graph=names, node=names, community=names)
def test_what_is_encoded_is_read(graph: str, node: str, community: str) -> None:
    try:
        known = KnownNode(graph, node, community)
        message = encode_known(known, AT, "noc")
        assert decode_known(message.key, message.value, message.headers) == known
    except BadInput:  # no name of a graph
        assert not graph.isalnum()


def test_a_number_is_its_text_and_no_value_takes_it_back() -> None:
    read = decode_known(MESSAGE.key, b'{"community": 7, "more": []}', MESSAGE.headers)
    assert read.community == "7"
    assert decode_known(MESSAGE.key, None, ()) == KnownNode("as733", "7018", None)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"as733", MESSAGE.value),
        (b"/7", MESSAGE.value),
        (None, MESSAGE.value),
        (MESSAGE.key, b""),
        (MESSAGE.key, b"[]"),
        (MESSAGE.key, b"{}"),
        (MESSAGE.key, b'{"community": ""}'),
        (MESSAGE.key, b'{"community": true}'),
        (MESSAGE.key, b'{"community": 1.5}'),
        (MESSAGE.key, b'{"community": "%s"}' % (b"x" * (MOST_LABEL_BYTES + 1))),
        (MESSAGE.key, b'"%s"' % (b"x" * (1 << 17))),
    ],
)
def test_what_breaks_the_contract_is_refused(key: bytes | None, value: bytes) -> None:
    with pytest.raises(BadKnown):
        decode_known(key, value, MESSAGE.headers)


def test_a_long_key_and_other_headers_are_refused() -> None:
    with pytest.raises(LimitExceeded):
        decode_known(b"g" * 2000 + b"/7", MESSAGE.value, MESSAGE.headers)
    for left_out, _ in MESSAGE.headers[:2]:
        headers = tuple(pair for pair in MESSAGE.headers if pair[0] != left_out)
        with pytest.raises(BadKnown, match=left_out):
            decode_known(MESSAGE.key, MESSAGE.value, headers)
