"""Claim checks: messages that refer to their bytes instead of holding them (docs/wire.md)."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from stream_icd.errors import BadClaim
from stream_icd.wire.message import Headers

URI, BYTES, SHA256 = NAMES = "icd_claim_uri", "icd_claim_bytes", "icd_claim_sha256"

_COUNT = re.compile(r"0*[1-9][0-9]{0,14}", re.ASCII)
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Claim:
    """Where the bytes of a message are, and how to verify them.

    Attributes:
        uri: URI of the object that holds the bytes.
        n_bytes: size of the object, at least 1.
        sha256: SHA-256 of the bytes, 64 lower-case hexadecimal digits.

    Raises:
        BadClaim: an attribute is malformed.
    """

    uri: str
    n_bytes: int
    sha256: str

    def __post_init__(self) -> None:
        if not self.uri:
            raise BadClaim(f"header {URI} is missing or empty")
        if self.n_bytes < 1:
            raise BadClaim(f"header {BYTES} is {self.n_bytes}; expected a whole number above 0")
        if not _DIGEST.fullmatch(self.sha256):
            raise BadClaim(
                f"header {SHA256} is {self.sha256!r:.80}; expected 64 hexadecimal digits"
            )

    def headers(self) -> Headers:
        """The headers to add to a message whose value is empty because of this claim."""
        texts = self.uri, str(self.n_bytes), self.sha256
        return tuple((name, text.encode()) for name, text in zip(NAMES, texts, strict=True))


def claim_on(uri: str, value: bytes) -> Claim:
    """Return the claim for an object that holds `value`."""
    return Claim(uri, len(value), sha256(value))


def sha256(value: bytes) -> str:
    """Return the digest in lower-case hexadecimal digits."""
    return hashlib.sha256(value).hexdigest()


def read_claim(headers: Headers) -> Claim | None:
    """Return the claim in a message's headers, or None if the message holds its own bytes.

    Raises:
        BadClaim: a header of the claim is missing, repeated or malformed.
    """
    found = [(name, value) for name, value in headers if name in NAMES]
    if not found:
        return None
    if len(found) > len(dict(found)):
        raise BadClaim(f"a header is given twice: {', '.join(sorted(name for name, _ in found))}")
    texts = {name: _text(name, value) for name, value in found}
    count = texts.get(BYTES, "")
    if not _COUNT.fullmatch(count):
        raise BadClaim(f"header {BYTES} is {count!r:.80}; expected a whole number above 0")
    return Claim(texts.get(URI, ""), int(count), texts.get(SHA256, ""))


def without_claim(headers: Headers) -> Headers:
    """Return the headers without those of the claim."""
    return tuple((name, value) for name, value in headers if name not in NAMES)


def _text(name: str, value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as cause:
        raise BadClaim(f"header {name} is not UTF-8 text: {value!r:.80}") from cause
