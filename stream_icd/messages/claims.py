"""Claim check: bytes too big for a message go to a file store, and the message says where.

An object is named by its content, so a retry writes the same one again (and makes it as young as
its message, for whoever expires old ones). It is whole and safe before its message is sent: a
crash in between leaves an object that nobody asks for. Nothing here deletes one.

A message from outside must not make us open whatever it names: only objects below our own place
are read, and only where size and digest are as it says.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from stream_icd.errors import (
    BadClaim,
    ClaimedObjectAltered,
    ClaimedObjectMissing,
    ClaimRefused,
    LimitExceeded,
)
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.messages.claim_settings import ClaimSettings
from stream_icd.wire.claim import Claim, claim_on, read_claim, sha256, without_claim
from stream_icd.wire.limits import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from stream_icd.store import Store

SETTING = "STREAM_ICD_CLAIMS_URI"

# No `..`, nothing hidden, nothing that a file system would choke on.
_STEP = r"[A-Za-z0-9][A-Za-z0-9._=-]{0,254}"
_PATH = re.compile(rf"(?=.{{1,512}}$){_STEP}(/{_STEP})*", re.ASCII)


def redeem(record: Record, claims: ClaimSettings, limits: Limits = DEFAULT_LIMITS) -> Record:
    """The record as if its message held its bytes itself; most do, and are given back as they are.

    Raises:
        BadClaim: it never can be: the claim is malformed, or refused; the object is missing, or
            another one. The message names it.
        LimitExceeded: the object is above `limits`; nothing of it was read.
        StoreUnreachable: the file system does not answer; try again.
    """
    claim = read_claim(record.headers)
    if claim is None:
        return record
    if record.value:
        raise BadClaim(
            f"the message has both a value of {len(record.value)} bytes and a claim "
            f"on {claim.uri!r:.200}"
        )
    if claim.n_bytes > limits.decoded_bytes:
        raise LimitExceeded(
            f"the claimed object {claim.uri!r:.200} has {claim.n_bytes} bytes; the limit is "
            f"{limits.decoded_bytes}"
        )
    path = _path(claim, claims)
    value = _fetch(claim, path, _opened(claims))
    return replace(record, value=value, headers=without_claim(record.headers))


def as_claim(record: OutgoingRecord, claims: ClaimSettings) -> OutgoingRecord:
    """Keep a record's bytes in the store, and give the record that claims them.

    Raises:
        StoreUnreachable, StoreUnwritable: they could not be kept; try again.
    """
    import pyarrow as pa

    value = record.value or b""
    path = f"topic={record.topic}/{sha256(value)}.arrows"
    _opened(claims).put(path, pa.py_buffer(value))
    claim = claim_on(f"{claims.place}/{path}", value)
    return replace(record, value=b"", headers=(*record.headers, *claim.headers()))


def _path(claim: Claim, claims: ClaimSettings) -> str:
    """Where in our store the object is.

    Raises:
        ClaimRefused: not there.
    """
    if claims.place is None:
        raise ClaimRefused(
            f"the message claims {claim.uri!r:.200}, but {SETTING} is not set here: set it to "
            "the value that the sender uses"
        )
    place, path = f"{claims.place}/", claim.uri.removeprefix(f"{claims.place}/")
    if not claim.uri.startswith(place) or not _PATH.fullmatch(path):
        raise ClaimRefused(
            f"the message claims {claim.uri!r:.200}; only plain names below {place} ({SETTING}) "
            "are read"
        )
    return path


def _fetch(claim: Claim, path: str, store: Store) -> bytes:
    try:
        value = store.read(path, claim.n_bytes)
    except FileNotFoundError as error:
        raise ClaimedObjectMissing(
            f"there is no object {claim.uri}: it expired, or was never written"
        ) from error
    if value is None or sha256(value) != claim.sha256:
        raise ClaimedObjectAltered(
            f"{claim.uri} does not have the size and SHA-256 of the message ({claim.n_bytes} "
            f"bytes, {claim.sha256})"
        )
    return value


@lru_cache(maxsize=8)
def _opened(claims: ClaimSettings) -> Store:
    from stream_icd.store import open_store

    assert claims.uri is not None, "looked at before"
    return open_store(claims.uri)
