"""Score a tracker: how many planted events it found, missed and invented."""

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
        found, missed, invented: events planted and found, only planted, only found.
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
        """2 found / (2 found + missed + invented), over all kinds; 1 if there were no events."""
        hits = 2 * sum(self.found.values())
        wrong = sum(self.missed.values()) + sum(self.invented.values())
        return hits / (hits + wrong) if hits + wrong else 1.0


def planted_events(drift: Drift) -> set[Key]:
    """Return the events planted before a snapshot, each as the planted identities involved."""
    pairs = [("merged", pair) for pair in drift.merges] + [("split", p) for p in drift.splits]
    single = [("born", (one,)) for one in drift.births] + [("died", (o,)) for o in drift.deaths]
    return {(kind, frozenset(identities)) for kind, identities in pairs + single}


def overlaid(drift: Drift) -> set[int]:
    """Return the identities of planted events that overlap others before the same snapshot.

    The outcome may not determine their events: if a community merges into another, which is then
    split in halves, no half holds more than half of it.
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
    """Return a tracker's events in planted identities, by the majority of each one's members.

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
