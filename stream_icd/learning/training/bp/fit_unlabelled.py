"""Learn bp's parameters without labels: from single graphs, or from consecutive windows of one.

*Hidden edges* (`quality.partition`) detect small communities too, but are noisy on a small
graph. *Description length* (`quality.partition`) has little noise, but joins very small
communities. So of the choices that predict hidden edges as well as the best one, within one
standard error of the difference, the one with the least description length is selected. It is
compared in the same way with the search of each graph for its own resolution, which needs no
learning.

On consecutive windows, a window's communities are judged by the bits that they save on the edges of
the *next window* that are new. No edge has to be hidden, and with memory, later windows show what a
single one does not. Of the choices that save as many bits as the best one, again the one with the
least description length, of the last window, is selected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, compress, groupby, islice
from math import log
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from stream_icd.core.arrays import Labels
from stream_icd.learning.training.bp.fitted import (
    SIZE_SPREADS,
    Fit,
    FitOptions,
    Tried,
    as_good,
    candidate,
)
from stream_icd.learning.training.yardstick import PreparedWindow
from stream_icd.methods.bp.belief_propagation import PlantedModel, believe
from stream_icd.methods.bp.find import found_exactly
from stream_icd.methods.bp.level_graph import finest_level
from stream_icd.methods.bp.likelihood import bounded_mixing, mixing_of
from stream_icd.methods.bp.modularity import maximise_modularity
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.graphs.weights import comparable
from stream_icd.methods.memory.detect import detect_window
from stream_icd.methods.memory.memory import Memory
from stream_icd.methods.quality.partition import HiddenEdges, description_length, hide_edges

RESOLUTIONS = tuple(2.0 ** (half_octave / 2) for half_octave in range(-2, 21))
"""Candidate resolutions: 0.5 to 1,024 in steps of √2. The best one grows with the number of
communities: 450 for 50,000 nodes in 5,815 communities."""

_SPLITS = 5
"""Number of tenths of each graph's edges to hide, one after the other."""

_EVIDENCE = 2000
"""Number of hidden edges after which the worse half of the choices is dropped; it doubles for each
further round. On small graphs, where the criterion is noisy, no choice is dropped early."""

_SEARCHING = BpParameters(search=True)
"""Each graph searches for its own resolution, as with the model `default`."""

FEWEST = 3
"""Minimum number of windows to learn from."""

_N_HALVINGS = 2
"""After each of the first windows with a forecast, this many times, the worse half is dropped."""

_UNRELATED, _MOST_STAY = 0.1, 0.98
"""A stay probability below the first counts as 0: such windows are no use to each other. The second
is the upper limit of a learned one."""

_LEAST_SAVED = 10.0
"""Nats that communities must save on the edges of all next windows; where windows are unrelated,
the best choice saves 0 to 2 by chance."""


class _Result(NamedTuple):
    hidden_edges: float
    description_length: float
    mixing: float


@dataclass(frozen=True, slots=True, eq=False)
class _Choice:
    """A resolution and a size spread, and the results; without a resolution, `_SEARCHING`."""

    resolution: float = 0.0
    size_spread: float | None = None
    results: list[_Result] = field(default_factory=list)

    def mean(self, name: str) -> float:
        # Rounded, so that equal scores stay equal whatever the order of a sum.
        return float(np.round(np.mean([getattr(result, name) for result in self.results]), 9))

    @property
    def parameters(self) -> BpParameters:
        if not self.resolution:
            return _SEARCHING
        return candidate(self.resolution, self.size_spread, self.mean("mixing"))

    def tried(self) -> Tried:
        length = self.mean("description_length")
        return Tried(
            self.parameters, hidden_edges=self.mean("hidden_edges"), description_length=length
        )


def fit_unlabelled(graphs: Sequence[csr_array], work: FitOptions = FitOptions()) -> Fit:
    """The best parameters for these graphs by the criteria above.

    The mixing of each choice is that of the communities found, averaged over the graphs. `graphs`
    are canonical adjacencies, at least one, with edges; `comparable` rescales their weights.
    """
    of_graph = [islice(hide_edges(comparable(graph), work.seed), _SPLITS) for graph in graphs]
    # Graphs in turn, so that a round has one split of many graphs, not all splits of the first.
    splits = list(chain.from_iterable(zip(*of_graph, strict=True)))
    rounds = _rounds(splits)
    remaining = choices = [_Choice(r, spread) for r in RESOLUTIONS for spread in SIZE_SPREADS]
    n_kept = [max(len(choices) >> number, 4) for number in range(len(rounds))]
    n_steps = sum(n * len(of_round) for n, of_round in zip(n_kept, rounds, strict=True))
    done = work.steps("learn from hidden edges", n_steps)
    for number, of_round in enumerate(rounds):
        if number:
            best_first = sorted(
                remaining, key=lambda choice: choice.mean("hidden_edges"), reverse=True
            )
            remaining = [choice for choice in remaining if choice in best_first[: n_kept[number]]]
        _try(remaining, of_round, work, done)
    learned = _best(remaining)
    searching = _Choice(results=work.each(lambda choice: _searched(choice, work.seed), splits))
    # The search comes first: of equal ones, `_best` takes the first.
    chosen = _best([searching, learned])
    return Fit(
        chosen.parameters,
        "default" if chosen is searching else "hidden edges",
        len(graphs),
        tuple(choice.tried() for choice in choices if choice.size_spread == learned.size_spread),
    )


def _rounds(splits: list[HiddenEdges]) -> list[list[HiddenEdges]]:
    """Group the splits into rounds: each ends when enough edges were hidden in total."""
    rounds: list[list[HiddenEdges]] = [[]]
    n_hidden, enough = 0, _EVIDENCE
    for split in splits:
        if n_hidden >= enough:
            rounds.append([])
            enough *= 2
        rounds[-1].append(split)
        n_hidden += len(split.weights)
    return rounds


def _try(
    choices: Sequence[_Choice],
    splits: Sequence[HiddenEdges],
    work: FitOptions,
    done: Callable[[int], None],
) -> None:
    """Add the result on each split to each choice; those of a resolution share local moves."""
    by_resolution = [list(group) for _, group in groupby(choices, attrgetter("resolution"))]
    runs = [(split, group) for split in splits for group in by_resolution]
    of_runs = work.each(
        lambda run: list(_results_of(*run, work.seed)), runs, lambda run: done(len(run[1]))
    )
    for (_, group), results in zip(runs, of_runs, strict=True):
        for choice, result in zip(group, results, strict=True):
            choice.results.append(result)


def _results_of(split: HiddenEdges, choices: Sequence[_Choice], seed: int) -> Iterator[_Result]:
    graph, rng = finest_level(split.visible), np.random.default_rng(seed)
    start = maximise_modularity(graph, choices[0].resolution, rng)
    for choice in choices:
        labels = start
        if choice.size_spread is not None:  # belief propagation corrects the start's mixing itself
            k = int(start.max()) + 1
            model = PlantedModel(_mixing(split.visible, start), choice.size_spread, k)
            labels = believe(graph, start, k, model, BpParameters().sweeps).likeliest
        yield _result(split, labels)


def _searched(split: HiddenEdges, seed: int) -> _Result:
    graph, rng = finest_level(split.visible), np.random.default_rng(seed)
    return _result(split, found_exactly(graph, _SEARCHING, None, rng).labels)


def _result(split: HiddenEdges, labels: Labels) -> _Result:
    return _Result(
        split.score(labels),
        description_length(split.visible, labels),
        _mixing(split.visible, labels),
    )


def _mixing(adjacency: csr_array, labels: Labels) -> float:
    return bounded_mixing(mixing_of(adjacency, labels))


def _best(choices: Sequence[_Choice]) -> _Choice:
    """Of the choices as good as the best on hidden edges, the one with the shortest description."""
    scores = np.array([[result.hidden_edges for result in choice.results] for choice in choices])
    best = int(np.argmax(np.round(scores.mean(axis=1), 9)))  # (choices, splits) -> (choices,)
    good = compress(choices, as_good(scores, best))
    return min(good, key=lambda choice: round(choice.mean("description_length"), 4))


@dataclass(frozen=True, slots=True)
class _Trial:
    parameters: BpParameters
    memory: Memory | None = None
    bits: tuple[float, ...] = ()  # per edge of each window but the first, by communities before it
    nats: float = 0.0  # saved on all these edges together
    stays: tuple[float, ...] = ()  # η of each window but the first; 0: unrelated to the past
    length: float = 0.0  # description length of the last window, bits per edge

    @property
    def kind(self) -> tuple[bool, float]:
        """What trials that differ only in resolution have in common."""
        return self.parameters.mixing is None, self.parameters.size_spread

    @property
    def score(self) -> float:
        # Rounded, so that equal scores stay equal.
        return round(float(np.mean(self.bits)), 9) if self.bits else 0.0

    @property
    def stay(self) -> float:
        """The median over the windows, limited; 0 for unrelated windows."""
        return bounded_stay(float(np.median(self.stays)))

    def learned(self) -> BpParameters:
        """The parameters with the mixing and the stay probability of the windows."""
        assert self.memory is not None
        if self.parameters.mixing is None:  # each graph finds its horizon itself
            return self.parameters
        mixing = bounded_mixing(self.memory.posterior.mixing)
        return replace(self.parameters, mixing=mixing, stay=self.stay)


def fit_stream(windows: Sequence[LabelledGraph], work: FitOptions = FitOptions()) -> Fit | None:
    """The parameters whose communities, with memory, save most bits on each next window's edges.

    None if the windows are unrelated. They are at least `FEWEST` consecutive ones of one graph,
    with their moments; labels are not used.
    """
    prepared = list[PreparedWindow]()
    for window in windows:
        prepared.append(PreparedWindow.of(window, prepared[-1] if prepared else None))
    trials = [_Trial(choice) for choice in _choices(prepared[0], work.seed)]
    halvings = [min(max(at - 1, 0), _N_HALVINGS) for at in range(len(windows))]
    n_trials = [-(-len(trials) // 2**halving) for halving in halvings]
    done = work.steps("learn from next windows", sum(n_trials))
    for following, n_kept in zip(prepared, n_trials, strict=True):
        trials = sorted(trials, key=lambda trial: -trial.score)[:n_kept]
        judge = partial(_after, following, work.seed)
        trials = work.each(judge, trials, lambda _: done())
    at = max(range(len(trials)), key=lambda at: trials[at].score)
    if not trials[at].stay or trials[at].nats < _LEAST_SAVED:
        return None
    good = as_good(np.array([trial.bits for trial in trials]), at)
    best = min(compress(trials, good), key=lambda trial: trial.length)
    curve = sorted(
        (trial for trial in trials if trial.kind == best.kind),
        key=lambda trial: trial.parameters.resolution,
    )
    tried = tuple(Tried(trial.learned(), next_window=trial.score) for trial in curve)
    return Fit(best.learned(), "the next window", len(windows), tried, len(windows))


def bounded_stay(stay: float) -> float:
    """A learned stay probability within its limits; 0 for unrelated windows."""
    return min(stay, _MOST_STAY) if stay >= _UNRELATED else 0.0


def _choices(first: PreparedWindow, seed: int) -> Iterator[BpParameters]:
    """All choices; the mixing of each is that of the communities that local moves start with."""
    for resolution in RESOLUTIONS:
        start = maximise_modularity(first.graph, resolution, np.random.default_rng(seed))
        mixing = bounded_mixing(mixing_of(first.comparable, start))
        for size_spread in SIZE_SPREADS:
            yield candidate(resolution, size_spread, mixing)


def _after(window: PreparedWindow, seed: int, trial: _Trial) -> _Trial:
    memory, bits, nats, stays = trial.memory, trial.bits, trial.nats, trial.stays
    detected = detect_window(
        window.adjacency,
        window.moment.nodes,
        window.moment.window,
        trial.parameters,
        memory,
        horizon="off",
        seed=seed,
    )
    if memory is not None:
        saved, weight = window.nats_saved_by(memory.nodes, memory.posterior.likeliest)
        bits, nats = (*bits, saved / max(weight, 1e-300) / log(2)), nats + saved
        stays = (*stays, detected.memory.posterior.stay if detected.n_continued else 0.0)
    length = round(description_length(window.comparable, detected.communities), 4)
    return replace(trial, memory=detected.memory, bits=bits, nats=nats, stays=stays, length=length)
