"""Dead-letters bad records, complete and labelled, so that the stream continues."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterator

from stream_icd.core.errors import (
    BadInput,
    BadSettings,
    CrashedWorker,
    LimitExceeded,
    OverBudget,
    TooManyDeadLetters,
)
from stream_icd.core.headers import Headers
from stream_icd.core.printable import shortened
from stream_icd.kafka.messages.claims import Claim
from stream_icd.kafka.port import dead_letter_topic
from stream_icd.kafka.record import OutgoingRecord, Record

ATTEMPT = "icd_dlq_attempt"
"""How many times a record has been dead-lettered. A resent record keeps this header, so that
repeated failures are visible."""

ORIGIN = "icd_dlq_origin"
"""Position of a record when first dead-lettered: `topic[partition]@offset`, the same for all
its dead letters. A resent record keeps this header, too."""

_MOST_MESSAGE = 1000
"""Maximum length of the error message in a dead letter, in characters."""

_ADDED = (
    "icd_dlq_topic",
    "icd_dlq_partition",
    "icd_dlq_offset",
    "icd_dlq_stage",
    "icd_dlq_exception",
    "icd_dlq_message",
    ATTEMPT,
    ORIGIN,
)
_OF_ANY_STEP: dict[str, type[BadInput]] = {
    "budget": OverBudget,
    "crashed": CrashedWorker,
    "publish": LimitExceeded,
}
"""The stages around a step, and the one exception of each."""

PLACE = re.compile(r"(?P<topic>[A-Za-z0-9._-]{1,249})\[\d{1,10}\]@\d{1,19}", re.ASCII)


def dead_letter(record: Record, stage: str, error: BadInput) -> OutgoingRecord:
    """Return the record for `<topic>.dlq`: value and headers unchanged, with headers added."""
    as_it_came = tuple(header for header in record.headers if header[0] not in (ATTEMPT, ORIGIN))
    why = (
        record.topic,
        str(record.partition),
        str(record.offset),
        stage,
        type(error).__name__,
        shortened(str(error), _MOST_MESSAGE),
        str(attempts_before(record) + 1),
        _origin(record),
    )
    encoded = (text.encode(errors="backslashreplace") for text in why)
    return OutgoingRecord(
        topic=dead_letter_topic(record.topic),
        key=record.key,
        value=record.value,
        headers=(*as_it_came, *zip(_ADDED, encoded, strict=True)),
    )


def possible(stages: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield stage and exception of each dead letter that a step with these stages can cause."""
    yield from ((stage, error.__name__) for stage, error in _OF_ANY_STEP.items())
    kinds = [kind for kind in BadInput.kinds() if kind not in (CrashedWorker, OverBudget)]
    yield from ((stage, kind.__name__) for stage in stages for kind in kinds)


def split_headers(headers: Headers) -> tuple[Headers, dict[str, str]]:
    """Return a dead letter's original headers, and those added at their end. Claim headers after
    them belong to the value, and so to the original headers."""
    came, claim = list(headers), list[tuple[str, bytes]]()
    while came and came[-1][0] in Claim.NAMES:
        claim.insert(0, came.pop())
    added: dict[str, str] = {}
    while came and came[-1][0] in _ADDED and came[-1][0] not in added:
        name, value = came.pop()
        added[name] = value.decode(errors="replace")
    return (*came, *claim), dict(reversed(added.items()))


def count_of(text: str) -> int:
    """Return a number of attempts; 0 if the text is not a number."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def attempts_before(record: Record) -> int:
    """Return how often a record was dead-lettered before; above 0, an operator resent it."""
    return max(map(count_of, _texts(record.headers, ATTEMPT)), default=0)


def _origin(record: Record) -> str:
    said = [text for text in _texts(record.headers, ORIGIN) if PLACE.fullmatch(text)]
    return said[-1] if said else record.place


def _texts(headers: Headers, wanted: str) -> list[str]:
    return [value.decode(errors="replace") for name, value in headers if name == wanted]


class DeadLetterLimit:
    """Stops a worker that dead-letters nearly all records: its input or settings are wrong.

    Of the last `window` records, once there are that many, at most this share may be.
    """

    def __init__(self, share: float = 0.5, window: int = 50) -> None:
        if not 0 < share <= 1 or window < 1:
            raise BadSettings(
                f"dead-letter limit {share} of {window}: the fraction must be above 0 and at "
                "most 1, the window at least 1"
            )
        self._share = share
        self._recent: deque[bool] = deque(maxlen=window)

    def count(self, *, dead: bool, reason: str = "") -> None:
        """Count one record; raise TooManyDeadLetters if too many of the last ones were."""
        self._recent.append(dead)
        n_dead = sum(self._recent)
        full = len(self._recent) == self._recent.maxlen
        if full and n_dead > self._share * len(self._recent):
            raise TooManyDeadLetters(
                f"{n_dead} of the last {len(self._recent)} records became dead letters; the "
                f"last one because: {reason}. Fix the producer, or raise --max-dead-letters."
            )
