"""The gate: measure champion and challenger, and decide whether the second one replaces the first.

Both are judged on windows that they did not see. Hidden edges decide, since they need no labels:
these may be late, wrong or poisoned. Labels can only add to it: they veto a challenger that is
worse by them, and they decide between models that predict hidden edges equally well.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, tee
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from stream_icd.core.arrays import Labels
from stream_icd.core.lineage import Figure
from stream_icd.history.replay.compare import LabelledNodes, churn
from stream_icd.learning.retraining.settings import Retraining, Rules
from stream_icd.learning.retraining.state import ScoredWindow
from stream_icd.learning.retraining.windows import ArchivedLesson, Lesson, read_lessons
from stream_icd.learning.training.yardstick import judge
from stream_icd.methods.graphs.weights import comparable
from stream_icd.methods.model import MethodChoice, Model
from stream_icd.methods.quality.agreement import nmi, of_known
from stream_icd.methods.quality.partition import mean_hidden_edge_score
from stream_icd.registry.find import open_model
from stream_icd.streaming.detection.detect import detect


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
    low: float
    mean: float
    high: float


def _paired_bootstrap(
    differences: ArrayLike, confidence: float, seed: int = 0, average: Callable[..., Any] = np.mean
) -> _Interval:
    """The mean of the differences; the true mean is above `low` with this confidence.

    It is also below `high` with this confidence (each end is one-sided). The ends are quantiles of
    the means of windows drawn with replacement (Efron, 1979).

    differences: (n,), at least one.

    >>> _paired_bootstrap([1.0, 1.0, 1.0], 0.99)
    _Interval(low=1.0, mean=1.0, high=1.0)
    """
    values = np.asarray(differences, np.float64)
    drawn = np.random.default_rng(seed).integers(len(values), size=(_RESAMPLES, len(values)))
    means = average(values[drawn], axis=1)
    low, high = np.quantile(means, [1 - confidence, confidence])
    return _Interval(float(low), float(average(values)), float(high))


_RESAMPLES = 10_000

_LEAST = 4
"""Fewest windows for a decision, except at the end of a shorter watch."""

_LEAST_BITS = 0.002
"""Smallest margin, in bits per edge, for streams whose hidden edges are hardly predictable."""

_FAR_BETTER = 10
"""Gain on hidden edges, in margins, that outweighs churn."""


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
    measured = {name: means for name, means in compared_by if means is not None}
    figures = tuple(means.figure(*_MEASURES[name]) for name, means in measured.items())
    hidden, nmi = measured["hidden_edges"].gain, measured.get("nmi")
    margin = _margin_bits(paired, rules)
    if nmi is not None and nmi.n_windows < rules.labelled:
        nmi = None
    compared = (
        f"hidden edges {hidden.mean:+.3f} bits an edge on {len(paired)} windows, with "
        f"{rules.confidence:.0%} confidence at least {hidden.low:+.3f}; margin {margin:.3f}"
    )
    if broken := "; ".join(_broken_guards(measured, nmi, rules, margin)):
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
    champion = float(np.mean([pair.champion.hidden_edges for pair in paired]))
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
    measures = [(getattr(pair.champion, name), getattr(pair.challenger, name)) for pair in paired]
    values = [(a, b) for a, b in measures if a is not None and b is not None]
    if not values:
        return None
    average = np.median if name == "seconds" else np.mean  # a first one may compile code
    champion, challenger = map(float, average(values, axis=0))
    differences = [b - a for a, b in values]
    gain = _paired_bootstrap(differences, rules.confidence, seed, average=average)
    return _Compared(len(values), champion, challenger, gain)


def _broken_guards(
    measured: dict[str, _Compared], nmi: _Compared | None, rules: Rules, margin: float
) -> Iterator[str]:
    hidden, seconds = measured["hidden_edges"].gain, measured["seconds"]
    churn, predicted = measured.get("churn"), measured.get("predicted")
    if nmi is not None and nmi.gain.mean < -rules.nmi_loss:
        yield f"NMI falls by {-100 * nmi.gain.mean:.1f} points"
    # A champion that finds nothing has no churn, and would keep off any that finds something.
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
    gains = [pair.challenger.hidden_edges - pair.champion.hidden_edges for pair in paired]
    gain = _paired_bootstrap(gains, rules.confidence, seed)
    compared = (
        f"hidden edges {gain.mean:+.3f} bits an edge against the previous model on "
        f"{len(paired)} of {windows} windows since the swap"
    )
    if gain.high < 0 or (len(paired) >= windows and gain.mean < -_margin_bits(paired, rules)):
        return _Watched("worse", compared)
    return _Watched("confirmed" if len(paired) >= windows else "watching", compared)


def compare_job(
    settings: Retraining,
    lessons: Sequence[ArchivedLesson],
    warm_up: Sequence[ArchivedLesson],
    most: int,
    champion: str,
    challenger: str,
) -> list[Paired]:
    """Compare two models, given by paths or URIs, on the first windows that can be read.

    For `warm_up`, see `compare_models`.
    """
    models = open_model(champion).model, open_model(challenger).model
    first = islice(read_lessons(settings.archive, lessons), most)
    before = read_lessons(settings.archive, warm_up)
    return compare_models(
        first,
        *models,
        settings.seed,
        method=settings.method,
        warm_up=before,
        remember=settings.memory == "auto",
    )


def score_job(
    settings: Retraining,
    lessons: Sequence[ArchivedLesson],
    warm_up: Sequence[ArchivedLesson],
    model_name: str,
) -> list[ScoredWindow]:
    """Measure a model on hidden edges, and NMI, as of a detector, where windows are labelled.

    `warm_up`: the windows before, which a detector had seen.
    """
    model, seed, method = open_model(model_name).model, settings.seed, settings.method
    labelled = {window.name for window, labels in lessons if labels is not None}
    # Only NMI is measured with memory: hidden edges need no windows before.
    before = read_lessons(settings.archive, warm_up if labelled else ())
    windows, followed = tee(chain(before, read_lessons(settings.archive, lessons)))
    graphs = (lesson.graph(by_labels=False) for lesson in followed)
    remember = settings.memory == "auto"
    judged = judge(graphs, [model] if labelled else [], seed, method=method, remember=remember)
    to_score, scored = {window.name for window, _ in lessons}, []
    for lesson, of_window in zip(windows, judged, strict=True):
        name = lesson.snapshot.graph, lesson.snapshot.id
        if name in to_score:
            predicted = hidden_edges(lesson, model, seed, method)
            agreement = _nmi(lesson, of_window[0].communities) if of_window else None
            scored.append(ScoredWindow(*name, predicted, name in labelled, agreement))
    return scored


def compare_models(
    lessons: Iterable[Lesson],
    champion: Model,
    challenger: Model,
    seed: int = 0,
    cpu_clock: Callable[[], float] = time.process_time,
    method: MethodChoice = "auto",
    warm_up: Iterable[Lesson] = (),
    remember: bool = True,
) -> list[Paired]:
    """Measure both models on each window; both see the same hidden edges.

    Each model follows the windows of a graph, in time order, as a detector does: by its own method,
    unless `method` is another one, with its own memory if detectors `remember`, and with K where
    the window states it. The windows of `warm_up`, which are not measured, come first. The score on
    hidden edges is that of single windows: memory would know them from the windows before.
    """
    models = champion, challenger
    warm = list(warm_up)
    # Both sides are read in step, so that `tee` holds one window at most.
    lessons, windows = tee(chain(warm, lessons))
    graphs = (lesson.graph(by_labels=False) for lesson in windows)
    all_judged = judge(graphs, models, seed, cpu_clock, method, remember)
    before: dict[tuple[str, int], LabelledNodes] = {}
    paired = []
    for at, (lesson, of_models) in enumerate(zip(lessons, all_judged, strict=True)):
        measured = []
        for number, (model, judged) in enumerate(zip(models, of_models, strict=True)):
            of_model = lesson.snapshot.graph, number
            last = before.get(of_model)
            # Also in the warm-up, so that the first measured window has a churn.
            before[of_model] = LabelledNodes(lesson.snapshot.nodes, judged.communities)
            if at < len(warm):
                continue
            measured.append(
                Measured(
                    hidden_edges=hidden_edges(lesson, model, seed, method),
                    seconds=judged.seconds,
                    predicted=judged.bits,
                    nmi=_nmi(lesson, judged.communities),
                    churn=None if last is None else churn(last, before[of_model]),
                )
            )
        if measured:
            paired.append(Paired(*measured))
    return paired


def hidden_edges(
    lesson: Lesson, model: Model, seed: int = 0, method: MethodChoice = "auto"
) -> float:
    """How well the model's communities predict hidden edges of a window, bits per edge."""
    k = lesson.snapshot.n_communities

    def find(adjacency: csr_array) -> Labels:
        return detect(adjacency, model, k, method=method, seed=seed, threads=1).communities

    score = mean_hidden_edge_score(comparable(lesson.snapshot.adjacency()), find, seed)
    assert score is not None, "a model finds communities in every graph"
    return score


def _nmi(lesson: Lesson, labels: Labels) -> float | None:
    if lesson.labels is None:
        return None
    return nmi(*of_known(lesson.labels, labels))
