"""Graph neural networks learned on past graphs by GraphSAGE's unsupervised loss.

The ICD paper trains its baselines GraphSAGE, GAT and GIN so, on features that are all 1 (section
"Experiment Setup"). All nodes are then alike to a mean or an attention, and nodes of one degree to
a sum: such a network cannot see communities, whatever it learns (Xu et al. 2019, section 5). The
methods named `-constant` are these baselines. Those without use a random projection of the
adjacency instead, drawn anew in each step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from benchmarks.lab.clustering import DIMENSION, clustered
from benchmarks.lab.neural import (
    Learned,
    Weights,
    first_weights,
    frozen,
    needs_torch,
    row_normalised,
    thawed,
    torch_alone,
    train,
)
from stream_icd.core.arrays import Labels
from stream_icd.interfaces.evaluation.method import EvaluatedMethod, Task
from stream_icd.methods.graphs.labelled_graph import LabelledGraph

if TYPE_CHECKING:
    from torch import Tensor

STEPS, RATE = 50, 1e-3
"""Steps of Adam, each on one of the past graphs in turn, and their rate."""

WALK, PAIRS, NEGATIVES = 5, 1024, 20
"""Longest walk between two nodes of a pair; pairs of a step; negative samples, which the pairs of a
step share (GraphSAGE paper, sections 3.2 and 4; it has 512 pairs, and samples neighbours too)."""

Q = 1.0
"""Weight of the negatives of a pair. GraphSAGE's is their number, 20; with fewer than 20
communities, this pushes nodes of one community apart."""

NEGATIVE_EXPONENT = 0.75
"""Negatives are drawn in proportion to this power of the degree."""

Features = Literal["projected", "constant"]


@dataclass(frozen=True, slots=True)
class Network:
    """A graph neural network.

    Attributes:
        shapes: shapes of its weights for this width of features, hidden layers and embedding.
        prepare: tensors of a graph, made once.
        embed: embedding (n, d) from the weights, these tensors and the features (n, d).
    """

    shapes: Callable[[int], dict[str, tuple[int, ...]]]
    prepare: Callable[[csr_array], Any]
    embed: Callable[[Weights, Any, Tensor], Tensor]


def features_of(kind: Features, rows: csr_array, rng: np.random.Generator) -> Tensor:
    """Features (n, d): ones; or the rows of D⁻¹A at a random projection, each of length 1."""
    import torch

    shape = rows.shape[0], DIMENSION
    if kind == "constant":
        return torch.ones(shape)
    projected = rows @ rng.standard_normal(shape, dtype=np.float32)
    return torch.nn.functional.normalize(torch.from_numpy(projected))


def learn(
    network: Network, kind: Features, history: Sequence[LabelledGraph], seed: int
) -> Learned | None:
    """Weights from past graphs; None without any. Known communities are not used: the loss has no
    place for them.
    """
    graphs = [graph.adjacency for graph in history if graph.adjacency.nnz]
    if not graphs:
        return None
    with torch_alone(seed):
        weights = first_weights(network.shapes(DIMENSION))
        prepared = [network.prepare(graph) for graph in graphs]
        rows = [row_normalised(graph).astype(np.float32) for graph in graphs]
        rng = np.random.default_rng(seed)

        def loss(step: int) -> Tensor:
            at = step % len(graphs)
            embedding = network.embed(weights, prepared[at], features_of(kind, rows[at], rng))
            return unsupervised_loss(embedding, *draw_pairs(graphs[at], rng))

        train(weights, loss, STEPS, RATE)
        return frozen(weights)


def find(network: Network, kind: Features, task: Task) -> Labels:
    """Embed with what was learned, else with what this graph teaches; then K-means."""
    learned = task.learned
    if learned is None:
        with task.stage("train"):
            learned = learn(network, kind, [LabelledGraph(task.adjacency)], task.seed)
    with task.stage("embed"):
        embedding = embed(network, kind, learned, task.adjacency, task.seed)
    return clustered(task, embedding)


def embed(
    network: Network, kind: Features, learned: Learned, adjacency: csr_array, seed: int
) -> NDArray[np.float32]:
    """Embedding (n, d) of a graph."""
    import torch

    with torch_alone(seed), torch.no_grad():
        rows = row_normalised(adjacency).astype(np.float32)
        features = features_of(kind, rows, np.random.default_rng(seed))
        embedding = network.embed(thawed(learned), network.prepare(adjacency), features)
    return np.asarray(embedding)


def unsupervised_loss(embedding: Tensor, nodes: Tensor, near: Tensor, negatives: Tensor) -> Tensor:
    """The mean over pairs of −log σ(z_u·z_v) − Q E log σ(−z_u·z_w), w the negative samples
    (GraphSAGE paper, equation 1). nodes, near: (pairs,); negatives: (NEGATIVES,).
    """
    from torch.nn.functional import logsigmoid

    of_nodes = embedding[nodes]  # (pairs, d)
    positive = (of_nodes * embedding[near]).sum(dim=1)
    negative = of_nodes @ embedding[negatives].T  # (pairs, NEGATIVES)
    return -(logsigmoid(positive) + Q * logsigmoid(-negative).mean(dim=1)).mean()


def draw_pairs(adjacency: csr_array, rng: np.random.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Random nodes, for each a node of a random walk of at most WALK steps, and negatives."""
    import torch

    linked = np.diff(adjacency.indptr)
    nodes = rng.choice(np.flatnonzero(linked), PAIRS)
    near, lengths = nodes, rng.integers(1, WALK + 1, PAIRS)
    for taken in range(WALK):
        following = adjacency.indices[
            adjacency.indptr[near] + (rng.random(PAIRS) * linked[near]).astype(np.int64)
        ]
        near = np.where(taken < lengths, following, near)
    chance = linked**NEGATIVE_EXPONENT
    negatives = rng.choice(len(linked), NEGATIVES, p=chance / chance.sum())
    return torch.tensor(nodes), torch.tensor(near, dtype=torch.int64), torch.tensor(negatives)


def methods_of(name: str, network: Network, source: str) -> dict[str, EvaluatedMethod]:
    """The network on random features, and as the ICD paper has it, on constant ones."""
    kinds: tuple[Features, ...] = ("projected", "constant")
    return {
        name if kind == "projected" else f"{name}-{kind}": EvaluatedMethod(
            partial(find, network, kind),
            f"{source}; GraphSAGE's unsupervised loss, {kind} features",
            k="needed",
            weighted=False,
            learn=partial(learn, network, kind),
            missing=needs_torch,
            sees_communities=kind != "constant",
        )
        for kind in kinds
    }
