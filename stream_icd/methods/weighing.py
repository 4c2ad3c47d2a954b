"""The graph as a trained encoder `edges` weights it, in which bp finds communities."""

from __future__ import annotations

from dataclasses import dataclass

from scipy.sparse import csr_array

from stream_icd.methods.bp.level_graph import LevelGraph, Rows, level_of, rows_of
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.graphs.adjacency import among, linked_nodes
from stream_icd.methods.graphs.weights import comparable
from stream_icd.methods.icd.encoder.contract import Weights
from stream_icd.methods.icd.encoder.edges import Edges
from stream_icd.methods.icd.features import model_features
from stream_icd.methods.icd.recipe import Recipe
from stream_icd.methods.model import Model


@dataclass(frozen=True, slots=True, eq=False)
class Weighing:
    """How a trained encoder `edges` weights graphs for bp."""

    recipe: Recipe
    weights: Weights
    threads: int = 1
    leads: bool = False  # see `Model.leads`

    @classmethod
    def of(cls, model: Model, threads: int = 1) -> Weighing | None:
        """Return how a model weights graphs for bp.

        None unless its encoder `edges` is trained, and helps bp: its power is above 0.
        """
        if model.trained is None or model.recipe.encoder.kind != "edges":
            return None
        # With a power of 0 all weights stay as they are: the encoder's time would be for nothing.
        if not model.trained["power"][0]:
            return None
        return cls(model.recipe, model.trained, threads, model.leads)

    @property
    def parameters(self) -> BpParameters:
        """With which bp finds communities in a graph that was weighted."""
        return BpParameters.as_weighted(float(self.weights["resolution"][0]))

    def __call__(self, adjacency: csr_array) -> csr_array:
        """Return the graph `(n, n)` with other weights, all positive, for the same edges."""
        # As in training: nodes without edges have no row, and weights are comparable.
        graph = among(comparable(adjacency), linked_nodes(adjacency))
        features = model_features(graph, self.recipe)
        weighed = Edges(self.recipe.encoder).weigh(self.weights, features, graph, self.threads)
        return csr_array(
            (weighed.adjacency.data, adjacency.indices, adjacency.indptr), adjacency.shape
        )

    def level(self, graph: Rows) -> LevelGraph:
        """Return a graph as it is weighted, for bp to search."""
        weighed = rows_of(self(graph.adjacency()))
        return level_of(weighed.comparable(self.parameters.weight_exponent))
