"""How many records are processed and published together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from stream_icd.kafka.waiting import Clock

LONG_S = 2.0
"""A batch is to be processed within this time. Its first result waits for its last one. A worker
that stops has to finish it, and what is in hand when partitions move is done twice."""


@dataclass(slots=True)
class BatchSize:
    """Follows the time that records take: few heavy ones or many light ones are a batch.

    Attributes:
        most: maximum number of records.
        least: minimum limit, however long they take.
        now: the present limit.
    """

    most: int
    least: int = 1
    now: int = field(init=False)

    def __post_init__(self) -> None:
        self.now = self.least = min(self.least, self.most)

    @contextmanager
    def timed(self, n_records: int, clock: Clock) -> Iterator[None]:
        """Measure how long this block takes for a batch, and adapt the limit."""
        began = clock.now()
        yield
        seconds = clock.now() - began
        if seconds > LONG_S:
            self.now = max(n_records // 2, self.least)
        elif n_records >= self.now and 2 * seconds <= LONG_S:
            self.now = min(2 * self.now, self.most)
