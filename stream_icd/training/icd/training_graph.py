"""A labelled graph as tensors on a device, for training."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stream_icd.errors import BadInput
from stream_icd.graphs.adjacency import among, linked_nodes
from stream_icd.graphs.labelled_graph import LabelledGraph
from stream_icd.graphs.weights import comparable
from stream_icd.icd.encoder.neighbourhood import FeatureTensors, GraphNeighbourhood
from stream_icd.icd.features import model_features
from stream_icd.icd.recipe import Recipe
from stream_icd.training.icd.losses import Reconstruction


@dataclass(frozen=True, slots=True, eq=False)
class TrainingGraph:
    """A graph for training: Z, `(n, L)`, its neighbourhoods, those in A⁽ᵍ⁾, and FR and CR."""

    n_nodes: int
    features: FeatureTensors
    neighbourhood: GraphNeighbourhood
    label_induced: LabelInducedNeighbourhood
    reconstruction: Reconstruction


def prepare(graph: LabelledGraph, recipe: Recipe, device: str = "cpu") -> TrainingGraph:
    """The tensors of a labelled graph, without isolated nodes, as in detection.

    Raises:
        BadInput: the graph has no labels.
    """
    if graph.labels is None:
        raise BadInput("a training graph needs labels: known communities, or pseudo-labels")
    linked = linked_nodes(graph.adjacency)
    adjacency = among(comparable(graph.adjacency), linked)
    labels = np.unique(graph.labels[linked], return_inverse=True)[1].astype(np.int32, copy=False)
    return TrainingGraph(
        adjacency.shape[0],
        FeatureTensors(model_features(adjacency, recipe), device),
        GraphNeighbourhood(adjacency, device),
        LabelInducedNeighbourhood(labels, device),
        Reconstruction(adjacency, labels, recipe.variant, recipe.losses.scaled_structure, device),
    )


class LabelInducedNeighbourhood:
    """The neighbourhoods in A⁽ᵍ⁾ = R Rᵀ, computed without the `(n, n)` matrix.

    R, `(n, K)`, has a 1 for each node's community. So A⁽ᵍ⁾ links each node to its whole community,
    itself included. A convolution adds one more self loop.
    """

    def __init__(self, labels: NDArray[np.int32], device: str = "cpu") -> None:
        self._labels = torch.as_tensor(labels.astype(np.int64), device=device)
        self._sizes = torch.bincount(self._labels)
        order = torch.argsort(self._labels, stable=True)
        self._members = torch.split(order, self._sizes.tolist())

    def convolve(self, hidden: Tensor) -> Tensor:
        """See `Neighbourhood`."""
        return (self.total(hidden) + hidden) / (self._sizes[self._labels] + 1)[:, None]

    def total(self, hidden: Tensor) -> Tensor:
        """See `Neighbourhood`."""
        sums = hidden.new_zeros((len(self._sizes), hidden.shape[1]))
        return sums.index_add(0, self._labels, hidden)[self._labels]

    def attend(self, source: Tensor, target: Tensor, hidden: Tensor) -> Tensor:
        """See `Neighbourhood`; one community at a time, so memory depends on the largest one."""
        result = torch.zeros_like(hidden)
        for members in self._members:
            pairs = source[members, None] + target[None, members]  # (size, size)
            weight = torch.nn.functional.leaky_relu(pairs, 0.2).softmax(dim=1)
            result = result.index_add(0, members, weight @ hidden[members])
        return result
