"""Limits on the memory that a message from outside can make a reader allocate."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from stream_icd.core.settings import ENV_PREFIX, Settings


class Limits(Settings):
    """Upper bounds that are checked before anything of that size is allocated.

    Set with `STREAM_ICD_LIMITS_` and the name in capitals, or in the `[limits]` table of the
    settings file.

    Attributes:
        decoded_bytes: size of a message's table, decompressed.
        decoded_ratio: that size as a multiple of the message's, above 16 MiB. Sorted
            integer ids compress up to 25 times.
        rows: rows of a table (pairs of a snapshot, nodes of a communities message).
        header_bytes: size of all headers of a message together.
        name_bytes: size of the key and of each header, such as the name of a graph or a model.

    >>> Limits(rows=1000).rows
    1000
    """

    model_config = SettingsConfigDict(env_prefix=f"{ENV_PREFIX}LIMITS_")

    table: ClassVar[str] = "limits"

    decoded_bytes: int = Field(default=1 << 30, ge=1)
    decoded_ratio: int = Field(default=100, ge=1)
    rows: int = Field(default=50_000_000, ge=1)
    header_bytes: int = Field(default=64 << 10, ge=1)
    name_bytes: int = Field(default=1 << 10, ge=1)


DEFAULT_LIMITS = Limits.model_construct()
"""The limits of the contract (docs/wire.md), independent of the environment."""
