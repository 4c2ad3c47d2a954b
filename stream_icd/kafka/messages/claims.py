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
from stream_icd.kafka.publisher import SizeLimits
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.wire.limits import Limits

if TYPE_CHECKING:
    from stream_icd.core.store.store import Store

Content = TypeVar("Content")
Decode = Callable[[bytes | None, bytes | None, Headers, Limits], Content]

_SETTING = "STREAM_ICD_CLAIMS_URI"

_URI, _BYTES, _SHA256 = "icd_claim_uri", "icd_claim_bytes", "icd_claim_sha256"

_FORMS = {
    _URI: (re.compile(".+", re.DOTALL), "a URI"),
    _BYTES: (re.compile("0*[1-9][0-9]{0,14}"), "a whole number above 0"),
    _SHA256: (re.compile("[0-9a-f]{64}"), "64 hexadecimal digits"),
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

    NAMES: ClassVar[tuple[str, str, str]] = (_URI, _BYTES, _SHA256)
    """The headers of a claim."""

    def headers(self) -> Headers:
        """The headers to add to a message whose value is empty because of this claim."""
        texts = self.uri, str(self.n_bytes), self.sha256
        return tuple((name, text.encode()) for name, text in zip(self.NAMES, texts, strict=True))

    @classmethod
    def among(cls, headers: Headers) -> Claim | None:
        """The claim in a message's headers, or None if the message holds its own bytes; BadClaim if
        a header of the claim is missing, repeated or malformed."""
        names = Counter(name for name, _ in headers if name in cls.NAMES)
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
                value = f"{values[name]!r:.80}" if name in values else "missing"
                raise BadClaim(f"header {name} is {value}; expected {expected} as UTF-8 text")
        return cls(texts[_URI], int(texts[_BYTES]), texts[_SHA256])

    @classmethod
    def left_out(cls, headers: Headers) -> Headers:
        """The headers without those of a claim."""
        return tuple((name, value) for name, value in headers if name not in cls.NAMES)


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

    def size_of(self, record: Record) -> int:
        """Return the size of a record's content; a claim counts up to the limit for reading."""
        try:
            claim = Claim.among(record.headers)
        except BadClaim:  # decoding refuses it
            claim = None
        if claim is not None:
            return min(claim.n_bytes, self.limits.decoded_bytes)
        return len(record.value or b"")

    def whole(self, record: Record) -> Record:
        """Return the record with its claimed value; a record without a claim as it is.

        Raises:
            BadClaim: permanent: the claim is malformed or refused; the object is missing, or has
                other content. The message names it.
            LimitExceeded: the object is larger than `limits`; nothing of it was read.
            StoreUnreachable: the file system does not answer; try again.
        """
        claim = Claim.among(record.headers)
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
        # First: nothing outside of our own store is even looked for.
        path = _path(claim, self.claims)
        value = _fetch(claim, path, _opened(self.claims))
        return replace(record, value=value, headers=Claim.left_out(record.headers))


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
    _limits: SizeLimits = field(init=False)

    def __post_init__(self) -> None:
        self._limits = SizeLimits(self.settings)

    def __call__(self, record: OutgoingRecord) -> OutgoingRecord:
        """Return the record, or one that claims its value, which is durable by then.

        Raises:
            RecordTooLarge: there is no claim store, or the headers alone are too large.
            StoreUnreachable, StoreUnwritable: the value could not be stored; try again.
            TopicMissing: its topic does not exist.
            BrokerUnavailable: no broker answers, and `pause` is None.
        """
        if record.size_as_sent <= self._limit(record.topic):
            return record
        is_claim = self.claims.uri is not None and bool(record.value)
        fitting = self.claimed(record) if is_claim else record
        self._limits.check(fitting, is_claim=is_claim)
        return fitting

    def claimed(self, record: OutgoingRecord) -> OutgoingRecord:
        """Store a record's value, whatever its size, and return the record that claims it."""
        import pyarrow as pa

        value = record.value or b""
        digest = hashlib.sha256(value).hexdigest()
        path = f"topic={record.topic}/{digest}.arrows"
        # Before the message: one whose object is missing becomes a dead letter.
        _opened(self.claims).put(path, pa.py_buffer(value))
        claim = Claim(f"{self.claims.place}/{path}", len(value), digest)
        return replace(record, value=b"", headers=(*record.headers, *claim.headers()))

    def room(self, topic: str) -> float:
        """Return the maximum size of a record for a topic; infinite if values can be claimed."""
        return self._limit(topic) if self.claims.uri is None else math.inf

    def learn(self, refused: RecordTooLarge) -> None:
        """Claim values of all records that are as large as one that the broker refused."""
        self._limits.learn(refused)

    def _limit(self, topic: str) -> int:
        while True:
            try:
                return self._limits.of(topic)
            except BrokerUnavailable:
                if self.pause is None:
                    raise
                self.pause()
