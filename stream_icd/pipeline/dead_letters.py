"""Setting a bad record aside, whole and labelled, so that the stream goes on."""

from __future__ import annotations

from collections import deque

from stream_icd.errors import BadInput, BadSettings, TooManyDeadLetters
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.topics import dead_letter_topic


def dead_letter(record: Record, stage: str, error: BadInput) -> OutgoingRecord:
    """The record for `<topic>.dlq`: raw bytes and headers untouched, ours added.

    Args:
        stage: what was being done, such as `decode`.
    """
    why = {
        "icd_dlq_topic": record.topic,
        "icd_dlq_partition": str(record.partition),
        "icd_dlq_offset": str(record.offset),
        "icd_dlq_stage": stage,
        "icd_dlq_exception": type(error).__name__,
        "icd_dlq_message": str(error),
    }
    return OutgoingRecord(
        topic=dead_letter_topic(record.topic),
        key=record.key,
        value=record.value,
        headers=(*record.headers, *((name, text.encode()) for name, text in why.items())),
    )


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
