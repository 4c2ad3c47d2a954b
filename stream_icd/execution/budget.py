"""Limits on processor time and memory per message, in proportion to its size; docs/security.md."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from stream_icd.errors import BadClaim, OverBudget
from stream_icd.execution.usage import Allowance, Usage
from stream_icd.kafka.record import Record
from stream_icd.settings import ENV_PREFIX, Settings
from stream_icd.wire.claim import read_claim
from stream_icd.wire.limits import Limits

MB = 10**6

_TIME = f"{ENV_PREFIX}BUDGET_SECONDS, {ENV_PREFIX}BUDGET_SECONDS_PER_MB"
_MEMORY = f"{ENV_PREFIX}BUDGET_MEMORY_BYTES, {ENV_PREFIX}BUDGET_MEMORY_PER_BYTE"
_WAY_OUT = "Send a smaller snapshot, or raise a setting and run `stream-icd dlq retry`"


class Budget(Settings):
    """Processor time and memory for one snapshot: a base, and more for each byte of the message.

    Set each value with an argument, an environment variable (`STREAM_ICD_BUDGET_` and the name in
    capitals), or a line in the `[budget]` table of the settings file.

    Attributes:
        seconds: processor time of all threads, for a snapshot of any size.
        seconds_per_mb: additional processor time for each 10^6 bytes of the message.
        memory_bytes: growth of the process's resident memory, for a snapshot of any size.
        memory_per_byte: additional growth, in bytes, for each byte of the message.

    Raises:
        BadSettings: a value is out of range, or the setting does not exist.

    >>> Budget(seconds=10, seconds_per_mb=5).allowance(2_000_000).seconds
    20.0
    """

    model_config = SettingsConfigDict(env_prefix=f"{ENV_PREFIX}BUDGET_")

    table: ClassVar[str] = "budget"

    seconds: float = Field(default=30.0, gt=0, allow_inf_nan=False)
    seconds_per_mb: float = Field(default=60.0, ge=0, allow_inf_nan=False)
    memory_bytes: int = Field(default=2 << 30, ge=1)
    memory_per_byte: int = Field(default=100, ge=0)

    def allowance(self, sent_bytes: int) -> MessageAllowance:
        return MessageAllowance(
            self.seconds + self.seconds_per_mb * sent_bytes / MB,
            self.memory_bytes + self.memory_per_byte * sent_bytes,
            sent_bytes,
            self,
        )


@dataclass(frozen=True, slots=True)
class MessageAllowance(Allowance):
    """Limits for one message.

    Attributes:
        sent_bytes: size of the message.
        budget: what the limits are made of.
        state_bytes: size of what is remembered of the graph.
    """

    sent_bytes: int
    budget: Budget
    state_bytes: int = 0

    def with_state(self, n_bytes: int) -> MessageAllowance:
        """Return the limits if the graph's memory, of this size, is read too."""
        return replace(
            self,
            seconds=self.seconds + self.budget.seconds_per_mb * n_bytes / MB,
            memory_bytes=self.memory_bytes + self.budget.memory_per_byte * n_bytes,
            state_bytes=n_bytes,
        )

    def check(self, used: Usage) -> None:
        """Compare the limits with the resources used.

        Raises:
            OverBudget: a limit is exceeded; the text names value, limit, settings and remedy.
        """
        if (excess := self.excess(used)) is not None:
            taken, limit, unit = excess
            settings = _MEMORY if "memory" in unit else _TIME
            with_state = f" and a memory of {self.state_bytes}" if self.state_bytes else ""
            raise OverBudget(
                f"took {taken:.1f} {unit}; the limit for a message of {self.sent_bytes} bytes"
                f"{with_state} is {limit:.1f} ({settings}). {_WAY_OUT}"
            )


def sent_bytes(record: Record, limits: Limits) -> int:
    """Return the size of a record's content; a claim counts up to the limit for reading."""
    try:
        claim = read_claim(record.headers)
    except BadClaim:  # decoding refuses it
        claim = None
    if claim is not None:
        return min(claim.n_bytes, limits.decoded_bytes)
    return len(record.value or b"")
