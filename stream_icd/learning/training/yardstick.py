"""How good models are on graphs of the past, whose communities are found as a detector finds them.

That is by the model's own method, with memory, and with K where the source states it. Learning, the
model card, `stream-icd evaluate` and the gate of the retrainer ask here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import isnan, log
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from stream_icd.core.arrays import NOBODY, Floats, Labels
from stream_icd.core.node_ids import places
from stream_icd.core.snapshot import Snapshot
from stream_icd.methods.bp.level_graph import LevelGraph, finest_level
from stream_icd.methods.bp.likelihood import nats_saved
from stream_icd.methods.graphs.labelled_graph import LabelledGraph, Moment
from stream_icd.methods.graphs.weights import comparable
from stream_icd.methods.memory.detect import detect_remembering
from stream_icd.methods.memory.memory import Memory
from stream_icd.methods.model import MethodChoice, Model
from stream_icd.methods.quality.agreement import ami, nmi, of_known
from stream_icd.methods.quality.partition import description_length, modularity
from stream_icd.registry.find import open_model
from stream_icd.streaming.detection.detect import detect, finding

DEFAULT = "default"
"""The shipped model that detectors use if no other is given."""

WARM_UP = 5
"""Windows before those of a test that all candidates see first, so that they start with memory."""


@dataclass(frozen=True, slots=True)
class _Judged:
    """How good the communities of one graph are; K is not given.

    Bits are saved, in a stream, by the communities of the window before, on the edges that it
    lacks; for a graph of no stream, by its own in describing it (`quality.partition`).
    """

    bits: float | None  # saved per edge; None in the first window
    communities: Labels = field(compare=False)  # (n_nodes,)
    seconds: float = field(compare=False)  # of detection
    ami: float | None = None  # agreement with the labels, if there are any
    nmi: float | None = None


def judge(
    graphs: Iterable[LabelledGraph],
    candidates: Sequence[Model],
    seed: int = 0,
    clock: Callable[[], float] = time.perf_counter,
    method: MethodChoice = "auto",
    remember: bool = True,
) -> Iterator[tuple[_Judged, ...]]:
    """Yield how good each candidate is on each graph.

    Windows of a stream come in time order. They are found with the candidate's memory of the
    windows before, if detectors `remember` and the candidate has one (`Model.remembers`). Graphs of
    no stream (without a moment) are found alone.
    """
    before: dict[str, PreparedWindow] = {}
    followers = [_Follower(model, method, remember, seed, clock) for model in candidates]
    for graph in graphs:
        moment = graph.moment
        if moment is None:
            yield tuple(follower.alone(graph) for follower in followers)
            continue
        window = before[moment.graph] = PreparedWindow.of(graph, before.get(moment.graph))
        snapshot = graph.snapshot()
        yield tuple(follower.next(graph, snapshot, window) for follower in followers)


@dataclass(slots=True)
class _Follower:
    """Finds communities with a model as a detector does, and keeps what it knows of each graph."""

    model: Model
    method: MethodChoice
    remember: bool
    seed: int
    clock: Callable[[], float]
    memories: dict[str, Memory] = field(default_factory=dict)
    last: dict[str, tuple[pa.Array, Labels]] = field(default_factory=dict)

    def alone(self, graph: LabelledGraph) -> _Judged:
        labels, seconds = self._found_alone(graph)
        bits = -description_length(comparable(graph.adjacency), labels)
        return _judged(graph, labels, seconds, bits)

    def next(self, graph: LabelledGraph, snapshot: Snapshot, window: PreparedWindow) -> _Judged:
        name, last = snapshot.graph, self.last.get(snapshot.graph)
        memory = self.memories.get(name)
        if memory is not None:
            last = memory.nodes, memory.posterior.likeliest
        # Before this window is detected: communities of the one before judge its new edges.
        nats, weight = (0.0, 0.0) if last is None else window.nats_saved_by(*last)
        if self.remember and self.model.remembers(self.method):
            labels, seconds = self._found_remembering(graph, snapshot)
        else:
            labels, seconds = self._found_alone(graph)
        self.last[name] = snapshot.nodes, labels
        return _judged(graph, labels, seconds, nats / weight / log(2) if weight else None)

    def _found_alone(self, graph: LabelledGraph) -> tuple[Labels, float]:
        k = None if graph.moment is None else graph.moment.n_communities
        started = self.clock()
        detection = detect(
            graph.adjacency, self.model, k, method=self.method, seed=self.seed, threads=1
        )
        return detection.communities, self.clock() - started

    def _found_remembering(self, graph: LabelledGraph, snapshot: Snapshot) -> tuple[Labels, float]:
        remembered = detect_remembering(
            snapshot,
            self.model,
            self.memories.get(snapshot.graph),
            snapshot.n_communities,
            find=finding(self.method, self.model, seed=self.seed, threads=1),
            seed=self.seed,
            adjacency=graph.adjacency,
            clock=self.clock,
        )
        self.memories[snapshot.graph] = remembered.memory
        return remembered.communities, remembered.milliseconds / 1000


def _judged(graph: LabelledGraph, labels: Labels, seconds: float, bits: float | None) -> _Judged:
    if graph.labels is None:
        return _Judged(bits, labels, seconds)
    of_labelled = of_known(graph.labels, labels)
    return _Judged(bits, labels, seconds, ami(*of_labelled), nmi(*of_labelled))


def nmi_or_modularity(graph: LabelledGraph, labels: Labels) -> float:
    """NMI with the known labels, 0..1; modularity without labels."""
    if graph.labels is None:
        return modularity(graph.adjacency, labels)
    return nmi(*of_known(graph.labels, labels))


Measure = Literal["AMI, %", "NMI, %", "modularity, %", "bits saved per edge"]


@dataclass(frozen=True, slots=True)
class _Score:
    """Mean score over graphs, and the standard error of that mean, in the measure's unit.

    The error of a single graph is NaN: it is not known.
    """

    mean: float
    error: float

    @property
    def spread(self) -> str:
        """The standard error as it is written after the mean; empty if it is not known."""
        return "" if isnan(self.error) else f" ± {self.error:.2f}"

    def __str__(self) -> str:
        return f"{self.mean:.2f}{self.spread}"


@dataclass(frozen=True, slots=True)
class ModelComparison:
    """Scores of a model and its control on the same graphs, found by the method `name`.

    The control is the shipped model `default`, or the same encoder untrained. Higher is better;
    the gain is the difference, graph by graph.
    """

    name: str
    measure: Measure
    control_name: str
    n_graphs: int
    trained: _Score
    control: _Score
    gain: _Score

    @classmethod
    def of(
        cls, name: str, measure: Measure, control_name: str, scores: ArrayLike
    ) -> ModelComparison:
        """Compare the scores of the model and its control, (n, 2), on n graphs, at least one."""
        trained, control = np.asarray(scores, np.float64).T
        gain = _score(trained - control)
        n_graphs = len(trained)
        return cls(name, measure, control_name, n_graphs, _score(trained), _score(control), gain)

    @property
    def is_gain(self) -> bool:
        """Whether the model is better than its control, by more than the standard error."""
        return self.gain.mean > self.gain.error


def _score(values: Floats) -> _Score:
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return _Score(float(np.mean(values)), float(error))


def compared_with_default(
    model: Model,
    learned: Sequence[LabelledGraph],
    graphs: Iterable[LabelledGraph],
    seed: int = 0,
    *,
    memory: bool,
    on_graph: Callable[[], None] = lambda: None,
) -> list[ModelComparison]:
    """Compare a model with the shipped `default` on graphs that it did not learn from.

    The first comparison decides. The last windows of `learned` come first, so that both start with
    memory.
    """
    before = [graph for graph in learned[-WARM_UP:] if graph.moment is not None]
    models = model, open_model(DEFAULT).model
    judged = list[tuple[_Judged, _Judged]]()
    for number, (of_model, of_default) in enumerate(judge(chain(before, graphs), models, seed)):
        if number >= len(before):
            judged.append((of_model, of_default))
            on_graph()
    measures: tuple[tuple[Measure, str, float], ...] = (
        ("AMI, %", "ami", 100.0),
        ("NMI, %", "nmi", 100.0),
        ("bits saved per edge", "bits", 1.0),
    )
    name = f"{model.method} with memory" if memory else model.method
    comparisons = []
    for measure, attribute, unit in measures:
        scores = [(getattr(a, attribute), getattr(b, attribute)) for a, b in judged]
        pairs = [(unit * a, unit * b) for a, b in scores if a is not None and b is not None]
        if pairs:
            comparisons.append(ModelComparison.of(name, measure, DEFAULT, pairs))
    return comparisons


def verdict(compared: Sequence[ModelComparison]) -> str:
    """Say in one sentence whether to use the model or `default`."""
    if not compared:
        return "not compared: there are no new edges between nodes of earlier windows"
    first = compared[0]
    gain = f"{first.gain.mean:+.2f}{first.gain.spread} {first.measure}"
    graphs = "graph" if first.n_graphs == 1 else "graphs"
    where = f"{first.name}, {first.n_graphs} {graphs} not learned from"
    if first.n_graphs == 1:
        return f"one graph does not tell whether to use it or the model {DEFAULT}: {gain} ({where})"
    if first.is_gain:
        return f"better than the model {DEFAULT}: {gain} ({where})"
    return f"not better than the model {DEFAULT}, so use {DEFAULT}: {gain} ({where})"


@dataclass(frozen=True, slots=True, eq=False)
class PreparedWindow:
    """A window, prepared once for all parameters that are tried on it.

    `unseen` has the edges that the window before lacks, which judge the communities found before,
    or all edges if it lacks none.
    """

    adjacency: csr_array
    comparable: csr_array  # with comparable weights, as in `graph`
    graph: LevelGraph
    unseen: LevelGraph
    moment: Moment

    @classmethod
    def of(cls, window: LabelledGraph, before: PreparedWindow | None) -> PreparedWindow:
        """Prepare a window that has a moment; `before` is that of its graph before it, if any."""
        rescaled, moment = comparable(window.adjacency), window.moment
        assert moment is not None
        graph = finest_level(rescaled)
        unseen = graph
        if before is not None:
            unseen = finest_level(_without(rescaled, moment, before))
            unseen = unseen if unseen.total else graph
        return cls(window.adjacency, rescaled, graph, unseen, moment)

    def nats_saved_by(self, nodes: pa.Array, labels: Labels) -> tuple[float, float]:
        """Nats that communities of the window before save on the unseen edges, and their weight."""
        place = places(self.moment.nodes, nodes)
        before = np.append(labels, NOBODY)[place]  # [-1] for new nodes
        return nats_saved(self.graph, before.astype(np.int32), self.unseen)


def _without(adjacency: csr_array, moment: Moment, before: PreparedWindow) -> csr_array:
    place = places(moment.nodes, before.moment.nodes)
    in_both = np.flatnonzero(place >= 0)
    old = before.comparable[place[in_both]][:, place[in_both]].tocoo()
    n_nodes = adjacency.shape[0]
    known_pairs = in_both[old.row] * n_nodes + in_both[old.col]
    entries = adjacency.tocoo()
    new = ~np.isin(entries.row.astype(np.int64) * n_nodes + entries.col, known_pairs)
    unseen = csr_array(
        (entries.data[new], (entries.row[new], entries.col[new])), shape=adjacency.shape
    )
    unseen.sort_indices()
    return unseen
