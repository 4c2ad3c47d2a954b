"""Settings of a detector's memory."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from stream_icd.settings import ENV_PREFIX, Settings


class MemorySettings(Settings):
    """How much memory of graphs a detector keeps in RAM.

    Set with `STREAM_ICD_MEMORY_CACHE_BYTES`, or `cache_bytes` in the `[memory]` table of the
    settings file.

    Attributes:
        cache_bytes: encoded memory of all graphs together, about 20 bytes a node. Above it, graphs
            without recent windows are read from the memory topic again when they are needed.

    Raises:
        BadSettings: the value is not a positive integer.
    """

    model_config = SettingsConfigDict(env_prefix=f"{ENV_PREFIX}MEMORY_")

    table: ClassVar[str] = "memory"

    cache_bytes: int = Field(default=1 << 30, ge=1)
