"""A backend of NetworkX: `nx.community.louvain_communities(graph, backend="stream_icd")`.

The functions keep the promise of those of NetworkX: they maximise modularity, or the constant Potts
model (CPM), at the resolution given, over undirected graphs with weights and self loops. With
`model`, they return what `ICD` finds with that model instead.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from math import isfinite
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import networkx
import numpy as np
from scipy.sparse import coo_array, csgraph, csr_array

from stream_icd.core.arrays import Floats, Ids, Labels
from stream_icd.core.snapshot import LEAST_WEIGHT, MOST_WEIGHT
from stream_icd.methods.bp.level_graph import LevelGraph, compact, finest_level, within_groups
from stream_icd.methods.bp.modularity import maximise_modularity
from stream_icd.methods.graphs.adjacency import DIRECTED, as_adjacency
from stream_icd.registry.find import open_model
from stream_icd.streaming.detection.detect import detect

_THRESHOLD = 0.0000001  # the default of `louvain_communities`
_THETA = 0.01  # the default of `leiden_communities`, since NetworkX 3.7

_MODULARITY, _CPM = "modularity", "cpm"

_MOST_ITERATIONS = 100  # iterations end when one of them moves no node, usually after two to five


@dataclass(frozen=True, slots=True, eq=False)
class _UndirectedGraph:
    """A NetworkX graph, ready for this backend.

    NetworkX keeps it for later calls, also for those with another attribute or none as the weight.
    """

    __networkx_backend__: ClassVar[str] = "stream_icd"

    original: Any
    nodes: Sequence[Any]  # (n,), in the order of the original
    ends: Ids  # (2, m), rows of `nodes` that the edges join; parallel edges and self loops too
    weights: Mapping[str, Floats]  # by attribute, the weight of each edge, (m,)

    def is_directed(self) -> bool:
        """False: see `convert_from_nx`."""
        return False

    def weights_of(self, attribute: str | None) -> Floats:
        """Return the weight of each edge, `(m,)`: 1 without an attribute."""
        if attribute is None:
            return np.ones(self.ends.shape[1])
        if attribute not in self.weights:
            raise NotImplementedError(
                f"the graph was converted without {attribute!r}: give the NetworkX graph"
            )
        return self.weights[attribute]


def convert_from_nx(
    graph: Any, *, edge_attrs: Mapping[str, Any] | None = None, **_: Any
) -> _UndirectedGraph:
    """Return an undirected graph, with weights that are not negative, for this backend.

    edge_attrs: attributes that hold weights, and the weight of an edge without the attribute.
    """
    if graph.is_directed():
        raise NotImplementedError(DIRECTED)
    nodes = list(graph)
    place = {node: row for row, node in enumerate(nodes)}
    pairs = [(place[u], place[v]) for u, v in graph.edges()]
    weights = {
        name: _checked([w for *_, w in graph.edges(data=name, default=default)])
        for name, default in (edge_attrs or {}).items()
    }
    return _UndirectedGraph(graph, nodes, np.array(pairs, np.int64).reshape(-1, 2).T, weights)


def convert_to_nx(result: Any, **_: Any) -> Any:
    """Return a result as it is, and the NetworkX graph that one of this backend was made of."""
    return result.original if isinstance(result, _UndirectedGraph) else result


def can_run(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool | str:
    """Return True, or why these arguments are not supported."""
    arguments = dict(zip(_PARAMETERS.get(name, ()), args, strict=False)) | dict(kwargs)
    if arguments["G"].is_directed():
        return DIRECTED
    return _why_not(arguments) or True


def on_start_tests(items: Sequence[Any]) -> None:
    """Mark the tests of NetworkX that ask for its own random order, or for its own levels."""
    import pytest

    for item in items:
        if item.nodeid.split("tests/")[-1] in _OF_ITS_OWN_STEPS:
            item.add_marker(pytest.mark.xfail(reason="another order or levels", strict=True))


def louvain_communities(
    G: _UndirectedGraph,
    weight: str | None = "weight",
    resolution: float = 1,
    threshold: float = _THRESHOLD,
    max_level: int | None = None,
    seed: Any = None,
    *,
    model: str | os.PathLike[str] | None = None,
) -> list[set[Any]]:
    """Return a partition of high modularity; see `networkx.community.louvain_communities`."""
    _check(threshold=threshold, resolution=resolution, max_level=max_level, model=model)
    *_, labels = _passes(G, weight, resolution, seed, _MODULARITY, model)
    return _communities(G, labels)


def _default_metric() -> str:
    """The metric of a call of Leiden without one: since NetworkX 3.7 CPM, before modularity."""
    theirs = getattr(networkx.community, "leiden_communities", louvain_communities)
    metric = signature(theirs).parameters.get("metric")
    return _MODULARITY if metric is None else str(metric.default)


_METRIC = _default_metric()


def leiden_communities(
    G: _UndirectedGraph,
    weight: str | None = "weight",
    resolution: float = 1,
    max_level: int | None = None,
    seed: Any = None,
    *,
    metric: str = _METRIC,
    theta: float = _THETA,
    model: str | os.PathLike[str] | None = None,
) -> list[set[Any]]:
    """Return a partition of high quality; see `networkx.community.leiden_communities`."""
    _check(resolution=resolution, max_level=max_level, metric=metric, theta=theta, model=model)
    *_, labels = _passes(G, weight, resolution, seed, metric, model)
    return _communities(G, labels)


def leiden_partitions(
    G: _UndirectedGraph,
    weight: str | None = "weight",
    resolution: float = 1,
    seed: Any = None,
    *,
    metric: str = _METRIC,
    theta: float = _THETA,
    model: str | os.PathLike[str] | None = None,
) -> Iterator[list[set[Any]]]:
    """Return the partitions after each pass over all levels, of rising quality; one with a model.

    The last is that of `leiden_communities`; see `networkx.community.leiden_partitions`.
    """
    _check(resolution=resolution, metric=metric, theta=theta, model=model)
    passes = _passes(G, weight, resolution, seed, metric, model)
    return (_communities(G, labels) for labels in passes)


_PARAMETERS = {
    "louvain_communities": ("G", "weight", "resolution", "threshold", "max_level", "seed"),
    "leiden_communities": ("G", "weight", "resolution", "max_level", "seed"),
    "leiden_partitions": ("G", "weight", "resolution", "seed"),
}

_OF_ITS_OWN_STEPS = {
    "test_louvain.py::test_karate_club_partition",
    "test_louvain.py::test_undirected_selfloops",
    "test_louvain.py::test_none_weight_param",
    "test_leiden.py::test_max_level",
    # Since NetworkX 3.7:
    "test_louvain.py::test_petersen",
    "test_leiden.py::test_resolution_kwarg_cpm[Graph]",
    "test_leiden.py::test_max_level_kwarg[Graph-cpm]",
    "test_leiden.py::test_max_level_kwarg[Graph-modularity]",
    "test_leiden.py::test_max_level_kwarg[MultiGraph-cpm]",
    "test_leiden.py::test_max_level_kwarg[MultiGraph-modularity]",
    "test_leiden.py::test_expected_stable_across_code_changes_cpm",
    "test_leiden.py::test_comms_change_after_aggregation",
    "test_leiden.py::test_weights_matter[cpm]",
    "test_leiden.py::test_weights_matter[modularity]",
    "test_leiden.py::test_cpm_node_weights_on_G",
}


def _why_not(arguments: Mapping[str, Any]) -> str:
    if (
        arguments.get("threshold", _THRESHOLD) != _THRESHOLD
        or arguments.get("max_level") is not None
    ):
        return "stream_icd ends when no move gains: leave out threshold and max_level"
    if arguments.get("metric", _METRIC) not in (_MODULARITY, _CPM):
        return f"the metric must be {_MODULARITY} or {_CPM}"
    if arguments.get("theta", _THETA) != _THETA:
        return "stream_icd joins where the gain is largest, not at random: leave out theta"
    if callable(arguments.get("weight")):  # of its graph, NetworkX would keep one without weights
        return "the weight must be the name of an attribute, or None"
    resolution = arguments.get("resolution", 1)
    if not (isinstance(resolution, Real) and isfinite(resolution)):
        return "the resolution must be a finite number"
    if not isinstance(arguments.get("model"), str | os.PathLike | None):
        return "the model must be the name of a shipped model or the folder of one"
    if arguments.get("model") is not None and resolution != 1:
        return "a model has its own resolution: leave out resolution or model"
    return ""


def _check(**arguments: Any) -> None:
    if reason := _why_not(arguments):
        raise NotImplementedError(reason)


def _communities(graph: _UndirectedGraph, labels: Labels) -> list[set[Any]]:
    communities: dict[int, set[Any]] = {}
    for node, label in zip(graph.nodes, labels.tolist(), strict=True):
        communities.setdefault(label, set()).add(node)
    return list(communities.values())


class _Matrix(NamedTuple):
    """A graph in a unit of weight in which most are near to 1: gains below `ROUNDING` are none."""

    adjacency: csr_array  # (n, n), without self loops
    loops: Floats  # (n,), the weight of the self loops of each node
    exponent: int  # the unit is this power of 2


def _matrix(graph: _UndirectedGraph, weight: str | None) -> _Matrix:
    n, (rows, columns), weights = len(graph.nodes), graph.ends, graph.weights_of(weight)
    exponent = int(np.frexp(np.median(weights[weights > 0]))[1]) if (weights > 0).any() else 0
    weights = np.ldexp(weights, -exponent)
    loop = rows == columns
    pairs = coo_array((weights[~loop], (rows[~loop], columns[~loop])), shape=(n, n)).tocsr()
    loops = np.bincount(rows[loop], weights[loop], n).astype(np.float64)
    return _Matrix(as_adjacency(pairs + pairs.T), loops, exponent)


def _passes(
    graph: _UndirectedGraph,
    weight: str | None,
    resolution: float,
    seed: Any,
    metric: str,
    model: str | os.PathLike[str] | None,
) -> Iterator[Labels]:
    """Yield the community of each node, `(n,)`, after each pass, or once with a model."""
    matrix = _matrix(graph, weight)
    number = networkx.utils.create_py_random_state(seed).randint(0, 2**31 - 1)
    if model is not None:
        yield detect(matrix.adjacency, open_model(model).model, seed=number).communities
    elif graph.nodes:
        yield from _of_rising_quality(matrix, resolution, np.random.default_rng(number), metric)
    else:
        yield np.zeros(0, np.int32)


def _of_rising_quality(
    matrix: _Matrix, resolution: float, rng: np.random.Generator, metric: str
) -> Iterator[Labels]:
    level = finest_level(matrix.adjacency)
    if metric == _CPM:  # is modularity with 1 in place of each strength and of their sum
        level = level._replace(strengths=np.ones(level.n_nodes), total=1.0)
        resolution = float(np.ldexp(resolution, -matrix.exponent))
    else:
        strengths = level.strengths + 2 * matrix.loops  # both ends of a self loop are here
        level = level._replace(strengths=strengths, total=float(strengths.sum()))
    labels = maximise_modularity(level, resolution, rng)
    for _ in range(_MOST_ITERATIONS):
        yield _connected(level, labels)
        before, labels = labels, maximise_modularity(level, resolution, rng, labels)
        if np.array_equal(compact(before)[0], compact(labels)[0]):
            break


def _connected(level: LevelGraph, labels: Labels) -> Labels:
    """Split communities that a node has left that was the only link between two parts."""
    indptr, indices, weights, *_ = within_groups(level, labels)
    inside = csr_array((weights, indices, indptr), (level.n_nodes, level.n_nodes))
    # With the bare name in this module, NetworkX would call it for `networkx.connected_components`.
    parts: Labels = csgraph.connected_components(inside)[1]
    return parts


def _checked(values: list[Any]) -> Floats:
    try:
        weights = np.asarray(values, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise NotImplementedError(f"the weights must be numbers: {error}") from error
    if weights.ndim != 1:
        raise NotImplementedError("the weights must be numbers, not lists of them")
    if not (np.isfinite(weights) & (weights >= 0)).all():
        raise NotImplementedError("the weights must be finite and not negative")
    least, total = weights[weights > 0].min(initial=MOST_WEIGHT), (weights / MOST_WEIGHT).sum()
    if least < LEAST_WEIGHT or total > 1:
        raise NotImplementedError(
            f"the weights must be at least {LEAST_WEIGHT:g}, and at most {MOST_WEIGHT:g} together: "
            "multiply or divide all of them"
        )
    return weights
