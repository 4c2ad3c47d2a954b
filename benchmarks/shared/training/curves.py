"""How good an encoder is after how many steps of training; the curve goes on where it stopped."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file

from benchmarks.shared.graphs.training_sets import TrainingSet
from benchmarks.shared.kept import Figures
from stream_icd.learning.training.icd.train_encoder import Adversaries
from stream_icd.learning.training.icd.training_graph import TrainingGraph
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.icd.clustering import cluster
from stream_icd.methods.icd.encoder.contract import Differentiable, Weights, encoder
from stream_icd.methods.icd.encoder.neighbourhood import Neighbourhood
from stream_icd.methods.icd.recipe import Recipe
from stream_icd.methods.model import Model
from stream_icd.methods.quality.agreement import nmi
from stream_icd.methods.quality.partition import modularity
from stream_icd.streaming.detection.detect import detect

STEPS = "steps"
"""Name of the number of steps in the file of a state."""

N_INDUCED = 3
"""Training graphs on which the label-induced embedding and the embedding itself are measured."""


Find = Callable[[Model, LabelledGraph], NDArray[np.int32]]
"""The communities of a labelled graph with a model, as many as its labels."""


def find_on(device: str) -> Find:
    """Find communities with the encoder on a device: what the library does, for a GPU."""

    def find(model: Model, graph: LabelledGraph) -> NDArray[np.int32]:
        tensors = TrainingGraph.of(graph, model.recipe, device)
        return _clustered(model, graph, tensors, tensors.neighbourhood, device)

    return find


def find_by_library(model: Model, graph: LabelledGraph) -> NDArray[np.int32]:
    """Detect as a user would."""
    return detect(
        graph.adjacency,
        model,
        graph.n_communities,
        method="icd",
        seed=model.recipe.seed,
        threads=1,
    ).communities


class Curve:
    """The training of one recipe on one set; `points` has its scores after some steps.

    The state of the training is saved before each point. Training starts from the recipe's initial
    weights, or from those of `start`. `find` finds communities with a model; the default is the
    library's detection.
    """

    def __init__(
        self,
        recipe: Recipe,
        graphs: TrainingSet,
        folder: Path,
        start: Weights | None = None,
        find: Find | None = None,
        device: str = "cpu",
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._recipe, self._graphs, self._device = recipe, graphs, device
        self._find = find or (find_by_library if device == "cpu" else find_on(device))
        self._points, self._state = folder / "points.jsonl", folder / "state.safetensors"
        self.points = read_points(folder)
        self._players = Adversaries(recipe, device)
        for name, weight in (start or {}).items():
            self._players.generator[name].data.copy_(torch.from_numpy(weight))
        self.steps = -1
        if self._state.exists():
            state = load_file(self._state)
            self.steps = int(state.pop(STEPS))
            self._players.restore(state)

    def model(self) -> Model:
        """The encoder as it is now."""
        return Model(self._recipe, trained=self._players.generator_weights())

    def advance(self, steps: int, prepared: Sequence[TrainingGraph]) -> None:
        """Train so many steps more, and measure; the first call measures the untrained encoder."""
        losses = self._train(steps, prepared) if self.steps >= 0 else {}
        self.steps = self.steps + steps if self.steps >= 0 else 0
        state = {name: tensor.contiguous() for name, tensor in self._players.state().items()}
        save_file({**state, STEPS: torch.tensor(self.steps)}, self._state)
        self._measure(losses, prepared)

    def _train(self, steps: int, prepared: Sequence[TrainingGraph]) -> Figures:
        rng = np.random.default_rng([self._recipe.seed, 2, self.steps])
        found = []
        for index in rng.integers(len(prepared), size=steps):
            graph = prepared[index]
            n_rows = self._recipe.losses.rows
            rows = None if n_rows is None else rng.choice(graph.n_nodes, n_rows, replace=False)
            found.append(self._players.step(graph, rows))
        return {name: float(np.mean([one[name] for one in found])) for name in found[0]}

    def _measure(self, losses: Figures, prepared: Sequence[TrainingGraph]) -> None:
        model = self.model()
        seen = self._graphs.training[:N_INDUCED]
        point = {
            "steps": self.steps,
            "training": self._score(model, seen),
            "validation": self._score(model, self._graphs.validation),
            "test": self._score(model, self._graphs.test),
            "induced": float(
                np.mean([self._induced(model, *pair) for pair in zip(seen, prepared, strict=False)])
            ),
            **losses,
        }
        if self._recipe.encoder.kind == "hops":
            point["weights"] = {name: w.tolist() for name, w in model.weights.items()}
        self.points.append(point)
        with self._points.open("a") as file:
            file.write(json.dumps(point) + "\n")

    def _score(self, model: Model, graphs: Sequence[LabelledGraph]) -> float:
        """The mean of NMI with the labels, or of modularity, in percent."""
        qualities = [
            _quality(graph, self._find(model, graph), self._graphs.measure) for graph in graphs
        ]
        return float(np.mean(qualities))

    def _induced(self, model: Model, graph: LabelledGraph, tensors: TrainingGraph) -> float:
        """NMI of the communities in the label-induced embedding with the labels, in percent."""
        found = _clustered(model, graph, tensors, tensors.label_induced, self._device)
        return _quality(graph, found, "NMI")


def read_points(folder: Path) -> list[Figures]:
    """The points of a curve so far."""
    path = folder / "points.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _quality(graph: LabelledGraph, found: NDArray[np.int32], measure: str) -> float:
    if measure == "modularity":
        return 100 * modularity(graph.adjacency, found)
    assert graph.labels is not None
    return 100 * nmi(graph.labels, found)


def _clustered(
    model: Model,
    graph: LabelledGraph,
    tensors: TrainingGraph,
    neighbourhood: Neighbourhood,
    device: str,
) -> NDArray[np.int32]:
    """K-means of a graph's embedding, with one of its neighbourhoods."""
    weights = {name: torch.from_numpy(one).to(device) for name, one in model.weights.items()}
    trained = encoder(model.recipe.encoder)
    assert isinstance(trained, Differentiable)
    with torch.no_grad():
        embedding = trained.forward(weights, tensors.features, neighbourhood)
    assert graph.n_communities is not None
    return cluster(embedding.cpu().numpy(), graph.n_communities, seed=model.recipe.seed)


def prepared_graphs(
    graphs: TrainingSet, recipe: Recipe, device: str = "cpu"
) -> list[TrainingGraph]:
    """The training graphs as tensors."""
    return [TrainingGraph.of(graph, recipe, device) for graph in graphs.training]
