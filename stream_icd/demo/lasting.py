"""What happened to communities that last: one that is seen in a snapshot or two is mostly noise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stream_icd.events import CommunityEvents

LASTING = 5
"""Number of snapshots in which a community is seen, from which on it lasts."""

KINDS = ("born", "merged", "split", "died")


@dataclass(frozen=True, slots=True)
class Happened:
    """Events of a stream after its first snapshot.

    Attributes:
        lasting: number of events by kind in which all communities last.
        others: number of events in which one does not.
    """

    lasting: Counter[str]
    others: int

    def in_words(self) -> tuple[str, str]:
        """Return two lines: what happened, and how much is left out."""
        counts = ", ".join(f"{self.lasting[kind]:,} {kind}" for kind in KINDS)
        return (
            f"all snapshots: {counts}",
            f"of communities seen in {LASTING} or more; {self.others:,} other events",
        )


def happened(windows: Sequence[CommunityEvents]) -> Happened:
    """Count births, mergers, splits and deaths of the communities that last, and all others."""
    seen: Counter[int] = Counter()
    for one in windows:
        seen.update(np.unique(one.communities).tolist())
    events = [event for one in windows[1:] for event in one.events if event.kind in KINDS]
    lasting = [
        event
        for event in events
        if all(seen[c] >= LASTING for c in (event.community, *event.parents, *event.children))
    ]
    return Happened(Counter(event.kind for event in lasting), len(events) - len(lasting))
