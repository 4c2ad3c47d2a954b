"""Claim check: stores values too large for a message; the message names the stored object.

An object is named by its content, so a retry writes the same object again (which also renews its
modification time, for expiry rules). It is complete and durable before its message is sent: a crash
in between leaves an unreferenced object. Objects are never deleted here.

A received message must not cause arbitrary files to be opened: only objects below the configured
location are read, and only if size and digest match the claim.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from stream_icd.errors import (
    BadClaim,
    BrokerUnavailable,
    ClaimedObjectAltered,
    ClaimedObjectMissing,
    ClaimRefused,
    LimitExceeded,
    RecordTooLarge,
)
from stream_icd.kafka.publisher import fits, record_limit, too_large
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.messages.claim_settings import ClaimSettings
from stream_icd.wire.claim import Claim, claim_on, read_claim, sha256, without_claim
from stream_icd.wire.limits import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from stream_icd.store.store import Store


SETTING = "STREAM_ICD_CLAIMS_URI"

# No `..`, no hidden files, no characters that a file system rejects.
_STEP = r"[A-Za-z0-9][A-Za-z0-9._=-]{0,254}"
_PATH = re.compile(rf"(?=.{{1,512}}$){_STEP}(/{_STEP})*", re.ASCII)


def redeem(record: Record, claims: ClaimSettings, limits: Limits = DEFAULT_LIMITS) -> Record:
    """Return the record with its claimed value; a record without a claim is returned unchanged.

    Raises:
        BadClaim: permanent: the claim is malformed or refused; the object is missing, or has other
            content. The message names it.
        LimitExceeded: the object is larger than `limits`; nothing of it was read.
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
    """Store a record's value, and return the record that claims it.

    Raises:
        StoreUnreachable, StoreUnwritable: the value could not be stored; try again.
    """
    import pyarrow as pa

    value = record.value or b""
    path = f"topic={record.topic}/{sha256(value)}.arrows"
    _opened(claims).put(path, pa.py_buffer(value))
    claim = claim_on(f"{claims.place}/{path}", value)
    return replace(record, value=b"", headers=(*record.headers, *claim.headers()))


def _path(claim: Claim, claims: ClaimSettings) -> str:
    """Return the object's path in the claim store.

    Raises:
        ClaimRefused: the object is not in the claim store.
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
    from stream_icd.store.store import open_store

    assert claims.uri is not None, "looked at before"
    return open_store(claims.uri)


class ClaimCheck:
    """Makes records fit their topics: stores a value too large for a message, and claims it.

    Args:
        pause: waits before the topic's limit is requested again while the broker is unavailable;
            None: do not wait for the broker.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        claims: ClaimSettings | None = None,
        pause: Callable[[], object] | None = None,
    ) -> None:
        self._settings = settings
        self._claims = claims or ClaimSettings()
        self._pause = pause
        self._limits: dict[str, int] = {}

    def __call__(self, record: OutgoingRecord) -> OutgoingRecord:
        """Return the record, or one that claims its value, which is durable by then.

        Raises:
            RecordTooLarge: there is no claim store, or the headers alone are too large.
            StoreUnreachable, StoreUnwritable: the value could not be stored; try again.
            TopicMissing: its topic does not exist.
            BrokerUnavailable: no broker answers, and `pause` is None.
        """
        limit = self._limit(record.topic)
        if fits(record, limit):
            return record
        if self._claims.uri is not None and record.value:
            claimed = as_claim(record, self._claims)
            if fits(claimed, limit):
                return claimed
        raise too_large(record, limit)

    def room(self, topic: str) -> float:
        """Return the maximum size of a record for a topic; infinite if values can be claimed.

        Raises:
            As `__call__`.
        """
        return self._limit(topic) if self._claims.uri is None else math.inf

    def learn(self, refused: RecordTooLarge) -> None:
        """Claim values of all records that are as large as one that the broker refused.

        The topic's limit is requested again, since it may be lower now. Some brokers do not report
        the limit; they only refuse records.

        Raises:
            TopicMissing, BrokerUnavailable: see these classes.
        """
        limit = record_limit(self._settings, refused.topic)
        self._limits[refused.topic] = min(limit, refused.size - 1)

    def _limit(self, topic: str) -> int:
        while topic not in self._limits:
            try:
                self._limits[topic] = record_limit(self._settings, topic)
            except BrokerUnavailable:
                if self._pause is None:
                    raise
                self._pause()
        return self._limits[topic]
