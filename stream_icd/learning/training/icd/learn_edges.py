"""Learn the encoder `edges` from graphs whose communities are known, or known in part.

Each edge with two labelled ends is an example: same community or not. So it does not matter how
communities are numbered, or whether they are the same ones in each graph. Round by round, a
perceptron minimises the cross entropy of these; torch is not needed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import ceil, cos, inf, pi, prod

import numpy as np
from scipy.sparse import csr_array

from stream_icd.core.arrays import Labels
from stream_icd.core.errors import BadSettings
from stream_icd.methods.bp.find import find_communities
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.graphs.adjacency import among, linked_nodes
from stream_icd.methods.graphs.weights import comparable
from stream_icd.methods.icd.encoder.contract import Weights, initial_weights
from stream_icd.methods.icd.encoder.edge_graph import EdgeGraph
from stream_icd.methods.icd.encoder.edges import ROUNDS, corrected, edge_columns, weighted
from stream_icd.methods.icd.features import SparsePlusRankOne, model_features
from stream_icd.methods.icd.recipe import Recipe
from stream_icd.methods.icd.row_blocks import Floats32, single_threaded_blas
from stream_icd.methods.quality.agreement import ami, of_known

_BATCH, _RATE = 2048, 0.01
"""Edges in a step of Adam, and the learning rate, which falls to 0 in each round."""

_PASSES, _FEWEST_STEPS, _MOST_STEPS = 32, 100, 3000
"""Passes over the examples in each round, and limits of its steps. More passes learn few examples
by heart (docs/measured/retraining.md)."""

_MOMENTS = 10
"""How often in a round the validation graphs are asked."""

_CONSTANT = np.float32(1e-6)
"""Least scale of a column. What varies no more is the same on all examples, as the weight of an
edge where graphs have none, and teaches nothing."""

_FIRST_DECAY, _SECOND_DECAY = 0.9, 0.999
"""Of Adam's means of the gradient and of its square (Kingma and Ba, ICLR 2015)."""

_POWERS, _RESOLUTIONS = (0.5, 1.0, 2.0), (0.0, 0.25, 0.5, 1.0)
"""Candidates for bp: the power of the probabilities by which its graph is weighted, and the
resolution of modularity, 0 if description length decides. If labels name fewer communities than the
edges show, as class years among dormitories, a low resolution keeps to theirs."""

_UNWEIGHTED = (0.0, 0.0)
"""Another candidate: a power of 0, with which bp does without what was learned."""

_MOST_JUDGED = 3
"""Graphs, the last ones, on which bp tries these."""

_TURNS = 4
"""How often graphs of no stream are divided into those that teach and those that validate."""

LabelledAdjacency = tuple[csr_array, Labels]
"""A graph, `(n, n)`, canonical, and the labels of its nodes, `(n,)`, negative where unknown."""

_LAYERS = ("first", "first_bias", "second", "second_bias", "last")


@dataclass(frozen=True, slots=True)
class Effort:
    """What learning may take, and whom it tells of its steps."""

    seconds: float = inf  # by the clock; if they are up, the best weights so far are kept
    threads: int = 1
    on_step: Callable[[int, int], None] = lambda _done, _total: None  # steps, and their total
    clock: Callable[[], float] = time.perf_counter


@dataclass(frozen=True, slots=True)
class _LearnedRound:
    """The cross entropy of an edge in a round, nats: before anything was learned, and kept.

    It is that of the validation graphs, or without any, of those that were learned from.
    """

    before: float
    after: float
    steps: int  # done


@dataclass(frozen=True, slots=True, eq=False)
class LearnedEdges:
    """The weights of the encoder, and how they were learned."""

    weights: Weights
    rounds: tuple[_LearnedRound, ...]
    n_examples: int  # edges with two labelled ends, without those of the validation

    @property
    def stopped(self) -> bool:
        """Whether the time was up before all steps were done."""
        return any(round_.steps < _n_steps(self.n_examples) for round_ in self.rounds)

    @property
    def is_better(self) -> bool:
        """Whether the weights are better than those that learning started with."""
        return any(round_.after < round_.before for round_ in self.rounds)


def _n_steps(n_examples: int) -> int:
    """Steps of each round.

    >>> _n_steps(1000), _n_steps(20_000), _n_steps(200_000)
    (100, 313, 3000)
    """
    return min(max(ceil(_PASSES * n_examples / _BATCH), _FEWEST_STEPS), _MOST_STEPS)


def learn_edges(
    graphs: Sequence[LabelledAdjacency],
    recipe: Recipe,
    *,
    validation: Sequence[LabelledAdjacency] = (),
    start: Weights | None = None,
    effort: Effort = Effort(),
    for_bp: bool = True,
) -> LearnedEdges:
    """Learn the weights of the recipe's encoder, which is of kind `edges`.

    In each round, the weights with the least cross entropy on the validation graphs are kept; the
    weights before are among them. The power and the resolution are chosen by the AMI of what bp
    finds there. The same graphs, recipe and start give the same bytes, unless the time is up first.

    Args:
        graphs: to learn from.
        validation: graphs of the same form, such as the newest windows. Empty: the last step of
            each round is kept.
        start: weights to start from, such as the champion's; None: those of the recipe's seed.
        effort: each round gets an equal part of the time that is left.
        for_bp: also choose the power and the resolution.

    Raises `BadSettings` if no edge of the graphs has two labelled ends.
    """
    clock, threads, width = effort.clock, effort.threads, recipe.encoder.widths[-1]
    begun, seconds = clock(), effort.seconds
    weights = {name: w.copy() for name, w in (start or initial_weights(recipe)).items()}
    taught, tests = ([_prepared(*graph, recipe) for graph in part] for part in (graphs, validation))
    n_examples = sum(len(graph.examples) for graph in taught)
    if not n_examples:
        raise BadSettings(
            f"no edge of {len(graphs)} graphs has two labelled ends: give the labels of neighbours"
        )
    tests = [graph for graph in tests if len(graph.examples)]
    rounds = []
    for number in range(ROUNDS):
        seconds_left = begun + seconds - clock()
        columns, test_columns = (
            [graph.columns(number, width, threads) for graph in part] for part in (taught, tests)
        )
        rounds.append(
            _learn_round(
                _examples(taught, columns),
                _examples(tests, test_columns) if tests else None,
                weights,
                number,
                np.random.default_rng([recipe.seed, number]),
                _share_used(clock, seconds_left / (ROUNDS - number)),
                effort.on_step,
            )
        )
        for graph, its_columns in zip(taught + tests, columns + test_columns, strict=True):
            graph.log_odds = corrected(graph.log_odds, its_columns, weights, number)
    # Each candidate costs a detection: if time is up, the numbers of the start stay.
    if for_bp and clock() - begun < seconds:
        judges = (tests or taught)[-_MOST_JUDGED:]
        weights["power"][0], weights["resolution"][0] = _best_for_bp(judges, recipe.seed)
    return LearnedEdges(weights, tuple(rounds), n_examples)


def learn_by_turns(
    graphs: Sequence[LabelledAdjacency],
    recipe: Recipe,
    *,
    start: Weights | None = None,
    effort: Effort = Effort(),
) -> tuple[LearnedEdges, list[Weights]]:
    """Learn from all graphs; and for each graph, weights from others, which it can prove.

    A few graphs do not tell whether weights help others (docs/measured/encoder.md). So each quarter
    of them is left out in its turn, and the power and the resolution are the best over all turns.
    For the arguments and errors, see `learn_edges`: each turn gets an equal part of the time.

    graphs: at least two.
    """
    clock, seconds, n_turns = effort.clock, effort.seconds, min(len(graphs), _TURNS)
    begun = clock()

    def learned(turn: int) -> LearnedEdges:
        rest = [graph for at, graph in enumerate(graphs) if at % n_turns != turn]
        part = replace(
            effort,
            seconds=(begun + seconds - clock()) / (n_turns + 1 - turn),
            on_step=lambda done, total: effort.on_step(turn * total + done, (n_turns + 1) * total),
        )
        return learn_edges(rest, recipe, start=start, effort=part, for_bp=False)

    of_turns = [learned(turn).weights for turn in range(n_turns)]
    turns = [of_turns[at % n_turns] for at in range(len(graphs))]
    whole = learned(n_turns)
    if clock() - begun < seconds:
        judges = [
            _judge(graph, weights, recipe, effort.threads)
            for graph, weights in zip(graphs, turns, strict=True)
        ]
        how = _best_for_bp(judges, recipe.seed)
        for weights in (*of_turns, whole.weights):
            weights["power"][0], weights["resolution"][0] = how
    return whole, turns


def _judge(graph: LabelledAdjacency, weights: Weights, recipe: Recipe, threads: int) -> _Prepared:
    judge = _prepared(*graph, recipe)
    for number in range(ROUNDS):
        columns = judge.columns(number, recipe.encoder.widths[-1], threads)
        judge.log_odds = corrected(judge.log_odds, columns, weights, number)
    return judge


def _best_for_bp(graphs: Sequence[_Prepared], seed: int) -> tuple[float, float]:
    """Return the power and the resolution with which bp agrees best with the labels.

    If it is not `_UNWEIGHTED`, it is a sure gain over that: on two or three graphs, a better mean
    alone is often chance.
    """
    candidates = (_UNWEIGHTED, *product(_POWERS, _RESOLUTIONS))
    scores = {how: [_agreement(graph, how, seed) for graph in graphs] for how in candidates}
    sure = [how for how in candidates if is_sure_gain(scores[how], scores[_UNWEIGHTED])]
    return max(sure, key=lambda how: sum(scores[how]))


def is_sure_gain(scores: Sequence[float], baseline: Sequence[float]) -> bool:
    """Whether scores are no worse on any graph, or in the mean better by two standard errors.

    >>> is_sure_gain([2, 1, 1], [1, 1, 1]), is_sure_gain([9, 8, 9, 4], [5, 5, 5, 5])
    (True, True)
    >>> is_sure_gain([9, 5, 4], [5, 5, 5])
    False
    """
    gains = np.subtract(scores, baseline)
    if (gains >= 0).all():
        return True
    n_graphs = len(gains)
    return n_graphs > 1 and bool(gains.mean() > 2 * gains.std(ddof=1) / np.sqrt(n_graphs))


def _agreement(graph: _Prepared, how: tuple[float, float], seed: int) -> float:
    """AMI with the labels of what bp finds with a power and a resolution, K unknown."""
    power, resolution = how
    reweighted = weighted(graph.graph, graph.log_odds, power)
    communities = find_communities(reweighted, BpParameters.as_weighted(resolution), seed=seed)
    return ami(*of_known(graph.labels, communities))


@dataclass(slots=True, eq=False)
class _Prepared:
    """A graph to learn from, and what the rounds so far say of its edges."""

    graph: EdgeGraph
    features: SparsePlusRankOne
    labels: Labels  # (n,), negative where unknown
    examples: Labels  # edges with two labelled ends
    same: Floats32  # of each example: 1 if both ends have one label, else 0
    log_odds: Floats32  # (E,)

    def columns(self, number: int, width: int, threads: int) -> Floats32:
        return edge_columns(self.graph, self.features, self.log_odds, number, width, threads)


def _prepared(adjacency: csr_array, labels: Labels, recipe: Recipe) -> _Prepared:
    linked = linked_nodes(adjacency)
    linked_only, labels = among(comparable(adjacency), linked), labels[linked]
    graph = EdgeGraph.of(linked_only)
    of_source, of_target = labels[graph.source], labels[graph.target]
    examples = np.flatnonzero((of_source >= 0) & (of_target >= 0)).astype(np.int32)
    same = (of_source == of_target)[examples].astype(np.float32)
    features = model_features(linked_only, recipe)
    return _Prepared(graph, features, labels, examples, same, np.zeros(len(of_source), np.float32))


@dataclass(frozen=True, slots=True, eq=False)
class _Examples:
    columns: Floats32  # (n, n_columns)
    log_odds: Floats32  # (n,), before the round
    same: Floats32  # (n,)

    def loss(self, weights: Weights, number: int) -> float:
        log_odds = corrected(self.log_odds, self.columns.T, weights, number)
        # Not as the logarithm of a probability, which is 0 for large log odds.
        return float((np.logaddexp(0, log_odds) - self.same * log_odds).mean(dtype=np.float64))


def _examples(graphs: Sequence[_Prepared], columns: Sequence[Floats32]) -> _Examples:
    pairs = list(zip(graphs, columns, strict=True))
    return _Examples(
        np.concatenate([of_edges[:, graph.examples].T for graph, of_edges in pairs]),
        np.concatenate([graph.log_odds[graph.examples] for graph in graphs]),
        np.concatenate([graph.same for graph in graphs]),
    )


def _share_used(clock: Callable[[], float], seconds: float) -> Callable[[], float]:
    """Return what tells which share of the time from now on is used up; 1 or more: it is up."""
    begun = clock()
    return lambda: (clock() - begun) / seconds if seconds > 0 else inf


def _learn_round(
    examples: _Examples,
    tests: _Examples | None,
    weights: Weights,
    number: int,
    rng: np.random.Generator,
    share_used: Callable[[], float],
    on_step: Callable[[int, int], None],
) -> _LearnedRound:
    if not weights["last"][number].any():  # never learned: mean and scale are not known
        weights["mean"][number] = examples.columns.mean(axis=0, dtype=np.float64)
        spread = examples.columns.std(axis=0, dtype=np.float64)
        weights["scale"][number] = np.maximum(spread, _CONSTANT)
    # Else random units would read it on other graphs, as on windows that memory has summed.
    weights["first"][number][weights["scale"][number] <= _CONSTANT] = 0
    judges = examples if tests is None else tests
    numbers = np.concatenate([weights[name][number].ravel() for name in _LAYERS])
    layers = _layers(numbers, weights, number)
    # What learning starts with is a candidate, too: the validation never gets worse.
    before = least = judges.loss(weights, number)
    best = numbers.copy()
    mean, square = np.zeros_like(numbers), np.zeros_like(numbers)
    columns = (examples.columns - weights["mean"][number]) / weights["scale"][number]
    step, last = 0, _n_steps(len(columns))
    with single_threaded_blas():
        while step < last and (used := share_used()) < 1:
            # By the clock too: if time is short, the rate still falls to 0 before it is up.
            rate = _RATE * (1 + cos(pi * max(step / last, used))) / 2
            step += 1
            batch = rng.integers(0, len(columns), _BATCH)
            gradient = _gradient(
                columns[batch], examples.log_odds[batch], examples.same[batch], layers
            )
            mean += (1 - _FIRST_DECAY) * (gradient - mean)
            square += (1 - _SECOND_DECAY) * (gradient * gradient - square)
            size = np.sqrt(square / (1 - _SECOND_DECAY**step)) + 1e-8
            numbers -= rate * (mean / (1 - _FIRST_DECAY**step)) / size
            if step * _MOMENTS // last > (step - 1) * _MOMENTS // last:
                _write(layers, weights, number)
                loss = judges.loss(weights, number)
                # Without validation, the loss judges its own examples: the last step is kept.
                if tests is None or loss < least:
                    least, best = loss, numbers.copy()
                on_step(number * last + step, ROUNDS * last)
    _write(_layers(best, weights, number), weights, number)
    return _LearnedRound(before, least, step)


def _layers(numbers: Floats32, weights: Weights, number: int) -> dict[str, Floats32]:
    shapes = {name: weights[name][number].shape for name in _LAYERS}
    parts = np.split(numbers, np.cumsum([prod(shape) for shape in shapes.values()])[:-1])
    named = zip(shapes.items(), parts, strict=True)
    return {name: part.reshape(shape) for (name, shape), part in named}


def _write(layers: dict[str, Floats32], weights: Weights, number: int) -> None:
    for name, layer in layers.items():
        weights[name][number] = layer


def _gradient(
    columns: Floats32, log_odds: Floats32, same: Floats32, layers: dict[str, Floats32]
) -> Floats32:
    """The gradient of the batch's mean cross entropy by all numbers of the layers, flat."""
    last = layers["last"][:-1]
    hidden = np.maximum(columns @ layers["first"] + layers["first_bias"], 0)
    hidden_2 = np.maximum(hidden @ layers["second"] + layers["second_bias"], 0)
    after = log_odds + hidden_2 @ last + layers["last"][-1]
    # Clipped: exp overflows 32 bits beyond 88, and probabilities are 0 or 1 before that.
    slope = (1 / (1 + np.exp(-after.clip(-30, 30))) - same) / np.float32(len(same))
    slope_2 = np.outer(slope, last) * (hidden_2 > 0)
    slope_1 = (slope_2 @ layers["second"].T) * (hidden > 0)
    parts = (
        (columns.T @ slope_1).ravel(),
        slope_1.sum(axis=0),
        (hidden.T @ slope_2).ravel(),
        slope_2.sum(axis=0),
        hidden_2.T @ slope,
        [slope.sum()],
    )
    return np.concatenate(parts).astype(np.float32)
