"""Limits on time and memory; those of a message grow with its size (docs/security.md)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from stream_icd.core.errors import BadSettings, OverBudget
from stream_icd.core.settings import ENV_PREFIX, Settings

_CLOCK_FACTOR = 10
"""Wall-clock limit, as a multiple of the processor time: a job may wait on a busy machine."""

_MB = 10**6

_TIME = f"{ENV_PREFIX}BUDGET_SECONDS, {ENV_PREFIX}BUDGET_SECONDS_PER_MB"
_MEMORY = f"{ENV_PREFIX}BUDGET_MEMORY_BYTES, {ENV_PREFIX}BUDGET_MEMORY_PER_BYTE"
_WAY_OUT = "Send a smaller snapshot, or raise a setting and run `stream-icd dlq retry`"


@dataclass(frozen=True, slots=True)
class Allowance:
    """Limits for one job: processor time of all threads, and growth of resident memory.

    Raises:
        BadSettings: a limit is not positive.
    """

    seconds: float
    memory_bytes: int
    # What the limits are made of if the job is a message; None: they are given.
    budget: Budget | None = None
    sent_bytes: int = 0  # size of the message
    state_bytes: int = 0  # size of what is remembered of the message's graph

    def __post_init__(self) -> None:
        if not (self.seconds > 0 and self.memory_bytes > 0):
            raise BadSettings(
                f"{self.seconds} s and {self.memory_bytes} bytes: both limits must be above 0"
            )

    @property
    def clock_seconds(self) -> float:
        return _CLOCK_FACTOR * self.seconds

    def with_state(self, n_bytes: int) -> Allowance:
        """Return the limits if the memory of the message's graph, of this size, is read too."""
        if self.budget is None:
            return self
        return replace(
            self,
            seconds=self.seconds + self.budget.seconds_per_mb * n_bytes / _MB,
            memory_bytes=self.memory_bytes + self.budget.memory_per_byte * n_bytes,
            state_bytes=n_bytes,
        )

    def check(self, *, cpu_seconds: float, clock_seconds: float, memory_bytes: int) -> None:
        """Raise OverBudget if a limit is exceeded; for a message, the text says what to do."""
        for used, limit, unit, settings in (
            (cpu_seconds, self.seconds, "s of processor time", _TIME),
            (clock_seconds, self.clock_seconds, "s by the clock", _TIME),
            (memory_bytes / _MB, self.memory_bytes / _MB, "MB of memory", _MEMORY),
        ):
            if used <= limit:
                continue
            if self.budget is None:
                raise OverBudget(f"took more than {limit:.4g} {unit}")
            with_state = f" and a memory of {self.state_bytes}" if self.state_bytes else ""
            raise OverBudget(
                f"took {used:.1f} {unit}; the limit for a message of {self.sent_bytes} bytes"
                f"{with_state} is {limit:.1f} ({settings}). {_WAY_OUT}"
            )


class Budget(Settings):
    """Processor time and memory for one snapshot: a base, and more for each byte of the message.

    Set with `STREAM_ICD_BUDGET_` and the name in capitals, or in the `[budget]` table of the
    settings file. Time is that of all threads; memory is the growth of the process's resident
    memory.

    Attributes:
        seconds_per_mb: additional processor time for each 10^6 bytes of the message.
        memory_per_byte: additional growth, in bytes, for each byte of the message.

    >>> Budget(seconds=10, seconds_per_mb=5).allowance(2_000_000).seconds
    20.0
    """

    model_config = SettingsConfigDict(env_prefix=f"{ENV_PREFIX}BUDGET_")

    table: ClassVar[str] = "budget"

    seconds: float = Field(default=30.0, gt=0, allow_inf_nan=False)
    seconds_per_mb: float = Field(default=60.0, ge=0, allow_inf_nan=False)
    memory_bytes: int = Field(default=2 << 30, ge=1)
    memory_per_byte: int = Field(default=100, ge=0)

    def allowance(self, sent_bytes: int) -> Allowance:
        return Allowance(
            self.seconds + self.seconds_per_mb * sent_bytes / _MB,
            self.memory_bytes + self.memory_per_byte * sent_bytes,
            self,
            sent_bytes,
        )


class MemorySettings(Settings):
    """How much memory of graphs a detector keeps in RAM.

    Set with `STREAM_ICD_MEMORY_CACHE_BYTES`, or `cache_bytes` in the `[memory]` table of the
    settings file.

    Attributes:
        cache_bytes: encoded memory of all graphs together, about 60 bytes a node. Above it, graphs
            without recent windows are read from the memory topic again when they are needed.
    """

    model_config = SettingsConfigDict(env_prefix=f"{ENV_PREFIX}MEMORY_")

    table: ClassVar[str] = "memory"

    cache_bytes: int = Field(default=1 << 30, ge=1)
