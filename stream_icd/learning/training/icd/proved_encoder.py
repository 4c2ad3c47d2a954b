"""Give a model the encoder `edges`, and the method that it is better with on graphs of the past.

Weights are kept only if they help on the validation graphs, the newest of those that teach: each
way of using them is tried there beside bp without any. So no weights are called learned that are
not, and a detector that leaves the method to the model detects as was best.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.sparse import csr_array

from stream_icd.core.arrays import NOBODY, Labels
from stream_icd.core.node_ids import common_type
from stream_icd.learning.training.icd.learn_edges import (
    Effort,
    LabelledAdjacency,
    is_sure_gain,
    learn_by_turns,
    learn_edges,
)
from stream_icd.learning.training.icd.taught import Taught
from stream_icd.learning.training.yardstick import WARM_UP, judge
from stream_icd.methods.bp.level_graph import Rows, rows_of
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.graphs.weights import comparable_weights
from stream_icd.methods.icd.encoder.contract import Weights
from stream_icd.methods.icd.recipe import UNTRAINED
from stream_icd.methods.memory.horizon import SIDE_BY_SIDE
from stream_icd.methods.memory.sums import grown
from stream_icd.methods.model import Model
from stream_icd.methods.quality.agreement import ami, of_known
from stream_icd.streaming.detection.detect import detect

_FEWEST_NEWEST, _MOST_NEWEST, _MOST_ENTRIES = 10, 40, 400_000
"""Graphs that the encoder learns from, the newest. More large ones add little
(docs/measured/retraining.md); small ones teach together what one large one does, up to so many
entries. As many have the sums of small windows together."""

_FEWEST_TO_LEAD = 5
"""Validation graphs that it takes to let the encoder lead on a stream: from ten windows of votes,
two of them for validation, it learned what lost 9 of AMI on the later ones."""

_EncoderState = Literal["learned", "its parent's", "not trained"]

_BP, _CONTROL = "bp, no encoder", "icd, untrained encoder"
_LEARNED, _PARENTS = "learned weights", "the parent's weights"


@dataclass(frozen=True, slots=True)
class _ScoredWay:
    """A way to detect, and its mean AMI with labels, 0..1; nodes without one do not count."""

    name: str
    alone: float  # each graph alone, as a detector finds a first window
    remembering: float | None = None  # with memory of the windows before; None: of no stream

    @property
    def mean(self) -> float:
        # First windows and those after a break, found alone, count as much as all others.
        mean = self.alone if self.remembering is None else (self.alone + self.remembering) / 2
        return round(mean, 6)  # rounding in a sum decides nothing


@dataclass(frozen=True, slots=True)
class EncoderProof:
    """What became of a model's encoder, and why."""

    state: _EncoderState
    n_taught: int  # graphs that it could learn from, those that validate included
    n_validation: int = 0
    by_turns: bool = False  # each graph validates what others taught
    scores: tuple[_ScoredWay, ...] = ()  # on the graphs that validate
    chosen: str = ""  # name of the best of them
    stopped: bool = False  # whether learning ended early, since its time was up

    def section(self) -> str:
        """What became of the encoder, and the figures that decided it, for a card in Markdown."""
        section = f"\n## The encoder\n\nIt is **{self.state}**. {self._why()}\n"
        if not self.scores:
            return section
        rows = "\n".join(
            f"| {way.name}{' (taken)' if way.name == self.chosen else ''} | {100 * way.alone:.2f} "
            f"| {'' if way.remembering is None else f'{100 * way.remembering:.2f}'} |"
            for way in self.scores
        )
        n, graphs = self.n_validation, "graph" if self.n_validation == 1 else "graphs"
        on = f"on {n} {graphs} that it did not learn from"
        rule = "The highest mean of both columns"
        if self.by_turns:
            on = f"on {n} graphs, each after learning from others"
            rule = "Of those that are a sure gain over the first, the highest mean"
        return f"""{section}
Mean AMI, %, {on}; K is given only if the source states it.
{rule} is taken; of equal ones, the first. The untrained encoder is shown for comparison.

| method and weights | each graph alone | with memory of the windows before |
|---|---|---|
{rows}
"""

    def _why(self) -> str:
        early = " The time was up before learning ended." if self.stopped else ""
        if not self.n_taught:
            return f"No graph has labels or communities with strong evidence to learn from.{early}"
        n_learned = self.n_taught - (0 if self.by_turns else self.n_validation)
        if self.state == "learned":
            graphs = "graph" if n_learned == 1 else "graphs"
            return f"It learned from {n_learned} {graphs}.{early}"
        enough = "a sure gain on them" if self.by_turns else "better on the newest ones"
        return f"Nothing that {n_learned} graphs taught was {enough}.{early}"


def quarter(n_graphs: int) -> int:
    """How many of these graphs validate: the last quarter, at least one."""
    return max(1, n_graphs // 4)


def newest_graphs(graphs: Sequence[LabelledGraph]) -> Sequence[LabelledGraph]:
    """The last graphs that the encoder learns from."""
    entries = np.cumsum([graph.adjacency.nnz for graph in reversed(graphs[-_MOST_NEWEST:])])
    n_small = int(np.searchsorted(entries, _MOST_ENTRIES, side="right"))
    return graphs[-max(n_small, _FEWEST_NEWEST) :]


def with_edges(
    model: Model,
    taught: Sequence[Taught],
    *,
    parent: Model | None = None,
    effort: Effort = Effort(),
) -> tuple[Model, EncoderProof]:
    """Learn the encoder for a model with bp's numbers, whose recipe names `edges`.

    Of a stream, the newest quarter of the windows validates; of other graphs, each quarter in its
    turn. Nothing is learned from fewer than two.

    Args:
        taught: windows in time order; the `newest_graphs` are used.
        parent: the model before this one. If it has trained weights of the same encoder, learning
            starts from these.
        effort: of the learning; the best weights until its time is up are tried.
    """
    n_newest = len(newest_graphs([teacher.graph for teacher in taught]))
    # Not `-n_newest`, which would be all of them for 0.
    taught = taught[len(taught) - n_newest :]
    before = None
    if parent is not None and parent.recipe.encoder == model.recipe.encoder:
        before = parent.trained
    if not taught:
        if parent is None or before is None:
            return model, EncoderProof("not trained", 0)
        of_parent = replace(model, trained=before, method=parent.method, leads=parent.leads)
        return of_parent, EncoderProof("its parent's", 0)
    if len(taught) > 1 and any(teacher.graph.moment is None for teacher in taught):
        return _by_turns(model, taught, before, effort)
    n_tests = quarter(len(taught))
    pairs = [(teacher.graph.adjacency, teacher.labels) for teacher in taught]
    learned, stopped = None, False
    if len(taught) > n_tests:
        result = learn_edges(
            [*pairs[:-n_tests], *_summed(taught[:-n_tests])],
            model.recipe,
            validation=pairs[-n_tests:],
            start=before,
            effort=effort,
        )
        learned, stopped = result.weights if result.is_better else None, result.stopped
    leads = n_tests >= _FEWEST_TO_LEAD
    ways = {_BP: model}
    for name, weights in ((_PARENTS, before), (_LEARNED, learned)):
        ways |= _ways(name, model, weights, leads=leads)
    chosen, proof = _best_of(ways, taught, n_tests, effort.threads)
    return chosen, replace(proof, stopped=stopped)


def _by_turns(
    model: Model, taught: Sequence[Taught], before: Weights | None, effort: Effort
) -> tuple[Model, EncoderProof]:
    """`with_edges` for graphs of no stream: the best of the ways that are a sure gain on them."""
    graphs = [(teacher.graph.adjacency, teacher.labels) for teacher in taught]
    result, turns = learn_by_turns(graphs, model.recipe, start=before, effort=effort)
    learned = result.weights if result.is_better else None
    whole, *of_turns = (
        {_BP: model} | _ways(_PARENTS, model, before) | _ways(_LEARNED, model, weights)
        for weights in (learned, *(turns if result.is_better else [None] * len(taught)))
    )

    def scored(models: Iterable[Model]) -> list[float]:
        pairs = zip(taught, models, strict=True)
        return [_alone(teacher, model, effort.threads) for teacher, model in pairs]

    scores = {name: scored(ways[name] for ways in of_turns) for name in whole}
    best = _best(scores)
    scores[_CONTROL] = scored([control(model)] * len(taught))
    means = tuple(_ScoredWay(name, float(np.mean(of))) for name, of in scores.items())
    n = len(taught)
    return whole[best], EncoderProof(_state(best), n, n, True, means, best, result.stopped)


def _best(scores: Mapping[str, Sequence[float]]) -> str:
    """The way of the highest mean among those that are a sure gain over bp; bp, if none is.

    >>> _best({_BP: [5, 5, 5], "learned, bp": [9, 5, 4], "learned, icd": [6, 5, 5]})
    'learned, icd'
    >>> _best({_BP: [5, 5, 5], "learned, bp": [9, 5, 4]})
    'bp, no encoder'
    """
    sure = (name for name, of in scores.items() if is_sure_gain(of, scores[_BP]))
    return max(sure, key=lambda name: round(float(np.mean(scores[name])), 6))


def with_weights(
    model: Model, weights: Weights | None, taught: Sequence[Taught], threads: int = 1
) -> tuple[Model, EncoderProof]:
    """Give a model weights that the paper's losses trained.

    weights: None if no epoch was better than the untrained encoder. Otherwise the model keeps them,
        also if bp, which does not use them, is the better method.
    """
    if weights is None:
        return model, EncoderProof("not trained", len(taught))
    trained = replace(model, trained=weights)
    if not taught:
        return trained, EncoderProof("learned", 0)
    ways = {_BP: trained, f"icd, {_LEARNED}": replace(trained, method="icd")}
    chosen, proof = _best_of(ways, taught, quarter(len(taught)), threads)
    return chosen, replace(proof, state="learned")


def _ways(
    name: str, model: Model, weights: Weights | None, *, leads: bool = False
) -> dict[str, Model]:
    """The ways to use weights, by name; if they may lead, memory can let itself be led by them."""
    if weights is None:
        return {}
    trained = replace(model, trained=weights)
    led = {f"bp, led by {name}": replace(trained, leads=True)} if leads else {}
    return {f"bp, {name}": trained, **led, f"icd, {name}": replace(trained, method="icd")}


def _best_of(
    ways: dict[str, Model], taught: Sequence[Taught], n_tests: int, threads: int = 1
) -> tuple[Model, EncoderProof]:
    """The model with the best score on the last graphs; of equal ones, the first.

    The untrained encoder is shown beside them.
    """
    shown = {**ways, _CONTROL: control(ways[_BP])}
    scores = _scored(shown, taught, n_tests, threads)
    # Without the last, the control: it is only shown.
    best = max(scores[:-1], key=lambda way: way.mean).name
    proof = EncoderProof(_state(best), len(taught), n_tests, scores=scores, chosen=best)
    return ways[best], proof


def _state(chosen: str) -> _EncoderState:
    if chosen == _BP:
        return "not trained"
    return "its parent's" if chosen.endswith(_PARENTS) else "learned"


def control(model: Model) -> Model:
    """The untrained encoder to compare with: the recipe's own, and the usual one beside `edges`,
    which has too few columns for K-means before it has learned."""
    recipe = model.recipe
    if recipe.learns_edges:
        recipe = recipe.changed(encoder=UNTRAINED.model_dump())
    return Model(recipe, model.bp, method="icd")


def _scored(
    models: Mapping[str, Model], taught: Sequence[Taught], n_tests: int, threads: int = 1
) -> tuple[_ScoredWay, ...]:
    """Score models, by name, on the last graphs, each found by the model's own method.

    The windows before these come first, so that all start with memory.
    """
    tests = taught[-n_tests:]
    means = [
        float(np.mean([_alone(teacher, model, threads) for teacher in tests]))
        for model in models.values()
    ]
    if any(teacher.graph.moment is None for teacher in tests):
        return tuple(map(_ScoredWay, models, means))
    together = _remembering(list(models.values()), taught[-n_tests - WARM_UP :])[-n_tests:]
    return tuple(map(_ScoredWay, models, means, map(float, np.mean(together, axis=0))))


def _alone(teacher: Taught, model: Model, threads: int) -> float:
    """AMI, 0..1, of what a model finds in a graph by its own method, without memory."""
    moment = teacher.graph.moment
    k = None if moment is None else moment.n_communities
    detection = detect(teacher.graph.adjacency, model, k, threads=threads)
    return _agreement(teacher, detection.communities)


def _remembering(models: Sequence[Model], windows: Sequence[Taught]) -> list[list[float]]:
    windows = [window for window in windows if window.graph.moment is not None]
    graphs = [replace(window.graph, labels=None) for window in windows]
    return [
        [_agreement(window, judged.communities) for judged in of_window]
        for window, of_window in zip(windows, judge(graphs, models), strict=True)
    ]


def _agreement(teacher: Taught, labels: Labels) -> float:
    return ami(*of_known(teacher.labels, labels))


def _summed(taught: Sequence[Taught]) -> list[LabelledAdjacency]:
    """Return sums of the windows so far of each graph, `(n, n)`, with the newest known labels.

    On a stream, the encoder is to weight such a sum, as memory keeps it. Weights learned from
    single windows throw evidence away that a sum has.

    taught: in time order. Graphs of no stream have no sums, and the first window's sum is itself.
    The newest sums come first, while all together have at most as many entries as the windows, or
    `_MOST_ENTRIES`: more would take more time to learn from than the windows.
    """
    by_graph = defaultdict[str, list[Taught]](list)
    for teacher in taught:
        if teacher.graph.moment is not None:
            by_graph[teacher.graph.moment.graph].append(teacher)
    room = max(sum(teacher.graph.adjacency.nnz for teacher in taught), _MOST_ENTRIES)
    sums = list[LabelledAdjacency]()
    for windows in by_graph.values():
        for adjacency, labels in reversed(_sums(windows)[1:]):
            room -= adjacency.nnz
            if room < 0:
                return sums
            sums.append((adjacency, labels))
    return sums


def _sums(windows: Sequence[Taught]) -> list[LabelledAdjacency]:
    of_windows = [
        window.graph.moment.nodes for window in windows if window.graph.moment is not None
    ]
    kind, first = SIDE_BY_SIDE[0], of_windows[0]
    if any(common_type(first, nodes) is None for nodes in of_windows):
        return []
    ids = [nodes.to_numpy(zero_copy_only=False) for nodes in of_windows]
    names = np.unique(np.concatenate(ids))
    shape = len(names), len(names)
    total, sums = Rows.without_edges(len(names)), []
    labels = np.full(len(names), NOBODY, np.int32)
    for window, nodes in zip(windows, ids, strict=True):
        at = np.searchsorted(names, nodes)
        entries = window.graph.adjacency.tocoo()
        weights = comparable_weights(entries.data, kind.within)
        added = csr_array((weights, (at[entries.row], at[entries.col])), shape)
        added.sort_indices()
        total = grown(total, kind.decay, rows_of(added))
        # The sum before has its own labels.
        labels = labels.copy()
        labels[at] = np.where(window.labels >= 0, window.labels, labels[at])
        sums.append((total.adjacency(), labels))
    return sums
