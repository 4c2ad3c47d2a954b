"""What became of a record: a result to publish, or a reason to refuse it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stream_icd.errors import BadInput
from stream_icd.kafka.record import OutgoingRecord


@dataclass(frozen=True, slots=True)
class Processed:
    """The result of a good record.

    Attributes:
        event: the line that the log gets, such as `detected`.
        facts: what that line says, by name.
        outgoing: the records to publish; empty if there is nothing new.
    """

    event: str
    facts: Mapping[str, object] = field(default_factory=dict)
    outgoing: tuple[OutgoingRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """The result of a bad record: it becomes a dead letter.

    Attributes:
        stage: what was being done, such as `decode`.
        error: what is wrong.
    """

    stage: str
    error: BadInput

    @property
    def reason(self) -> str:
        """What is wrong, as text."""
        return str(self.error)


Outcome = Processed | Refused
