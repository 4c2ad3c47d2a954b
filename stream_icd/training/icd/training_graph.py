"""A labelled graph as tensors on a device, for training."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream_icd.errors import BadInput
from stream_icd.graphs.labelled_graph import LabelledGraph
from stream_icd.graphs.linked import among, linked_nodes
from stream_icd.graphs.weights import comparable
from stream_icd.icd.encoder.neighbourhood import FeatureTensors, GraphNeighbourhood
from stream_icd.icd.features import model_features
from stream_icd.icd.recipe import Recipe
from stream_icd.training.icd.label_induced import LabelInducedNeighbourhood
from stream_icd.training.icd.losses import Reconstruction


@dataclass(frozen=True, slots=True, eq=False)
class TrainingGraph:
    """The tensors of a graph for one training step.

    Attributes:
        n_nodes: number of nodes, n.
        features: Z, `(n, L)`.
        neighbourhood: the neighbourhoods in the graph.
        label_induced: the neighbourhoods in the label-induced graph A⁽ᵍ⁾.
        reconstruction: computes the losses FR and CR.
    """

    n_nodes: int
    features: FeatureTensors
    neighbourhood: GraphNeighbourhood
    label_induced: LabelInducedNeighbourhood
    reconstruction: Reconstruction


def prepare(graph: LabelledGraph, recipe: Recipe, device: str = "cpu") -> TrainingGraph:
    """Return the tensors of a labelled graph, without isolated nodes, as in detection.

    Raises:
        BadInput: the graph has no labels.
    """
    adjacency, labels = _labelled(graph)
    return TrainingGraph(
        adjacency.shape[0],
        FeatureTensors(model_features(adjacency, recipe), device),
        GraphNeighbourhood(adjacency, device),
        LabelInducedNeighbourhood(labels, device),
        Reconstruction(adjacency, labels, recipe.variant, recipe.losses.scaled_structure, device),
    )


def _labelled(graph: LabelledGraph) -> tuple[csr_array, NDArray[np.int32]]:
    if graph.labels is None:
        raise BadInput("a training graph needs labels: known communities, or pseudo-labels")
    linked = linked_nodes(graph.adjacency)
    adjacency = among(comparable(graph.adjacency), linked)
    labels = np.unique(graph.labels[linked], return_inverse=True)[1]
    return adjacency, labels.astype(np.int32, copy=False)
