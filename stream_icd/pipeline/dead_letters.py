"""Setting a bad record aside, whole and labelled, so that the stream goes on."""

from __future__ import annotations

from collections import deque

from stream_icd.errors import BadInput, BadSettings, TooManyDeadLetters
from stream_icd.kafka.record import Headers, OutgoingRecord, Record
from stream_icd.kafka.topics import dead_letter_topic
from stream_icd.printable import shortened
from stream_icd.wire.claim import NAMES as CLAIM_HEADERS

ATTEMPT = "icd_dlq_attempt"
"""How many times a record has been set aside. It goes with one that is sent again, so that a
record that goes round in circles is seen."""

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
)


def dead_letter(record: Record, stage: str, error: BadInput) -> OutgoingRecord:
    """The record for `<topic>.dlq`: raw bytes and headers untouched, ours added.

    Args:
        stage: what was being done, such as `decode`.
    """
    as_it_came, before = _attempts_before(record.headers)
    why = (
        record.topic,
        str(record.partition),
        str(record.offset),
        stage,
        type(error).__name__,
        shortened(str(error), MOST_MESSAGE),
        str(before + 1),
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


def _attempts_before(headers: Headers) -> tuple[Headers, int]:
    """A record's headers as its producer sent them, and how often it was set aside before."""
    counts = [
        count_of(value.decode(errors="replace")) for name, value in headers if name == ATTEMPT
    ]
    return tuple(header for header in headers if header[0] != ATTEMPT), max(counts, default=0)


class DeadLetterLimit:
    """Stops a worker that sets nearly everything aside: its input, or it, is wrong.

    Looks at the last `window` records, once there are so many of them.

    Args:
        share: the largest share of dead letters among them that is still taken for bad luck.
    """

    def __init__(self, share: float = 0.5, window: int = 50) -> None:
        if not 0 < share <= 1 or window < 1:
            raise BadSettings(
                f"dead-letter limit {share} of {window}; the share must be above 0 and at most 1, "
                f"the window at least 1"
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
                f"{n_dead} of the last {len(self._recent)} records were dead letters, the last one "
                f"because: {reason}. Mend the producer, or raise --max-dead-letters."
            )
