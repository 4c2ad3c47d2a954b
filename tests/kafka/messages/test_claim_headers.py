"""A claim survives the wire, and a broken one is named."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_icd.core.errors import BadClaim
from stream_icd.core.headers import Headers
from stream_icd.kafka.messages.claims import Claim

URI, BYTES, SHA256 = NAMES = Claim.NAMES
OTHERS: Headers = (("ce_id", b"g/1"), ("icd_k", b"3"), ("traceparent", b"\xff"))
CLAIM = Claim("s3://bucket/x.arrows", 5, sha256(b"bytes").hexdigest())


@given(st.text(min_size=1), st.binary(min_size=1), st.integers(0, len(OTHERS)))
def test_a_claim_is_read_as_it_was_made_whatever_stands_around_it(
    uri: str, value: bytes, at: int
) -> None:
    try:
        uri.encode()
    except UnicodeEncodeError:
        return
    claim = Claim(uri, len(value), sha256(value).hexdigest())
    headers = (*OTHERS[:at], *reversed(claim.headers()), *OTHERS[at:])
    assert Claim.among(headers) == claim
    assert Claim.left_out(headers) == OTHERS


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (URI, b""),
        (URI, b"s3://\xff"),
        (BYTES, b"0"),
        (BYTES, b"-5"),
        (BYTES, b"1e3"),
        (BYTES, b"9" * 5000),
        (BYTES, "٣".encode()),
        (SHA256, b"ab" * 31),
        (SHA256, b"AB" * 32),
        (SHA256, b"ab" * 32 + b"\n"),
    ],
)
def test_what_is_no_claim_is_named(name: str, value: bytes) -> None:
    headers = tuple((own, value if own == name else text) for own, text in CLAIM.headers())
    with pytest.raises(BadClaim, match=name) as raised:
        Claim.among(headers)
    assert len(str(raised.value)) < 200


def test_a_claim_is_whole_and_given_once_or_there_is_none() -> None:
    assert Claim.among(OTHERS) is None
    for missing in NAMES:
        headers = tuple(header for header in CLAIM.headers() if header[0] != missing)
        with pytest.raises(BadClaim, match=missing):
            Claim.among(headers)
    with pytest.raises(BadClaim, match="icd_claim_uri is given 2 times; send it once"):
        Claim.among((*CLAIM.headers(), CLAIM.headers()[0]))


@given(st.lists(st.tuples(st.sampled_from([*NAMES, "ce_id"]), st.binary(max_size=70))))
def test_any_headers_give_a_claim_or_none_or_are_refused(headers: list[tuple[str, bytes]]) -> None:
    try:
        claim = Claim.among(tuple(headers))
    except BadClaim:
        return
    assert claim is None or isinstance(claim, Claim)
