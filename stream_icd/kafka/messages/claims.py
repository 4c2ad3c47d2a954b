"""Claim check: stores values too large for a message; the message names the stored object.

An object is named by its content, so a retry writes the same object again (which also renews its
modification time, for expiry rules). It is durable before its message is sent: a crash in between
leaves an unreferenced object. Objects are never deleted here. docs/wire.md describes the headers.

A received message must not cause arbitrary files to be opened: only objects below the configured
location are read, and only if size and digest match the claim.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeVar

from pydantic import Field, field_validator
from pydantic_settings import SettingsConfigDict

from stream_icd.core.errors import (
    BadClaim,
    BrokerUnavailable,
    ClaimedObjectAltered,
    ClaimedObjectMissing,
    ClaimRefused,
    LimitExceeded,
    RecordTooLarge,
)
from stream_icd.core.headers import Headers
from stream_icd.core.printable import place_of
from stream_icd.core.settings import ENV_PREFIX, Place, Settings
from stream_icd.kafka.publisher import record_limit, size_as_sent, too_large
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.wire.limits import Limits

if TYPE_CHECKING:
    from stream_icd.core.store.store import Store

Content = TypeVar("Content")
Decode = Callable[[bytes | None, bytes | None, Headers, Limits], Content]

_SETTING = "STREAM_ICD_CLAIMS_URI"

URI, BYTES, SHA256 = NAMES = "icd_claim_uri", "icd_claim_bytes", "icd_claim_sha256"

_FORMS = {
    URI: (re.compile(".+", re.DOTALL), "a URI"),
    BYTES: (re.compile("0*[1-9][0-9]{0,14}"), "a whole number above 0"),
    SHA256: (re.compile("[0-9a-f]{64}"), "64 hexadecimal digits"),
}

# No `..`, no hidden files, no characters that a file system rejects.
_STEP = r"[A-Za-z0-9][A-Za-z0-9._=-]{0,254}"
_PATH = re.compile(rf"(?=.{{1,512}}$){_STEP}(/{_STEP})*", re.ASCII)


class ClaimSettings(Settings):
    """The location where large values are written, and from which they are read.

    Set with `STREAM_ICD_CLAIMS_URI`, or `uri` in the `[claims]` table of the TOML file. It never
    holds a password: object stores have their own settings for that, such as AWS_ACCESS_KEY_ID.

    >>> ClaimSettings(uri="s3://bucket/claims/?region=eu-central-1").place
    's3://bucket/claims'
    >>> ClaimSettings(uri="/var/lib/claims").place
    'file:///var/lib/claims'
    """

    model_config = SettingsConfigDict(env_prefix=f"{ENV_PREFIX}CLAIMS_")

    table: ClassVar[str] = "claims"

    uri: Place | None = Field(
        default=None, description="a folder, or a URI that pyarrow.fs knows; None: nowhere"
    )

    @field_validator("uri")
    @classmethod
    def _as_uri(cls, value: str | None) -> str | None:
        if value is None or "://" in value:
            return value
        return Path(value).expanduser().absolute().as_uri()

    @property
    def place(self) -> str | None:
        """The URI as shown in messages and logs."""
        return None if self.uri is None else place_of(self.uri)


@dataclass(frozen=True, slots=True)
class Claim:
    """Where the bytes of a message are, their number, and their SHA-256 in hexadecimal digits."""

    uri: str
    n_bytes: int
    sha256: str

    def headers(self) -> Headers:
        """The headers to add to a message whose value is empty because of this claim."""
        texts = self.uri, str(self.n_bytes), self.sha256
        return tuple((name, text.encode()) for name, text in zip(NAMES, texts, strict=True))


def read_claim(headers: Headers) -> Claim | None:
    """Return the claim in a message's headers, or None if the message holds its own bytes; BadClaim
    if a header of the claim is missing, repeated or malformed."""
    names = Counter(name for name, _ in headers if name in NAMES)
    if not names:
        return None
    for name, count in names.items():
        if count > 1:
            raise BadClaim(f"header {name} is given {count} times; send it once")
    values, texts = dict(headers), dict[str, str]()
    for name, (form, expected) in _FORMS.items():
        with suppress(UnicodeDecodeError):
            texts[name] = values.get(name, b"").decode()
        if not form.fullmatch(texts.get(name, "")):
            said = f"{values[name]!r:.80}" if name in values else "missing"
            raise BadClaim(f"header {name} is {said}; expected {expected} as UTF-8 text")
    return Claim(texts[URI], int(texts[BYTES]), texts[SHA256])


def without_claim(headers: Headers) -> Headers:
    """Return the headers without those of the claim."""
    return tuple((name, value) for name, value in headers if name not in NAMES)


@dataclass(frozen=True, slots=True)
class MessageReader:
    """Reads messages of other programs, including claimed values, within size limits.

    Settings come from the environment by default.
    """

    claims: ClaimSettings = field(default_factory=ClaimSettings)
    limits: Limits = field(default_factory=Limits)

    def decoded(self, record: Record, decode: Decode[Content]) -> Content:
        """Decode a record's value, or the value that it claims; raises as `whole` and `decode`."""
        whole = self.whole(record)
        return decode(whole.key, whole.value, whole.headers, self.limits)

    def whole(self, record: Record) -> Record:
        """Return the record with its claimed value; a record without a claim as it is.

        Raises:
            BadClaim: permanent: the claim is malformed or refused; the object is missing, or has
                other content. The message names it.
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
        if claim.n_bytes > self.limits.decoded_bytes:
            raise LimitExceeded(
                f"the claimed object {claim.uri!r:.200} has {claim.n_bytes} bytes; the limit is "
                f"{self.limits.decoded_bytes}"
            )
        path = _path(claim, self.claims)
        value = _fetch(claim, path, _opened(self.claims))
        return replace(record, value=value, headers=without_claim(record.headers))


def _path(claim: Claim, claims: ClaimSettings) -> str:
    """Return the object's path in the claim store, or raise ClaimRefused if it is elsewhere."""
    if claims.place is None:
        raise ClaimRefused(
            f"the message claims {claim.uri!r:.200}, but {_SETTING} is not set here: set it to "
            "the value that the sender uses"
        )
    place, path = f"{claims.place}/", claim.uri.removeprefix(f"{claims.place}/")
    if not claim.uri.startswith(place) or not _PATH.fullmatch(path):
        raise ClaimRefused(
            f"the message claims {claim.uri!r:.200}; only plain names below {place} ({_SETTING}) "
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
    if value is None or hashlib.sha256(value).hexdigest() != claim.sha256:
        raise ClaimedObjectAltered(
            f"{claim.uri} does not have the size and SHA-256 of the message ({claim.n_bytes} "
            f"bytes, {claim.sha256})"
        )
    return value


@lru_cache(maxsize=8)
def _opened(claims: ClaimSettings) -> Store:
    from stream_icd.core.store.store import open_store

    assert claims.uri is not None, "looked at before"
    return open_store(claims.uri)


def as_claim(record: OutgoingRecord, claims: ClaimSettings) -> OutgoingRecord:
    """Store a record's value, and return the record that claims it; raises as `ClaimCheck`."""
    import pyarrow as pa

    value = record.value or b""
    digest = hashlib.sha256(value).hexdigest()
    path = f"topic={record.topic}/{digest}.arrows"
    _opened(claims).put(path, pa.py_buffer(value))
    claim = Claim(f"{claims.place}/{path}", len(value), digest)
    return replace(record, value=b"", headers=(*record.headers, *claim.headers()))


@dataclass(slots=True)
class ClaimCheck:
    """Makes records fit their topics: stores a value too large for a message, and claims it.

    Attributes:
        pause: waits before the topic's limit is requested again while the broker is unavailable;
            None: raise `BrokerUnavailable`.
    """

    settings: KafkaSettings
    claims: ClaimSettings = field(default_factory=ClaimSettings)
    pause: Callable[[], object] | None = None
    _limits: dict[str, int] = field(default_factory=dict)

    def __call__(self, record: OutgoingRecord) -> OutgoingRecord:
        """Return the record, or one that claims its value, which is durable by then.

        Raises:
            RecordTooLarge: there is no claim store, or the headers alone are too large.
            StoreUnreachable, StoreUnwritable: the value could not be stored; try again.
            TopicMissing: its topic does not exist.
            BrokerUnavailable: no broker answers, and `pause` is None.
        """
        limit = self._limit(record.topic)
        if size_as_sent(record) <= limit:
            return record
        if self.claims.uri is not None and record.value:
            claimed = as_claim(record, self.claims)
            if size_as_sent(claimed) <= limit:
                return claimed
            raise too_large(claimed, limit, is_claim=True)
        raise too_large(record, limit)

    def room(self, topic: str) -> float:
        """Return the maximum size of a record for a topic; infinite if values can be claimed."""
        return self._limit(topic) if self.claims.uri is None else math.inf

    def learn(self, refused: RecordTooLarge) -> None:
        """Claim values of all records that are as large as one that the broker refused.

        The topic's limit may be lower now, so it is requested again; some brokers do not report it.
        """
        limit = record_limit(self.settings, refused.topic)
        self._limits[refused.topic] = min(limit, refused.size - 1)

    def _limit(self, topic: str) -> int:
        while topic not in self._limits:
            try:
                self._limits[topic] = record_limit(self.settings, topic)
            except BrokerUnavailable:
                if self.pause is None:
                    raise
                self.pause()
        return self._limits[topic]
