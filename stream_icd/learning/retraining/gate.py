"""The gate: whether a challenger replaces the champion, and afterwards keeps its promise.

Both are judged on windows that they did not see. Hidden edges decide, since they need no labels:
these may be late, wrong or poisoned. Labels can only add to it: they veto a challenger that is
worse by them, and they decide between models that predict hidden edges equally well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from stream_icd.core.errors import BadSettings
from stream_icd.core.lineage import Figure


@dataclass(frozen=True, slots=True)
class Measured:
    """One model on one window; None where the window has no labels, or none is before it.

    Hidden edges are fair between models that find different numbers of communities.
    """

    hidden_edges: float  # how well its communities predict them, bits per edge
    seconds: float  # processor time of one detection
    nmi: float | None = None  # against the labels, 0..1
    churn: float | None = None  # share of the nodes that change community since the window before
    predicted: float | None = None  # how well those of the window before predict its new edges


@dataclass(frozen=True, slots=True)
class Paired:
    """Two models on the same window."""

    champion: Measured
    challenger: Measured


class _Interval(NamedTuple):
    """A mean and its confidence interval."""

    low: float
    mean: float
    high: float


def _paired_bootstrap(
    differences: ArrayLike,
    confidence: float,
    seed: int = 0,
    resamples: int = 10_000,
    average: Callable[..., Any] = np.mean,
) -> _Interval:
    """The mean of the differences; the true mean is above `low` with this confidence.

    It is also below `high` with this confidence (each end is one-sided). The ends are quantiles of
    the means of windows drawn with replacement (Efron, 1979).

    differences: (n,), at least one.

    >>> _paired_bootstrap([1.0, 1.0, 1.0], 0.99)
    _Interval(low=1.0, mean=1.0, high=1.0)
    """
    values = np.asarray(differences, np.float64)
    drawn = np.random.default_rng(seed).integers(len(values), size=(resamples, len(values)))
    means = average(values[drawn], axis=1)
    low, high = np.quantile(means, [1 - confidence, confidence])
    return _Interval(float(low), float(average(values)), float(high))


_LEAST = 4
"""Fewest windows for a decision, except at the end of a shorter watch."""

_LEAST_BITS = 0.002
"""Smallest margin, in bits per edge, for streams whose hidden edges are hardly predictable."""

_FAR_BETTER = 10
"""Gain on hidden edges, in margins, that outweighs churn."""


@dataclass(frozen=True, slots=True)
class Rules:
    """When a challenger is better; NMI and churn are in 0..1.

    The churn vetoes only a challenger whose gain on hidden edges is at most `_FAR_BETTER` margins:
    a champion that finds nothing never changes anything.

    Raises:
        BadSettings: a value is out of range.
    """

    margin: float = 0.005  # to exceed on hidden edges, as a fraction of the champion's score
    confidence: float = 0.99  # probability that the gain really exceeds it (one-sided)
    labelled: int = 4  # windows with labels from which NMI counts
    nmi_loss: float = 0.01  # vetoes the challenger
    nmi_gain: float = 0.01  # promotes a challenger as good on hidden edges
    churn_loss: float = 0.1  # rise that vetoes the challenger
    slowdown: float = 10.0  # factor of processor time that vetoes; an encoder costs bp 3 to 8

    def __post_init__(self) -> None:
        if not (self.margin >= 0 and 0.5 < self.confidence < 1 and self.slowdown >= 1):
            raise BadSettings(
                f"margin {self.margin}, confidence {self.confidence}, slowdown {self.slowdown}: "
                "the margin must be at least 0, the confidence above 0.5 and below 1, and the "
                "slowdown at least 1"
            )


@dataclass(frozen=True, slots=True)
class _Verdict:
    """The decision of the gate, why in one sentence, and all measures."""

    promote: bool
    reason: str
    figures: tuple[Figure, ...]


@dataclass(frozen=True, slots=True)
class _Compared:
    """The means of a measure (the medians of the time), and its gain, where both models have it."""

    n_windows: int
    champion: float
    challenger: float
    gain: _Interval

    def figure(self, name: str, unit: float) -> Figure:
        values = self.champion, self.challenger, self.gain.low, self.gain.high
        return Figure(name, *(unit * value for value in values))


def decide(paired: Sequence[Paired], rules: Rules, seed: int = 0) -> _Verdict:
    """Decide between champion and challenger.

    The challenger is promoted if the lower confidence bound of its gain on hidden edges exceeds
    the margin; or if that is not below minus half the margin, and that of its gain in NMI exceeds
    `nmi_gain`. No guard (NMI, churn, time, prediction with memory) may be broken. Fewer than
    `_LEAST` windows prove nothing.
    """
    if len(paired) < _LEAST:
        return _Verdict(False, f"{len(paired)} windows could be read; need {_LEAST}", ())
    compared_by = ((name, _compared(paired, name, rules, seed)) for name in _MEASURES)
    found = {name: means for name, means in compared_by if means is not None}
    figures = tuple(means.figure(*_MEASURES[name]) for name, means in found.items())
    hidden, nmi, margin = found["hidden_edges"].gain, found.get("nmi"), _margin_bits(paired, rules)
    if nmi is not None and nmi.n_windows < rules.labelled:
        nmi = None
    compared = (
        f"hidden edges {hidden.mean:+.3f} bits an edge on {len(paired)} windows, with "
        f"{rules.confidence:.0%} confidence at least {hidden.low:+.3f}; margin {margin:.3f}"
    )
    if broken := "; ".join(_broken_guards(found, nmi, rules, margin)):
        return _Verdict(False, f"{broken} ({compared})", figures)
    if hidden.low > margin:
        return _Verdict(True, f"better: {compared}", figures)
    if nmi is not None and nmi.gain.low > rules.nmi_gain:
        agrees = f"NMI {100 * nmi.gain.mean:+.1f} points on {nmi.n_windows} labelled windows"
        if hidden.low > -margin / 2:
            return _Verdict(True, f"better by labels: {agrees}, no worse by {compared}", figures)
        return _Verdict(False, f"{agrees}, but perhaps worse by {compared}", figures)
    return _Verdict(False, f"not clearly better: {compared}", figures)


def _margin_bits(paired: Sequence[Paired], rules: Rules) -> float:
    """The margin in bits per edge."""
    champion = float(np.mean([both.champion.hidden_edges for both in paired]))
    return max(_LEAST_BITS, rules.margin * champion)


_MEASURES: dict[str, tuple[str, float]] = {
    "hidden_edges": ("hidden edges, bits an edge", 1),
    "nmi": ("NMI, %", 100),
    "churn": ("churn, %", 100),
    "predicted": ("prediction with memory, bits an edge", 1),
    "seconds": ("detection, ms of processor time", 1000),
}
"""Each measure of `Measured`, as a figure: its name with the unit, and what it is multiplied by."""


def _compared(paired: Sequence[Paired], name: str, rules: Rules, seed: int) -> _Compared | None:
    both = [(getattr(pair.champion, name), getattr(pair.challenger, name)) for pair in paired]
    values = [(a, b) for a, b in both if a is not None and b is not None]
    if not values:
        return None
    average = np.median if name == "seconds" else np.mean  # a first one may compile code
    champion, challenger = map(float, average(values, axis=0))
    differences = [b - a for a, b in values]
    gain = _paired_bootstrap(differences, rules.confidence, seed, average=average)
    return _Compared(len(values), champion, challenger, gain)


def _broken_guards(
    found: dict[str, _Compared], nmi: _Compared | None, rules: Rules, margin: float
) -> Iterator[str]:
    hidden, seconds = found["hidden_edges"].gain, found["seconds"]
    churn, predicted = found.get("churn"), found.get("predicted")
    if nmi is not None and nmi.gain.mean < -rules.nmi_loss:
        yield f"NMI falls by {-100 * nmi.gain.mean:.1f} points"
    excused = hidden.low > _FAR_BETTER * margin
    if churn and not excused and churn.challenger > churn.champion + rules.churn_loss:
        yield f"churn rises from {churn.champion:.0%} to {churn.challenger:.0%}"
    if seconds.challenger > rules.slowdown * seconds.champion:
        yield f"detection takes {seconds.challenger:.3f} s instead of {seconds.champion:.3f}"
    if predicted and predicted.gain.mean < -hidden.mean and predicted.gain.high < -margin:
        yield f"with memory, prediction of the next window falls by {-predicted.gain.mean:.3f}"


@dataclass(frozen=True, slots=True)
class _Watched:
    """The state of a new champion: `watching`, `confirmed`, or `worse` (roll back)."""

    state: Literal["watching", "confirmed", "worse"]
    reason: str


def watch(paired: Sequence[Paired], windows: int, rules: Rules, seed: int = 0) -> _Watched:
    """Judge a new champion by the first of so many `windows` after it was promoted.

    It is worse if its score on hidden edges is below that of the previous model: with confidence
    from the fourth window on, and by more than the margin after all windows. In `paired`, the
    previous model is the champion, and the new one the challenger.
    """
    if len(paired) < min(_LEAST, windows):
        return _Watched("watching", f"{len(paired)} of {windows} windows since the swap")
    gains = [both.challenger.hidden_edges - both.champion.hidden_edges for both in paired]
    gain = _paired_bootstrap(gains, rules.confidence, seed)
    compared = (
        f"hidden edges {gain.mean:+.3f} bits an edge against the previous model on "
        f"{len(paired)} of {windows} windows since the swap"
    )
    if gain.high < 0 or (len(paired) >= windows and gain.mean < -_margin_bits(paired, rules)):
        return _Watched("worse", compared)
    return _Watched("confirmed" if len(paired) >= windows else "watching", compared)
