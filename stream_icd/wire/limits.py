"""What a message from outside may make us allocate."""

from __future__ import annotations

from dataclasses import dataclass

from stream_icd.errors import BadSettings


@dataclass(frozen=True, slots=True)
class Limits:
    """Upper bounds that are checked before anything of that size is allocated.

    Attributes:
        decoded_bytes: size of a message's table, decompressed.
        rows: rows of a table (pairs of a snapshot, nodes of a communities message).
        header_bytes: size of all headers of a message together.
    """

    decoded_bytes: int = 1 << 30
    rows: int = 50_000_000
    header_bytes: int = 64 << 10

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) < 1:
                raise BadSettings(f"limit {name}={getattr(self, name)}; it must be at least 1")


DEFAULT_LIMITS = Limits()
