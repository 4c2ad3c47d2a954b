"""Learn bp's parameters from graphs with unknown communities.

*Hidden edges* (`quality.hidden_edges`) detect small communities too, but are noisy on a small
graph. *Description length* (`quality.partition`) has little noise, but joins very small
communities. So of the choices that predict hidden edges as well as the best one, within one
standard error of the difference, the one with the least description length is selected. It is
compared in the same way with the search of each graph for its own resolution, which needs no
learning.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, compress, islice

import numpy as np
from scipy.sparse import csr_array

from stream_icd.arrays import Floats, Labels
from stream_icd.bp.belief_propagation import Model, believe
from stream_icd.bp.find import found_exactly
from stream_icd.bp.level_graph import finest_level
from stream_icd.bp.likelihood import bounded_mixing, mixing_of
from stream_icd.bp.modularity import maximise_modularity
from stream_icd.bp.parameters import BpParameters
from stream_icd.graphs.weights import comparable
from stream_icd.quality.hidden_edges import HiddenEdges, hidden_edge_score, hide_edges
from stream_icd.quality.partition import description_length
from stream_icd.training.bp.fitted import (
    SIZE_SPREADS,
    Fit,
    Progress,
    Steps,
    Tried,
    as_good,
    candidate,
    in_threads,
    no_progress,
)

RESOLUTIONS = tuple(2.0 ** (half_octave / 2) for half_octave in range(-2, 21))
"""Candidate resolutions: 0.5 to 1,024 in steps of √2. The best one grows with the number of
communities: 450 for 50,000 nodes in 5,815 communities."""

SPLITS = 5
"""Number of tenths of each graph's edges to hide, one after the other."""

EVIDENCE = 2000
"""Number of hidden edges after which the worse half of the choices is dropped; it doubles for each
further round. On small graphs, where the criterion is noisy, no choice is dropped early."""

Choice = tuple[int, int]
"""Positions in RESOLUTIONS and in SIZE_SPREADS."""

SEARCH: Choice = (-1, -1)
"""The search of each graph for its own resolution, as the model `default` does."""

SEARCHING = BpParameters(search=True)


@dataclass(frozen=True, slots=True)
class _Result:
    """The result of a choice on one graph with hidden edges."""

    hidden_edges: float
    description_length: float
    mixing: float


_Results = dict[Choice, list[_Result]]


def fit_unlabelled(
    graphs: Sequence[csr_array], seed: int = 0, threads: int = 2, progress: Progress = no_progress
) -> Fit:
    """The best parameters for these graphs by the criteria above.

    The mixing of each choice is that of the communities found, averaged over the graphs. `graphs`
    are canonical adjacencies, at least one, with edges; `comparable` rescales their weights.
    """
    of_graph = [islice(hide_edges(comparable(graph), seed), SPLITS) for graph in graphs]
    splits = list(chain.from_iterable(zip(*of_graph, strict=True)))  # graphs in turn
    rounds = _rounds(splits)
    kept = [(r, s) for r in range(len(RESOLUTIONS)) for s in range(len(SIZE_SPREADS))]
    n_kept = [max(len(kept) >> number, 4) for number in range(len(rounds))]
    n_runs = sum(n * len(of_round) for n, of_round in zip(n_kept, rounds, strict=True))
    steps, results = Steps(n_runs, progress), defaultdict[Choice, list[_Result]](list)
    for number, of_round in enumerate(rounds):
        if number:
            score = {choice: _mean(_hidden(results[choice])) for choice in sorted(kept)}
            kept = sorted(score, key=score.__getitem__, reverse=True)[: n_kept[number]]
        _try(kept, of_round, seed, threads, results, steps)
    learned = _choose({choice: results[choice] for choice in kept})
    results[SEARCH] = in_threads(lambda split: _searched(split, seed), splits, threads)
    chosen = _choose({choice: results[choice] for choice in (learned, SEARCH)})
    return Fit(
        _parameters(chosen, results),
        "default" if chosen == SEARCH else "hidden edges",
        len(graphs),
        tuple(_tried((r, learned[1]), results) for r in range(len(RESOLUTIONS))),
    )


def _rounds(splits: list[HiddenEdges]) -> list[list[HiddenEdges]]:
    """Group the splits into rounds: each ends when enough edges were hidden in total."""
    rounds: list[list[HiddenEdges]] = [[]]
    n_hidden, enough = 0, EVIDENCE
    for split in splits:
        if n_hidden >= enough:
            rounds.append([])
            enough *= 2
        rounds[-1].append(split)
        n_hidden += len(split.weights)
    return rounds


def _try(
    choices: Sequence[Choice],
    splits: Sequence[HiddenEdges],
    seed: int,
    threads: int,
    results: _Results,
    steps: Steps,
) -> None:
    """Add the result of each choice on each split to `results`; the choices share local moves."""
    spreads = defaultdict(list)
    for resolution, spread in choices:
        spreads[resolution].append(spread)
    runs = [(split, r, tuple(spreads[r])) for split in splits for r in sorted(spreads)]
    found = in_threads(
        lambda run: list(_results_of(*run, seed)),
        runs,
        threads,
        lambda run: steps.done(len(run[2])),
    )
    for (_, resolution, of_spreads), of_run in zip(runs, found, strict=True):
        for spread, result in zip(of_spreads, of_run, strict=True):
            results[resolution, spread].append(result)


def _results_of(
    split: HiddenEdges, resolution: int, spreads: Sequence[int], seed: int
) -> Iterator[_Result]:
    graph, rng = finest_level(split.visible), np.random.default_rng(seed)
    start = maximise_modularity(graph, RESOLUTIONS[resolution], rng)
    for spread in spreads:
        size_spread, found = SIZE_SPREADS[spread], start
        if size_spread is not None:  # belief propagation corrects the start's mixing itself
            k = int(start.max()) + 1
            model = Model(_mixing(split.visible, start), size_spread, k)
            found = believe(graph, start, k, model, BpParameters().sweeps).likeliest
        yield _result(split, found)


def _searched(split: HiddenEdges, seed: int) -> _Result:
    graph, rng = finest_level(split.visible), np.random.default_rng(seed)
    return _result(split, found_exactly(graph, SEARCHING, None, rng).labels)


def _result(split: HiddenEdges, labels: Labels) -> _Result:
    return _Result(
        hidden_edge_score(split, labels),
        description_length(split.visible, labels),
        _mixing(split.visible, labels),
    )


def _mixing(adjacency: csr_array, labels: Labels) -> float:
    return bounded_mixing(mixing_of(adjacency, labels))


def _mean(values: Sequence[float] | Floats) -> float:
    """Rounded, so that equal scores stay equal whatever the order of a sum."""
    return float(np.round(np.mean(values), 9))


def _hidden(results: Sequence[_Result]) -> Floats:
    return np.array([result.hidden_edges for result in results])


def _choose(results: dict[Choice, list[_Result]]) -> Choice:
    """Of the choices as good as the best on hidden edges, the one with the shortest description."""
    choices = sorted(results)
    scores = np.array([_hidden(results[choice]) for choice in choices])  # (choices, splits)
    best = int(np.argmax(np.round(scores.mean(axis=1), 9)))

    def length(choice: Choice) -> float:
        return round(_mean([result.description_length for result in results[choice]]), 4)

    return min(compress(choices, as_good(scores, best)), key=length)


def _parameters(choice: Choice, results: _Results) -> BpParameters:
    if choice == SEARCH:
        return SEARCHING
    mixing = _mean([result.mixing for result in results[choice]])
    return candidate(RESOLUTIONS[choice[0]], SIZE_SPREADS[choice[1]], mixing)


def _tried(choice: Choice, results: _Results) -> Tried:
    length = _mean([result.description_length for result in results[choice]])
    hidden_edges = _mean(_hidden(results[choice]))
    parameters = _parameters(choice, results)
    return Tried(parameters, hidden_edges=hidden_edges, description_length=length)
