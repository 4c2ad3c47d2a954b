"""Reads messages of the wire contract, including claimed values, within size limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from stream_icd.kafka.record import Record
from stream_icd.messages.claim_settings import ClaimSettings
from stream_icd.messages.claims import redeem
from stream_icd.wire.limits import Limits
from stream_icd.wire.message import Headers

Content = TypeVar("Content")
Decode = Callable[[bytes | None, bytes | None, Headers, Limits], Content]


@dataclass(frozen=True, slots=True)
class MessageReader:
    """Reads messages of other programs.

    Attributes:
        claims: the claim store; by default from the environment.
        limits: maximum sizes of a message; by default from the environment.
    """

    claims: ClaimSettings = field(default_factory=ClaimSettings)
    limits: Limits = field(default_factory=Limits)

    def whole(self, record: Record) -> Record:
        """Return the record with its claimed value; see `redeem`.

        Raises:
            BadClaim, LimitExceeded, StoreUnreachable: see `redeem`.
        """
        return redeem(record, self.claims, self.limits)

    def decoded(self, record: Record, decode: Decode[Content]) -> Content:
        """Decode a record's value, or the value that it claims.

        Raises:
            BadInput: see `decode` and `redeem`.
            StoreUnreachable: see `redeem`.
        """
        whole = self.whole(record)
        return decode(whole.key, whole.value, whole.headers, self.limits)
