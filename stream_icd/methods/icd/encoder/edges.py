"""An encoder that learns from labelled graphs which edges join two nodes of one community.

Each round filters the features over the weighted graph (as `hops` does), describes each edge by a
few numbers, and lets a small perceptron correct the probability that its ends share a community.
The next round's graph is weighted by that. docs/measured/encoder.md says what each column is worth.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from stream_icd.core.arrays import Labels
from stream_icd.core.compiled import compiled
from stream_icd.methods.icd.encoder.contract import Encoder, Weights, projection
from stream_icd.methods.icd.encoder.edge_graph import ANY_ORDER, EdgeGraph
from stream_icd.methods.icd.features import SparsePlusRankOne, propagation_matrix
from stream_icd.methods.icd.row_blocks import Floats32, for_blocks, single_threaded_blas

ROUNDS, _HOPS, _LAST_HOPS = 5, 4, 10
"""Rounds of corrections, and hops of the filter in each and after the last one, chosen on
validation graphs (docs/measured/encoder.md). U is the mean of the later half of the last ones."""

_HIDDEN = 16
"""Units of each of the two hidden layers of a perceptron."""

_BLOCK = 4096
"""Edges that the perceptron reads at a time: what is between its layers stays in the cache."""

_DEGREE_EXPONENT = 0.1
"""b of the filter H_k = A D^-b H_(k-1): what `hops` starts with."""

_SUREST = 12.0
"""The largest log-odds of an edge, to either side: no weight becomes zero."""

_LEAST = np.float32(1e-12)

_SMALLEST = np.float32(1e-30)
"""A smaller square of a row's length counts as this."""

_COLUMNS = (
    *(f"cosine after hop {number}" for number in range(1, _HOPS + 1)),
    "excess of the last cosine over the mean of both ends' edges",
    "difference of these means",
    "log common weight",
    "common weight over both strengths",
    "log-odds before",
    "smaller share kept",
    "larger share kept",
    "smaller concentration",
    "larger concentration",
    "smaller log degree",
    "larger log degree",
    "log weight",
    "log weight over both strengths",
)
"""What the perceptron reads of each edge. All are symmetric in both ends. The strength of a node is
the weight that its edges have now; the share kept is its part of the weight that they had; the
concentration is the mean probability of its edges, each weighted by itself."""


class _Weighed(NamedTuple):
    graph: EdgeGraph
    log_odds: Floats32  # (E,): that both ends of an edge i < j share a community, edges ascending
    adjacency: csr_array  # (n, n): see `weighted`


class Edges(Encoder):
    """Rounds of: filter, describe the edges, correct their log-odds; then U from a last filter.

    In round r, H_0 = Z R_r with a random projection R_r of its own, so what one of them distorts is
    not distorted in the next. H_k = A D^-b H_(k-1); rows of each H_k have length 1. A holds each
    weight times the probability of its edge (one half at first), D the sums of its rows. The
    log-odds of an edge then grow by perceptron_r(columns of the edge): `_COLUMNS`. U is the mean of
    the later hops over the last graph, rows to length 1 if the recipe says so.

    The weights do not depend on the order of nodes, edges or features. They are learned from labels
    (`training.icd.learn_edges`), without torch. Before, no log-odds change: U is much as of `hops`.
    """

    def weight_shapes(self) -> dict[str, tuple[int, ...]]:
        """For each round: mean and scale of the columns, the perceptron's layers; and for bp."""
        n_columns = len(_COLUMNS)
        return {
            "mean": (ROUNDS, n_columns),
            "scale": (ROUNDS, n_columns),
            "first": (ROUNDS, n_columns, _HIDDEN),
            "first_bias": (ROUNDS, _HIDDEN),
            "second": (ROUNDS, _HIDDEN, _HIDDEN),
            "second_bias": (ROUNDS, _HIDDEN),
            "last": (ROUNDS, _HIDDEN + 1),  # with the bias
            "power": (1,),  # of the probabilities, see `weighted`
            "resolution": (1,),  # for bp on that graph, see `BpParameters.as_weighted`
        }

    def initial_weights(self, rng: np.random.Generator) -> Weights:
        """Hidden units at random, from raw output of the bit generator; the last layer is zero."""
        weights = {
            name: np.zeros(shape, np.float32) for name, shape in self.weight_shapes().items()
        }
        for name in ("scale", "power"):
            weights[name] += 1
        for name in ("first", "second"):
            n_in = weights[name].shape[1]
            uniform = self._uniform(rng, weights[name].size).reshape(weights[name].shape)
            bound = np.sqrt(6 / n_in)  # He et al. 2015: the variance of rectified units stays
            weights[name] = (bound * uniform).astype(np.float32)
        return weights

    def embed(
        self, weights: Weights, features: SparsePlusRankOne, adjacency: csr_array, threads: int = 1
    ) -> Floats32:
        weighed = self.weigh(weights, features, adjacency, threads)
        return self.embed_weighed(weighed, features, adjacency, threads)

    def weigh(
        self, weights: Weights, features: SparsePlusRankOne, adjacency: csr_array, threads: int = 1
    ) -> _Weighed:
        """The log-odds of the edges of a graph `(n, n)`, and the graph weighted by them.

        adjacency: canonical, with comparable weights (`graphs.weights.comparable`).
        features: Z, `(n, L)`.
        """
        graph, width = EdgeGraph.of(adjacency), self.settings.widths[-1]
        log_odds, work = np.zeros(len(graph.source), np.float32), _Workspace.of(graph, width)
        for number in range(ROUNDS):
            if weights["last"][number].any():  # else nothing changes
                columns = edge_columns(graph, features, log_odds, number, width, threads, work)
                log_odds = corrected(log_odds, columns, weights, number)
        return _Weighed(graph, log_odds, weighted(graph, log_odds, weights["power"][0]))

    def embed_weighed(
        self,
        weighed: _Weighed,
        features: SparsePlusRankOne,
        adjacency: csr_array,
        threads: int = 1,
    ) -> Floats32:
        """U of a graph that was weighed, `(n, d)` float32; `features` and `adjacency` as there."""
        two = _two(weighed.graph, self.settings.widths[-1])
        total = np.zeros_like(two[0])
        hops = _filtered(weighed.graph, features, weighed.log_odds, ROUNDS, two, threads)
        for number, hidden in enumerate(hops):
            if 2 * number >= _LAST_HOPS:
                total += hidden
        total /= _LAST_HOPS - _LAST_HOPS // 2
        mean = self._scaled_rows(total)
        if not self.settings.smoothing:
            return mean
        propagation = propagation_matrix(adjacency).astype(np.float32)
        return self._averaged(propagation, mean, threads)


def weighted(graph: EdgeGraph, log_odds: Floats32, power: float) -> csr_array:
    """The graph for bp, `(n, n)`: each weight times a power of the probability of its edge.

    Its weights are comparable already: bp takes them as they are (`BpParameters.as_weighted`).
    """
    weights = graph.weights * _probabilities(log_odds) ** np.float64(power)
    return graph.matrix(weights[graph.number])


class _Workspace(NamedTuple):
    """Arrays that each round overwrites: to get them from the system takes a fifth of the time."""

    two: Floats32  # (2, n, width): a hop and the one before
    columns: Floats32  # (n_columns, E)

    @classmethod
    def of(cls, graph: EdgeGraph, width: int) -> _Workspace:
        return cls(_two(graph, width), np.empty((len(_COLUMNS), len(graph.source)), np.float32))


def _two(graph: EdgeGraph, width: int) -> Floats32:
    return np.empty((2, graph.n_nodes, width), np.float32)


def edge_columns(
    graph: EdgeGraph,
    features: SparsePlusRankOne,
    log_odds: Floats32,
    number: int,
    width: int,
    threads: int = 1,
    work: _Workspace | None = None,
) -> Floats32:
    """`_COLUMNS` of each edge in a round, `(n_columns, E)`, from the log-odds before it, `(E,)`.

    They are those of the workspace, if there is one.
    """
    work = work or _Workspace.of(graph, width)
    source, target, weights, columns = graph.source, graph.target, graph.weights, work.columns
    rows = iter(columns)
    probability = _probabilities(log_odds)
    joining = weights * probability
    # The logarithm of a strength of 0 would be infinite.
    before, strengths = (np.maximum(graph.strengths(w), _LEAST) for w in (weights, joining))
    degrees = np.maximum(np.diff(graph.indptr), 1).astype(np.float32)

    for hidden in _filtered(graph, features, log_odds, number, work.two, threads):
        graph.cosines(hidden, cosine := next(rows))
    typical = graph.strengths(cosine) / degrees
    of_source, of_target = typical[source], typical[target]
    excess, difference = next(rows), next(rows)
    np.subtract(2 * cosine, of_source + of_target, out=excess)
    np.abs(of_source - of_target, out=difference)

    common, share = next(rows), next(rows)
    graph.common_neighbours(joining, common)
    root = 1 / np.sqrt(strengths)
    np.multiply(common, root[source] * root[target], out=share)
    np.log1p(common, out=common)

    next(rows)[:] = log_odds
    certain, probable = graph.strengths(probability**2), graph.strengths(probability)
    of_nodes = np.stack(
        [strengths / before, certain / np.maximum(probable, _LEAST), np.log(degrees)]
    )
    graph.smaller_and_larger(of_nodes, columns[-2 - 2 * len(of_nodes) : -2])
    log_before = np.log(before) / 2
    np.log(weights, out=columns[-2])
    np.subtract(columns[-2], log_before[source] + log_before[target], out=columns[-1])
    return columns


def corrected(log_odds: Floats32, columns: Floats32, weights: Weights, number: int) -> Floats32:
    """The log-odds of the edges after a round, `(E,)`, at most `_SUREST`."""
    mean, scale, first, bias, second, second_bias, last = (
        weights[name][number]
        for name in ("mean", "scale", "first", "first_bias", "second", "second_bias", "last")
    )
    # Scale and mean go into the layer: the columns of all edges are not copied for them.
    first = first / scale[:, None]
    bias = bias - mean @ first
    following = log_odds.copy()
    layers = np.empty((2, _HIDDEN, min(_BLOCK, len(log_odds))), np.float32)
    with single_threaded_blas():
        for start in range(0, len(log_odds), _BLOCK):
            block = slice(start, start + _BLOCK)
            of_first, of_second = layers[:, :, : len(log_odds) - start]
            hidden = _rectified(first, columns[:, block], bias, of_first)
            hidden = _rectified(second, hidden, second_bias, of_second)
            following[block] += last[:-1] @ hidden + last[-1]
    return following.clip(-_SUREST, _SUREST, out=following)


def _rectified(matrix: Floats32, inputs: Floats32, bias: Floats32, outputs: Floats32) -> Floats32:
    """A layer's outputs, `(n_out, E)`, from its inputs, `(n_in, E)`."""
    np.matmul(matrix.T, inputs, out=outputs)
    outputs += bias[:, None]
    return np.maximum(outputs, 0, out=outputs)


def _filtered(
    graph: EdgeGraph,
    features: SparsePlusRankOne,
    log_odds: Floats32,
    number: int,
    two: Floats32,
    threads: int = 1,
) -> Iterator[Floats32]:
    """Yield H_1, H_2, … of a round, `(n, width)` each, rows of length 1; the last is `ROUNDS`.

    two: room for them, `(2, n, width)`; each is overwritten by the one after the next.
    """
    hidden, spare = two
    onto = projection(features.shape[1], hidden.shape[1], number)
    _unit_product(features, onto, hidden, threads)
    joining = graph.weights * _probabilities(log_odds)
    strengths = np.maximum(graph.strengths(joining), _LEAST)
    step = joining[graph.number] * (strengths ** np.float32(-_DEGREE_EXPONENT))[graph.indices]
    matrix = SparsePlusRankOne(graph.matrix(step))
    for _ in range(_LAST_HOPS if number == ROUNDS else _HOPS):
        _unit_product(matrix, hidden, spare, threads)
        hidden, spare = spare, hidden
        yield hidden


def _unit_product(
    matrix: SparsePlusRankOne, hidden: Floats32, following: Floats32, threads: int
) -> None:
    """Fill `following` with the product of `(n, m)` and `(m, width)`, rows scaled to length 1."""
    sparse, n_nodes = matrix.sparse, matrix.shape[0]
    shift, constant = np.zeros(n_nodes, np.float32), np.zeros(hidden.shape[1], np.float32)
    if matrix.outer is not None:
        shift, right = (part.astype(np.float32, copy=False) for part in matrix.outer)
        with single_threaded_blas():
            constant = right @ hidden
    indptr, indices = (np.asarray(part, np.int32) for part in (sparse.indptr, sparse.indices))

    def fill(rows: slice) -> None:
        end = min(rows.stop, n_nodes)  # compiled loops do not check it
        _hop(indptr, indices, sparse.data, hidden, shift, constant, rows.start, end, following)

    if threads == 1:
        fill(slice(0, n_nodes))
    else:
        for_blocks(fill, n_nodes, threads)


@compiled(fastmath=ANY_ORDER)
def _hop(
    indptr: Labels,
    indices: Labels,
    weights: Floats32,
    hidden: Floats32,
    shift: Floats32,
    constant: Floats32,
    start: int,
    end: int,
    following: Floats32,
) -> None:
    """Fill rows start to end of `following`: row i of M H + s cᵀ, scaled to length 1.

    M: a sparse matrix, `(n, m)`: indptr, indices, weights. H: `hidden`, `(m, width)`. s, `(n,)`:
    `shift`. c, `(width,)`: `constant`. A row of zeros stays zero.
    """
    width = hidden.shape[1]
    total = np.empty(width, np.float32)
    for i in range(start, end):
        for column in range(width):
            total[column] = shift[i] * constant[column]
        entry, last = np.int64(indptr[i]), np.int64(indptr[i + 1])
        while entry + 3 < last:  # four rows at a time: half the time of one by one
            w0, w1 = weights[entry], weights[entry + 1]
            w2, w3 = weights[entry + 2], weights[entry + 3]
            j0, j1 = np.uint32(indices[entry]), np.uint32(indices[entry + 1])
            j2, j3 = np.uint32(indices[entry + 2]), np.uint32(indices[entry + 3])
            for column in range(width):
                total[column] += (
                    w0 * hidden[j0, column]
                    + w1 * hidden[j1, column]
                    + w2 * hidden[j2, column]
                    + w3 * hidden[j3, column]
                )
            entry += 4
        while entry < last:
            weight, j = weights[entry], np.uint32(indices[entry])
            for column in range(width):
                total[column] += weight * hidden[j, column]
            entry += 1
        square = np.float32(0)
        for column in range(width):
            square += total[column] * total[column]
        scale = np.float32(1) / np.sqrt(max(square, _SMALLEST))
        for column in range(width):
            following[i, column] = scale * total[column]


def _probabilities(log_odds: Floats32) -> Floats32:
    odds = np.exp(-log_odds)
    return np.reciprocal(odds + np.float32(1), out=odds)


KINDS = {"edges": Edges}
