"""How many planted events were found, and how many were invented."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from stream_icd.events import CommunityEvent, CommunityEvents
from stream_icd.synthetic.drift import Drift

PLANTED = ("merged", "split", "born", "died")
Key = tuple[str, frozenset[int]]


@dataclass(slots=True)
class Score:
    """Counts by kind of event, summed over windows.

    Attributes:
        found, missed, invented: planted and found, planted only, found only.
    """

    found: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PLANTED, 0))
    missed: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PLANTED, 0))
    invented: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PLANTED, 0))

    def add(self, planted: set[Key], found: set[Key]) -> None:
        """Count one window."""
        for counts, keys in (
            (self.found, planted & found),
            (self.missed, planted - found),
            (self.invented, found - planted),
        ):
            for kind, _ in keys:
                counts[kind] += 1

    def f1(self) -> float:
        """2 found / (2 found + missed + invented), over all kinds; 1 where nothing was to find."""
        hits = 2 * sum(self.found.values())
        wrong = sum(self.missed.values()) + sum(self.invented.values())
        return hits / (hits + wrong) if hits + wrong else 1.0


def planted_events(drift: Drift) -> set[Key]:
    """What was planted before a snapshot, each event by the planted identities that took part."""
    pairs = [("merged", pair) for pair in drift.merges] + [("split", p) for p in drift.splits]
    single = [("born", (one,)) for one in drift.births] + [("died", (o,)) for o in drift.deaths]
    return {(kind, frozenset(identities)) for kind, identities in pairs + single}


def overlaid(drift: Drift) -> set[int]:
    """Planted identities of events that share one with another event before the same snapshot.

    What happened to these can be undecidable from the outcome: of a community that merged into
    another, which was then split in halves, no half holds more than half.
    """
    singles = [(identity,) for identity in (*drift.births, *drift.deaths)]
    events = [*drift.merges, *drift.splits, *singles]
    times = Counter(chain(*events))
    return set(chain(*(event for event in events if any(times[one] > 1 for one in event))))


def found_events(
    before: CommunityEvents,
    after: CommunityEvents,
    truth_before: NDArray[np.int64],
    truth_after: NDArray[np.int64],
) -> set[Key]:
    """What a tracker found, in planted identities: each community is its members' majority's.

    Args:
        truth_before, truth_after: planted identity of each node, in the order of `nodes`.
    """
    was = dict(_majorities(before.communities, truth_before))
    now = dict(_majorities(after.communities, truth_after))
    return set(_translated(after.events, was, now))


def _translated(
    events: Iterable[CommunityEvent], was: dict[int, int], now: dict[int, int]
) -> Iterator[Key]:
    for event in events:
        if event.kind == "merged":
            yield "merged", frozenset(was[parent] for parent in event.parents)
        elif event.kind == "split":
            yield "split", frozenset(now[child] for child in event.children)
        elif event.kind == "died":
            yield "died", frozenset({was[event.community]})
        elif event.kind == "born" and not event.parents:
            yield "born", frozenset({now[event.community]})


def _majorities(
    communities: NDArray[np.int64], truth: NDArray[np.int64]
) -> Iterator[tuple[int, int]]:
    for community in np.unique(communities).tolist():
        identities, counts = np.unique(truth[communities == community], return_counts=True)
        yield community, int(identities[counts.argmax()])
