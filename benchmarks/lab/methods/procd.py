"""PRoCD: a network pretrained on small generated graphs merges nodes; Infomap does the rest."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from benchmarks.lab.neural import (
    Learned,
    Weights,
    first_weights,
    frozen,
    needs_torch,
    renormalised,
    tensor_of,
    thawed,
    torch_alone,
    train,
)
from stream_icd.core.arrays import Labels
from stream_icd.interfaces.evaluation.method import CONVERT, EvaluatedMethod, Task, module
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_lfr

if TYPE_CHECKING:
    from torch import Tensor

WIDTH = 64
"""Columns of the features and of each layer."""

STEPS, RATE = 100, 5e-3
"""Steps of Adam, each on a new graph, and their rate."""

NODES, MIXINGS = 300, (0.1, 0.6)
"""Nodes of a generated graph, and the range of its mixing."""

STEEPNESS = 5.0
"""What the temperature of a pair is about before training."""

LIKELY = 0.9
"""Least probability of being in one community at which the ends of an edge are merged. The paper
has 0.5 after longer training; here, few wrong edges then join everything."""


def generated(rng: np.random.Generator) -> LabelledGraph:
    """A small graph with known communities; the paper draws its own from degree-corrected block
    models, these are LFR graphs.
    """
    drawn = generate_lfr(
        rng,
        LfrSettings(NODES, max_degree=50, max_community=60, mixing=float(rng.uniform(*MIXINGS))),
    )
    return LabelledGraph(drawn.adjacency(), drawn.communities)


def projected_modularity(adjacency: csr_array, rng: np.random.Generator) -> NDArray[np.float32]:
    """Features X = M R (n, WIDTH), R random, and M the modularity matrix on the edges only, m_ij =
    1 − d_i d_j / 2E (section 4.1).
    """
    rows, columns = adjacency.tocoo().coords
    degrees = np.diff(adjacency.indptr)
    values = 1 - degrees[rows] * degrees[columns] / max(degrees.sum(), 1)
    reduced = csr_array(coo_array((values, (rows, columns)), shape=adjacency.shape))
    drawn = rng.standard_normal((adjacency.shape[0], WIDTH)) / WIDTH**0.5
    return np.asarray(reduced @ drawn, np.float32)


def shapes() -> dict[str, tuple[int, ...]]:
    """A layer for the features, two graph convolutions, and two for the temperature of a pair."""
    names = ("features", "layer.0", "layer.1", "temperature.0", "temperature.1")
    return dict.fromkeys(names, (WIDTH, WIDTH)) | {"shift": (1,)}


def same_community(
    weights: Weights, propagation: Tensor, features: Tensor, edges: tuple[Tensor, Tensor]
) -> Tensor:
    """The logit that both ends of an edge are in one community: τ_ij (1 + shift − ‖z_i − z_j‖²),
    with the temperature τ_ij of the pair (section 4.2).
    """
    from torch.nn.functional import normalize, softplus

    hidden = normalize((features @ weights["features"]).tanh())
    for layer in range(2):
        hidden = normalize((propagation @ (hidden @ weights[f"layer.{layer}"])).tanh())
    starts, ends = edges
    distance = (hidden[starts] - hidden[ends]).square().sum(dim=1)
    left = (hidden @ weights["temperature.0"])[starts]
    temperature = softplus(
        (left * (hidden @ weights["temperature.1"])[ends]).sum(dim=1) + STEEPNESS
    )
    return temperature * (1 + weights["shift"] - distance)


def pretrain(_history: Sequence[LabelledGraph], seed: int) -> Learned:
    """Weights from generated graphs; the past is not used (algorithm 1)."""
    from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy

    rng = np.random.default_rng(seed)
    with torch_alone(seed):
        weights = first_weights(shapes())

        def loss(_step: int) -> Tensor:
            import torch

            graph = generated(rng)
            assert graph.labels is not None
            tensors, (starts, ends) = _tensors(graph.adjacency, rng)
            same = torch.tensor(graph.labels[starts] == graph.labels[ends]).float()
            return cross_entropy(same_community(weights, *tensors), same)

        train(weights, loss, STEPS, RATE)
        return frozen(weights)


def _tensors(adjacency: csr_array, rng: np.random.Generator) -> tuple[Any, Any]:
    import torch

    edges = tuple(coord.astype(np.int64) for coord in adjacency.tocoo().coords)
    features = torch.from_numpy(projected_modularity(adjacency, rng))
    indices = tuple(torch.from_numpy(edge) for edge in edges)
    return (tensor_of(renormalised(adjacency)), features, indices), edges


def merged(task: Task) -> Labels:
    """Components of the edges whose ends are likely in one community (section 4.3)."""
    import torch

    learned = task.learned if task.learned is not None else pretrain((), task.seed)
    with torch_alone(task.seed), torch.no_grad():
        tensors, (starts, ends) = _tensors(task.adjacency, np.random.default_rng(task.seed))
        likely = np.asarray(same_community(thawed(learned), *tensors).sigmoid() > LIKELY)
    kept = coo_array((likely[likely], (starts[likely], ends[likely])), shape=task.adjacency.shape)
    return np.asarray(connected_components(kept)[1], np.int32)


def find(task: Task) -> Labels:
    """Merge, then Infomap on the graph of the merged nodes (algorithm 3)."""
    import igraph

    with task.stage("merge"):
        into = merged(task)
    with task.stage(CONVERT):
        rows, columns = task.adjacency.tocoo().coords
        size = int(into.max()) + 1
        small = coo_array((task.adjacency.data, (into[rows], into[columns])), shape=(size, size))
        upper = csr_array(small).tocoo()
        chosen = upper.coords[0] <= upper.coords[1]
        pairs = np.stack([coord[chosen] for coord in upper.coords], axis=1)
        halves = np.where(pairs[:, 0] == pairs[:, 1], 0.5, 1.0)
        graph = igraph.Graph(
            size, pairs.tolist(), edge_attrs={"weight": upper.data[chosen] * halves}
        )
    with task.stage("refine"):
        random.seed(task.seed)
        found = graph.community_infomap(edge_weights="weight", trials=1)
    return np.array(found.membership, np.int32)[into]


METHODS = {
    "procd": EvaluatedMethod(
        find,
        "Qin, Zhang, Gao, Zhang, Yeung 2024, sections 4.1 to 4.3; refinement by igraph's Infomap",
        k="ignored",
        weighted=False,
        learn=pretrain,
        missing=lambda: needs_torch() or module("igraph", "pip install 'stream-icd[lab]'")(),
    ),
}
