"""Learn bp's parameters from graphs with unknown communities.

*Hidden edges* (`quality.partition`) detect small communities too, but are noisy on a small
graph. *Description length* (`quality.partition`) has little noise, but joins very small
communities. So of the choices that predict hidden edges as well as the best one, within one
standard error of the difference, the one with the least description length is selected. It is
compared in the same way with the search of each graph for its own resolution, which needs no
learning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, compress, groupby, islice
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from stream_icd.core.arrays import Labels
from stream_icd.learning.training.bp.fitted import (
    SIZE_SPREADS,
    Fit,
    FitOptions,
    Steps,
    Tried,
    as_good,
    candidate,
)
from stream_icd.methods.bp.belief_propagation import PlantedModel, believe
from stream_icd.methods.bp.find import found_exactly
from stream_icd.methods.bp.level_graph import finest_level
from stream_icd.methods.bp.likelihood import bounded_mixing, mixing_of
from stream_icd.methods.bp.modularity import maximise_modularity
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.graphs.weights import comparable
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


class _Result(NamedTuple):
    """The result of a choice on one graph with hidden edges."""

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
        """Rounded, so that equal scores stay equal whatever the order of a sum."""
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
    splits = list(chain.from_iterable(zip(*of_graph, strict=True)))  # graphs in turn
    rounds = _rounds(splits)
    kept = choices = [_Choice(r, spread) for r in RESOLUTIONS for spread in SIZE_SPREADS]
    n_kept = [max(len(choices) >> number, 4) for number in range(len(rounds))]
    n_steps = sum(n * len(each) for n, each in zip(n_kept, rounds, strict=True))
    steps = work.steps("learn from hidden edges", n_steps)
    for number, of_round in enumerate(rounds):
        if number:
            best_first = sorted(kept, key=lambda one: one.mean("hidden_edges"), reverse=True)
            kept = [one for one in kept if one in best_first[: n_kept[number]]]
        _try(kept, of_round, work, steps)
    learned = _best(kept)
    searching = _Choice(results=work.each(lambda one: _searched(one, work.seed), splits))
    chosen = _best([searching, learned])
    return Fit(
        chosen.parameters,
        "default" if chosen is searching else "hidden edges",
        len(graphs),
        tuple(one.tried() for one in choices if one.size_spread == learned.size_spread),
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
    choices: Sequence[_Choice], splits: Sequence[HiddenEdges], work: FitOptions, steps: Steps
) -> None:
    """Add the result on each split to each choice; those of a resolution share local moves."""
    of_resolutions = [list(some) for _, some in groupby(choices, attrgetter("resolution"))]
    runs = [(split, some) for split in splits for some in of_resolutions]
    found = work.each(
        lambda run: list(_results_of(*run, work.seed)), runs, lambda run: steps.done(len(run[1]))
    )
    for (_, some), results in zip(runs, found, strict=True):
        for choice, result in zip(some, results, strict=True):
            choice.results.append(result)


def _results_of(split: HiddenEdges, choices: Sequence[_Choice], seed: int) -> Iterator[_Result]:
    """The results of choices with one resolution."""
    graph, rng = finest_level(split.visible), np.random.default_rng(seed)
    start = maximise_modularity(graph, choices[0].resolution, rng)
    for choice in choices:
        found = start
        if choice.size_spread is not None:  # belief propagation corrects the start's mixing itself
            k = int(start.max()) + 1
            model = PlantedModel(_mixing(split.visible, start), choice.size_spread, k)
            found = believe(graph, start, k, model, BpParameters().sweeps).likeliest
        yield _result(split, found)


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
    scores = np.array([[result.hidden_edges for result in one.results] for one in choices])
    best = int(np.argmax(np.round(scores.mean(axis=1), 9)))  # (choices, splits) -> (choices,)
    good = compress(choices, as_good(scores, best))
    return min(good, key=lambda choice: round(choice.mean("description_length"), 4))
