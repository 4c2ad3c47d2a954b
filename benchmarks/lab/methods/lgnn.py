"""LGNN: a network on a graph and its line graph, trained on past graphs with known communities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse import coo_array, csr_array

from benchmarks.lab.clustering import clustered
from benchmarks.lab.neural import (
    Weights,
    first_weights,
    frozen,
    needs_torch,
    tensor_of,
    thawed,
    torch_alone,
    train,
)
from stream_icd.core.arrays import Labels
from stream_icd.core.errors import BadSettings
from stream_icd.interfaces.evaluation.method import EvaluatedMethod, Task
from stream_icd.methods.graphs.labelled_graph import LabelledGraph

if TYPE_CHECKING:
    from torch import Tensor

LAYERS, COLUMNS = 8, 8
"""Layers, and features of each; the paper has 30 and 8."""

PARTS = 6
"""Terms of a layer: itself, by degree, one and two steps, and two from the other graph."""

STEPS, EDGES, RATE = 60, 4e6, 2e-2
"""Steps of Adam, fewer where their graphs would have more directed edges than this; their rate."""


@dataclass(frozen=True, slots=True, eq=False)
class LineGraph:
    """A graph with its directed edges, which are the nodes of its line graph.

    Attributes:
        adjacency: A, (n, n).
        tails, heads: (n, 2E): the edges that start and end at a node.
        tails_back, heads_back: their transposes.
        reverse: the edge in the other direction, (2E,).
        degrees, line_degrees: (n, 1) and (2E, 1), the latter the row sums of B.
    """

    adjacency: Tensor
    tails: Tensor
    heads: Tensor
    tails_back: Tensor
    heads_back: Tensor
    reverse: Tensor
    degrees: Tensor
    line_degrees: Tensor

    def follow(self, edges: Tensor) -> Tensor:
        """B y: for each edge the sum over the edges that go on from its end, but not back (the
        non-backtracking operator, section 4.2).
        """
        return self.heads_back @ (self.tails @ edges) - edges[self.reverse]


def prepare(adjacency: csr_array) -> LineGraph:
    """The tensors of a graph."""
    import torch

    starts, ends = adjacency.tocoo().coords
    number = np.arange(len(starts))
    shape = adjacency.shape[0], len(starts)
    tails, heads = (
        csr_array(coo_array((np.ones(len(number)), (nodes, number)), shape=shape))
        for nodes in (starts, ends)
    )
    degrees = np.diff(adjacency.indptr).astype(np.float32)
    return LineGraph(
        tensor_of(adjacency),
        tensor_of(tails),
        tensor_of(heads),
        tensor_of(csr_array(tails.T)),
        tensor_of(csr_array(heads.T)),
        torch.tensor(np.lexsort((starts, ends))),
        torch.tensor(degrees)[:, None],
        torch.tensor(degrees[ends] - 1)[:, None],
    )


def shapes(k: int) -> dict[str, tuple[int, ...]]:
    """The matrices of each layer for nodes and for edges, and that of the communities."""
    found: dict[str, tuple[int, ...]] = {}
    width = 1
    for layer in range(LAYERS):
        other = COLUMNS if layer else 1
        found[f"node.{layer}"] = (4 * width + 2 * other, COLUMNS)
        found[f"edge.{layer}"] = (4 * width + 2 * COLUMNS, COLUMNS)
        width = COLUMNS
    return found | {"community": (COLUMNS, k), "community bias": (k,)}


def scores(weights: Weights, graph: LineGraph) -> Tensor:
    """Scores (n, K) of the communities: layers of equations 1 and 2, from degrees."""
    import torch

    nodes, edges = standardised(graph.degrees), standardised(graph.line_degrees)
    for layer in range(LAYERS):
        from_tails, from_heads = graph.tails @ edges, graph.heads @ edges
        near = graph.adjacency @ nodes
        parts = [nodes, graph.degrees * nodes, near, graph.adjacency @ near]
        parts += [from_tails + from_heads, from_tails - from_heads]
        nodes = activated(torch.cat(parts, dim=1) @ weights[f"node.{layer}"])
        of_tails, of_heads = graph.tails_back @ nodes, graph.heads_back @ nodes
        near = graph.follow(edges)
        parts = [edges, graph.line_degrees * edges, near, graph.follow(near)]
        parts += [of_tails + of_heads, of_tails - of_heads]
        edges = activated(torch.cat(parts, dim=1) @ weights[f"edge.{layer}"])
    return nodes @ weights["community"] + weights["community bias"]


def activated(sums: Tensor) -> Tensor:
    """ReLU on half of the columns; then all are standardised."""
    import torch

    linear, rectified = sums.chunk(2, dim=1)
    return standardised(torch.cat([linear, rectified.relu()], dim=1))


def standardised(columns: Tensor) -> Tensor:
    """Columns of mean 0 and variance 1."""
    from torch.nn.functional import batch_norm

    return batch_norm(columns, None, None, training=True)


def best_cross_entropy(log_shares: Tensor, members: Tensor) -> Tensor:
    """The least mean cross entropy over all ways to name the communities (section 4.3). The paper
    tries all K! of them; the best is an assignment problem. members: (n, K') of 0 and 1.
    """
    costs = -members.T @ log_shares  # (K', K)
    rows, columns = linear_sum_assignment(costs.detach().numpy())
    return costs[rows, columns].sum() / len(members)


def learn(history: Sequence[LabelledGraph], seed: int) -> Any:
    """Weights from past graphs with known communities.

    Raises:
        BadSettings: there are none.
    """
    import torch

    known = [graph for graph in history if graph.labels is not None and graph.adjacency.nnz]
    if not known:
        raise BadSettings("learns from past graphs with known communities only: there are none")
    k = max(graph.n_communities or 0 for graph in known)
    steps = int(min(STEPS, EDGES / np.mean([graph.adjacency.nnz for graph in known])))
    with torch_alone(seed):
        weights = first_weights(shapes(k))
        graphs = [prepare(graph.adjacency) for graph in known]
        members = [
            torch.nn.functional.one_hot(torch.tensor(graph.labels, dtype=torch.int64)).float()
            for graph in known
        ]

        def loss(step: int) -> Tensor:
            at = step % len(graphs)
            log_shares = scores(weights, graphs[at]).log_softmax(dim=1)
            return best_cross_entropy(log_shares, members[at])

        train(weights, loss, max(1, steps), RATE)
        return frozen(weights)


def find(task: Task) -> Labels:
    """The likeliest community of each node; K-means of the scores for another K than learned."""
    import torch

    with task.stage("embed"), torch_alone(task.seed), torch.no_grad():
        found = np.asarray(scores(thawed(task.learned), prepare(task.adjacency)))
    if found.shape[1] == task.k():
        return found.argmax(axis=1).astype(np.int32)
    return clustered(task, found)


METHODS = {
    "lgnn": EvaluatedMethod(
        find,
        "Chen, Li, Bruna 2019, equations 1 and 2, section 4.3",
        k="needed",
        weighted=False,
        learn=learn,
        missing=needs_torch,
    ),
}
