"""The outcome of a record: a result to publish, or a reason to refuse it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from stream_icd.errors import BadInput
from stream_icd.kafka.record import OutgoingRecord

Stage = Literal["decode", "detect", "track", "archive", "budget", "publish", "crashed"]
"""The processing stage in which a record was refused."""


@dataclass(frozen=True, slots=True)
class Processed:
    """The result of a good record.

    Attributes:
        event: name of the log event, such as `detected`.
        facts: fields of the log line.
        outgoing: the records to publish; empty if there is nothing new.
        state: what the worker remembers after the record, for a topic of states. It is published
            even if the results are refused.
    """

    event: str
    facts: Mapping[str, object] = field(default_factory=dict)
    outgoing: tuple[OutgoingRecord, ...] = ()
    state: OutgoingRecord | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """The outcome of a bad record: it becomes a dead letter.

    Attributes:
        stage: the processing stage; one of those that the step names (`Step.stages`).
        error: the error.
    """

    stage: Stage
    error: BadInput

    @property
    def reason(self) -> str:
        """The error's text."""
        return str(self.error)


Outcome = Processed | Refused
