"""The outcome of a record: a result to publish, or a reason to refuse it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stream_icd.errors import BadInput
from stream_icd.kafka.record import OutgoingRecord


@dataclass(frozen=True, slots=True)
class Processed:
    """The result of a good record.

    Attributes:
        event: name of the log event, such as `detected`.
        facts: fields of the log line.
        outgoing: the records to publish; empty if there is nothing new.
    """

    event: str
    facts: Mapping[str, object] = field(default_factory=dict)
    outgoing: tuple[OutgoingRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """The outcome of a bad record: it becomes a dead letter.

    Attributes:
        stage: the processing stage, such as `decode`.
        error: the error.
    """

    stage: str
    error: BadInput

    @property
    def reason(self) -> str:
        """The error's text."""
        return str(self.error)


Outcome = Processed | Refused
