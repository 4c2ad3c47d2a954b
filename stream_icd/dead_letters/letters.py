"""Setting a bad record aside, whole and labelled, so that the stream goes on."""

from __future__ import annotations

import re
from collections import deque

from stream_icd.errors import BadInput, BadSettings, TooManyDeadLetters
from stream_icd.kafka.port.topic import dead_letter_topic
from stream_icd.kafka.record import Headers, OutgoingRecord, Record
from stream_icd.printable import shortened
from stream_icd.wire.claim import NAMES as CLAIM_HEADERS

ATTEMPT = "icd_dlq_attempt"
"""How many times a record has been dead-lettered. It goes with one that is sent again, so that a
record that goes round in circles is seen."""

ORIGIN = "icd_dlq_origin"
"""Where a record lay when it was first dead-lettered: `topic[partition]@offset`, the same for all
its dead letters. It goes with one that is sent again, too."""

MOST_MESSAGE = 1000
"""Characters of what is wrong that a dead letter carries."""

ADDED = (
    "icd_dlq_topic",
    "icd_dlq_partition",
    "icd_dlq_offset",
    "icd_dlq_stage",
    "icd_dlq_exception",
    "icd_dlq_message",
    ATTEMPT,
    ORIGIN,
)
_PLACE = re.compile(r"[A-Za-z0-9._-]{1,249}\[\d{1,10}\]@\d{1,19}", re.ASCII)


def dead_letter(record: Record, stage: str, error: BadInput) -> OutgoingRecord:
    """The record for `<topic>.dlq`: raw bytes and headers untouched, ours added.

    Args:
        stage: what was being done, such as `decode`.
    """
    as_it_came = tuple(header for header in record.headers if header[0] not in (ATTEMPT, ORIGIN))
    why = (
        record.topic,
        str(record.partition),
        str(record.offset),
        stage,
        type(error).__name__,
        shortened(str(error), MOST_MESSAGE),
        str(_attempts_before(record.headers) + 1),
        _origin(record),
    )
    reason = (
        (name, text.encode(errors="backslashreplace"))
        for name, text in zip(ADDED, why, strict=True)
    )
    return OutgoingRecord(
        topic=dead_letter_topic(record.topic),
        key=record.key,
        value=record.value,
        headers=(*as_it_came, *reason),
    )


def split_headers(headers: Headers) -> tuple[Headers, dict[str, str]]:
    """A dead letter's headers as they came, and what was added at their end.

    A claim behind that belongs to its value, and so to what came.
    """
    came, claim = list(headers), list[tuple[str, bytes]]()
    while came and came[-1][0] in CLAIM_HEADERS:
        claim.insert(0, came.pop())
    added: dict[str, str] = {}
    while came and came[-1][0] in ADDED and came[-1][0] not in added:
        name, value = came.pop()
        added[name] = value.decode(errors="replace")
    return (*came, *claim), dict(reversed(added.items()))


def count_of(text: str) -> int:
    """A number of attempts; 0 for what is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def was_sent_again(record: Record) -> bool:
    """Whether a record was dead-lettered before, and sent again by somebody who looked at it."""
    return _attempts_before(record.headers) > 0


def _attempts_before(headers: Headers) -> int:
    """How often a record was dead-lettered before."""
    return max(map(count_of, _texts(headers, ATTEMPT)), default=0)


def _origin(record: Record) -> str:
    said = [text for text in _texts(record.headers, ORIGIN) if _PLACE.fullmatch(text)]
    return said[-1] if said else record.place


def _texts(headers: Headers, wanted: str) -> list[str]:
    return [value.decode(errors="replace") for name, value in headers if name == wanted]


class DeadLetterLimit:
    """Stops a worker that sets nearly everything aside: its input, or it, is wrong.

    Looks at the last `window` records, once there are so many of them.

    Args:
        share: the largest share of dead letters among them that is still taken for bad luck.
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
        """Note one record's fate.

        Raises:
            TooManyDeadLetters: too many of the last `window` records were dead letters.
        """
        self._recent.append(dead)
        n_dead = sum(self._recent)
        full = len(self._recent) == self._recent.maxlen
        if full and n_dead > self._share * len(self._recent):
            raise TooManyDeadLetters(
                f"{n_dead} of the last {len(self._recent)} records became dead letters; the "
                f"last one because: {reason}. Fix the producer, or raise --max-dead-letters."
            )
