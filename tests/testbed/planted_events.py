"""Score a tracker: how many planted events it found, missed and invented."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from stream_icd.core.events import CommunityEvent, CommunityEvents
from stream_icd.methods.synthetic.lfr import Drift

PLANTED = ("merged", "split", "born", "died")
Key = tuple[str, frozenset[int]]


@dataclass(slots=True)
class Score:
    """Counts by kind of event, summed over windows.

    Attributes:
        found, missed, invented: events planted and found, only planted, only found.
        delays: how many of those found were found so many windows late.
    """

    found: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    invented: Counter[str] = field(default_factory=Counter)
    delays: Counter[int] = field(default_factory=Counter)

    def add(self, planted: set[Key], found: set[Key]) -> None:
        self.found.update(kind for kind, _ in planted & found)
        self.missed.update(kind for kind, _ in planted - found)
        self.invented.update(kind for kind, _ in found - planted)

    def precision(self) -> float:
        """Fraction of the reported events that are true; 1 if none was reported."""
        return _fraction(self.found.total(), self.invented.total())

    def recall(self) -> float:
        """Fraction of the true events that are reported; 1 if there were none."""
        return _fraction(self.found.total(), self.missed.total())

    def on_time(self) -> float:
        """Fraction of the events found that were found at most one window late; 1 if none was."""
        late = sum(count for windows, count in self.delays.items() if windows > 1)
        return _fraction(self.delays.total() - late, late)

    def f1(self) -> float:
        """2 found / (2 found + missed + invented), over all kinds; 1 if there were no events."""
        return _fraction(2 * self.found.total(), self.missed.total() + self.invented.total())


def _fraction(right: int, wrong: int) -> float:
    return right / (right + wrong) if right + wrong else 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One window of a planted stream.

    Attributes:
        drift: what was planted before it.
        truth: planted identity of each node, in the order of `tracked.nodes`.
        tracked: what the tracker reported.
    """

    drift: Drift
    truth: NDArray[np.int64]
    tracked: CommunityEvents


def score_late(steps: Sequence[Step], first: int = 1, latest: int = 1) -> Score:
    """Score a stream; an event may be reported up to `latest` windows late, and counts once.

    A merger or death that is reported late is given in the identities of the window before it was
    planted. Events that share a community with another one of their window do not count.

    Args:
        first: events of earlier windows do not count; at least 1.
    """
    planted = [planted_events(step.drift) for step in steps]
    mixed = [overlaid(step.drift) for step in steps]
    names = [dict(_majorities(step.tracked.communities, step.truth)) for step in steps]
    reported: dict[tuple[int, Key], int] = {}
    score = Score()
    for at in range(1, len(steps)):
        for event in steps[at].tracked.events:
            readings = {
                (at - late, key): late
                for late in range(min(latest + 1, at))
                for key in _translated([event], names[at - late - 1], names[at])
            }
            new = [
                reading
                for reading in readings
                if reading[1] in planted[reading[0]] and reading not in reported
            ]
            if new:
                reported[new[0]] = readings[new[0]]
            elif at >= first and readings and not any(k[1] & mixed[w] for w, k in readings):
                score.invented[event.kind] += 1
    for at in range(first, len(steps)):
        for key in planted[at]:
            if key[1] & mixed[at]:
                continue
            counts = score.found if (at, key) in reported else score.missed
            counts[key[0]] += 1
            if (at, key) in reported:
                score.delays[reported[at, key]] += 1
    return score


def planted_events(drift: Drift) -> set[Key]:
    """Return the events planted before a snapshot, each as the planted identities involved."""
    pairs = [("merged", pair) for pair in drift.merges] + [("split", p) for p in drift.splits]
    single = [("born", (birth,)) for birth in drift.births] + [("died", (o,)) for o in drift.deaths]
    return {(kind, frozenset(identities)) for kind, identities in pairs + single}


def overlaid(drift: Drift) -> set[int]:
    """Return the identities of planted events that overlap others before the same snapshot.

    The outcome may not determine their events: if a community merges into another, which is then
    split in halves, no half holds more than half of it.
    """
    singles = [(identity,) for identity in (*drift.births, *drift.deaths)]
    events = [*drift.merges, *drift.splits, *singles]
    times = Counter(chain(*events))
    return set(chain(*(event for event in events if any(times[of] > 1 for of in event))))


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
    """Yield events in planted identities; those of communities without an identity are left out."""
    for event in events:
        if event.kind == "merged":
            yield from _named("merged", event.parents, was)
        elif event.kind == "split":
            yield from _named("split", event.children, now)
        elif event.kind == "died":
            yield from _named("died", (event.community,), was)
        elif event.kind == "born" and not event.parents:
            yield from _named("born", (event.community,), now)


def _named(kind: str, communities: tuple[int, ...], names: dict[int, int]) -> Iterator[Key]:
    if all(community in names for community in communities):
        yield kind, frozenset(names[community] for community in communities)


def _majorities(
    communities: NDArray[np.int64], truth: NDArray[np.int64]
) -> Iterator[tuple[int, int]]:
    for community in np.unique(communities).tolist():
        identities, counts = np.unique(truth[communities == community], return_counts=True)
        yield community, int(identities[counts.argmax()])
