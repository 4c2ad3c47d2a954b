"""The paper's ICD without one of its parts (its section "Ablation Study")."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream_icd.learning.training.icd.training_graph import LabelInducedNeighbourhood, TrainingGraph
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.icd.clustering import cluster
from stream_icd.methods.icd.encoder.contract import encoder
from stream_icd.methods.icd.encoder.neighbourhood import FeatureTensors, GraphNeighbourhood
from stream_icd.methods.icd.features import SparsePlusRankOne, model_features
from stream_icd.methods.icd.recipe import Recipe
from stream_icd.methods.model import Model


def constant_features(adjacency: csr_array, recipe: Recipe) -> SparsePlusRankOne:
    """A matrix of ones in place of Z, `(n, L)`."""
    n, width = adjacency.shape[0], recipe.encoder.n_features
    outer = np.ones(n, np.float32), np.ones(width, np.float32)
    return SparsePlusRankOne(csr_array((n, width), dtype=np.float32), outer)


class Ablation(NamedTuple):
    """What is left of ICD.

    Attributes:
        losses: changes of the recipe's losses.
        features: what the encoder reads as Z.
        has_gnn: False: the encoder maps each node's row of Z alone, through the same layers. That
            is a graph convolution on a graph without edges.
    """

    losses: Mapping[str, float] = {}
    features: Callable[[csr_array, Recipe], SparsePlusRankOne] = model_features
    has_gnn: bool = True

    def recipe(self, whole: Recipe, seed: int) -> Recipe:
        """What to train."""
        return whole.changed(losses=dict(self.losses), seed=seed)

    def prepared(self, graph: LabelledGraph, whole: TrainingGraph, recipe: Recipe) -> TrainingGraph:
        """What is left of the tensors of a graph, all of whose nodes have edges."""
        if self.features is not model_features:
            whole = replace(whole, features=FeatureTensors(self.features(graph.adjacency, recipe)))
        if self.has_gnn:
            return whole
        n = whole.n_nodes
        alone = LabelInducedNeighbourhood(np.arange(n, dtype=np.int32))
        return replace(
            whole, neighbourhood=GraphNeighbourhood(csr_array((n, n))), label_induced=alone
        )

    def embed(self, model: Model, adjacency: csr_array) -> NDArray[np.float32]:
        """U, `(n, d)`."""
        features = self.features(adjacency, model.recipe)
        seen = adjacency if self.has_gnn else csr_array(adjacency.shape)
        return encoder(model.recipe.encoder).embed(model.weights, features, seen)

    def find(self, model: Model, graph: LabelledGraph) -> NDArray[np.int32]:
        """As many communities as labels."""
        assert graph.n_communities is not None
        embedding = self.embed(model, graph.adjacency)
        return cluster(embedding, graph.n_communities, seed=model.recipe.seed)


ABLATIONS = {
    "full": Ablation(),
    "without AL": Ablation({"adversarial": False}),
    "without FR": Ablation({"alpha": 0}),
    "without CR": Ablation({"beta": 0}),
    "without Feat": Ablation(features=constant_features),
    "without GNN": Ablation(has_gnn=False),
}
"""By the names in benchmarks/lab/paper/ablation.csv."""
