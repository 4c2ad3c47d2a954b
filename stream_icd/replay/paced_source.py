"""A source that yields each snapshot at its due time."""

from __future__ import annotations

from collections.abc import Callable, Container

from stream_icd.replay.pacing import Tempo, paced
from stream_icd.snapshot import Snapshot
from stream_icd.sources.source import Source


def paced_source(
    source: Source,
    tempo: Tempo,
    monotonic: Callable[[], float],
    sleep: Callable[[float], object],
    already: Container[Snapshot] = (),
) -> Source:
    """Return the same snapshots and labels, none before its due time.

    Args:
        tempo: determines when each is due, by the end of its window.
        already: snapshots that were already sent; they are not delayed.
    """
    return Source(
        source.total,
        paced(
            source.snapshots,
            lambda one: one[0].window.end,
            tempo,
            monotonic,
            sleep,
            at_once=lambda one: one[0] in already,
        ),
    )
