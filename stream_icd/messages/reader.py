"""Reading a message of the wire contract: its bytes, wherever they are, within limits."""

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
    """How to read what others sent.

    Attributes:
        claims: where the bytes of large messages are; by default from the environment.
        limits: what a message may make us allocate; by default from the environment.
    """

    claims: ClaimSettings = field(default_factory=ClaimSettings)
    limits: Limits = field(default_factory=Limits)

    def whole(self, record: Record) -> Record:
        """The record as if its message held its bytes itself; see `redeem`.

        Raises:
            BadClaim, LimitExceeded, StoreUnreachable: as `redeem`.
        """
        return redeem(record, self.claims, self.limits)

    def decoded(self, record: Record, decode: Decode[Content]) -> Content:
        """What a record holds, or claims, by one of the wire contract's decoders.

        Raises:
            BadInput: as `decode` and `redeem`.
            StoreUnreachable: as `redeem`.
        """
        whole = self.whole(record)
        return decode(whole.key, whole.value, whole.headers, self.limits)


def reader_of(claims: ClaimSettings | None, limits: Limits | None) -> MessageReader:
    """A reader with these settings; None: from the environment."""
    return MessageReader(claims or ClaimSettings(), limits or Limits())
