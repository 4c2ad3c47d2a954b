"""Adjacency matrices: from a graph of any supported kind, and of the nodes that have an edge."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, issparse

from stream_icd.core.errors import BadInput, BadSettings
from stream_icd.core.node_ids import common_type, id_array, values_of, widened
from stream_icd.core.snapshot import Snapshot, Window, snapshot_from_pairs

_Nodes = NDArray[np.intp]

_WEIGHT = "weight"

_MOST_COUNTED = 50_000_000
"""Most nodes that a bare `edge_index` may have: memory is needed for all up to its largest id."""

NO_WINDOW = Window(datetime(1970, 1, 1, tzinfo=UTC), datetime(1970, 1, 2, tzinfo=UTC))
"""The window of a graph without times."""

_SAME = 1e-9
"""Two directions of an edge whose weights differ less, relative to the larger, weigh the same."""

_DIRECTED = "communities are those of an undirected graph, and this one is directed"

DIRECTED = (
    f"{_DIRECTED}: give graph.to_undirected(), which keeps the weight of one direction, or "
    "A + A.T of its matrix A, which adds both"
)
"""Why a directed NetworkX graph is refused."""

_ONE_BY_ONE = "one graph a call, as in [icd.predict(graph) for graph in graphs]"


def as_adjacency(graph: Any) -> csr_array:
    """The adjacency matrix A of an undirected graph, `(n, n)` float64, canonical.

    Canonical: symmetric, positive weights, zero diagonal, columns of a row ascending, each once.
    Weights of repeated pairs add; self loops are dropped.

    A directed graph is refused, so that no direction is lost silently: a graph of NetworkX or
    igraph that says so, and a matrix or `edge_index` with different weights in the two directions
    of an edge. An edge that has one direction only, as in a triangular matrix, is a whole edge. In
    a table or a list of pairs, directions do not count.

    Args:
        graph: any of
            a square matrix: scipy sparse, or dense (an array, or lists of rows);
            a NetworkX or igraph graph, nodes in its own order, with its `weight` where it has one;
            a table of pairs: two columns of ids, all integers or all strings, and maybe the column
            `weight`, of pandas, Polars, Arrow, or any other with the Arrow PyCapsule interface; or
            a list of tuples of two ids; nodes in ascending order of their ids; without weights, a
            repeated pair is one edge of weight 1;
            `edge_index`, integers of shape `(2, n_pairs)`: an array, a tensor, or a tuple
            `(src, dst)`; nodes are numbered from 0 to the largest one named;
            `(edge_index, num_nodes)`, where there may be nodes without edges after that;
            a PyG `Data` (`edge_index`, `num_nodes`, and `edge_weight` where there is one);
            an object with an `adjacency()` method, such as a `Snapshot`.

    Raises:
        BadInput: a directed graph, several graphs, a matrix that is not square, a node out of
            range, a weight that is negative, complex or not finite, an array that may be either of
            two, rows of a table of pandas in another order than its columns.
        BadSettings: a kind of object that is none of these.

    >>> as_adjacency((np.array([[0, 1, 1], [1, 2, 2]]), 4)).toarray().tolist()
    [[0.0, 1.0, 0.0, 0.0], [1.0, 0.0, 2.0, 0.0], [0.0, 2.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
    """
    if _is_table_of_pairs(graph):
        return _snapshot_of_pairs(graph).adjacency()
    matrix = _as_matrix(graph)
    # Before entries are added up: a sum may hide a negative weight.
    _check(matrix)
    row, column = matrix.coords
    paired = row != column
    weights = np.asarray(matrix.data[paired], dtype=np.float64)
    pairs = coo_array((weights, (row[paired], column[paired])), shape=matrix.shape)
    directed = _canonical(pairs.tocsr())
    # The larger of both, no sum: an edge that stands in both directions is one edge.
    undirected = _canonical(directed.maximum(directed.T))
    if undirected.nnz < 2 * directed.nnz:  # some edges are there in both directions
        _check_same(directed, undirected)
    return undirected


def _check_same(graph: csr_array, larger: csr_array) -> None:
    ends, starts = (graph < (1 - _SAME) * larger).nonzero()  # of the lighter direction
    if len(starts):
        start, end = int(starts[0]), int(ends[0])
        raise BadInput(
            f"{_DIRECTED}: the edge from node {start} to {end} weighs {graph[start, end]:g}, the "
            f"edge back {graph[end, start]:g}. Give each edge in one direction, or in both with "
            "the same weight; A + A.T of a matrix A adds the weights of both"
        )


class _NamedGraph(NamedTuple):
    """A graph `(n, n)`, canonical, and the name of each row, `(n,)`."""

    adjacency: csr_array
    nodes: NDArray[Any]


def as_named(graph: Any) -> _NamedGraph:
    """Return a graph of any kind that `as_adjacency` takes, with the names of its nodes.

    They are the ids of a `Snapshot` or a table of pairs, the names in a NetworkX or an igraph
    graph, those of both rows and columns in a matrix of pandas, and positions otherwise.

    >>> as_named([("b", "a"), ("c", "b")]).nodes.tolist()
    ['a', 'b', 'c']
    """
    if _is_table_of_pairs(graph):
        graph = _snapshot_of_pairs(graph)
    adjacency = as_adjacency(graph)
    if isinstance(graph, Snapshot):
        return _NamedGraph(adjacency, graph.nodes.to_numpy(zero_copy_only=False))
    if is_graph_of("networkx", graph):
        return _NamedGraph(adjacency, np.fromiter(graph, object, len(graph)))
    if is_graph_of("igraph", graph) and "name" in graph.vs.attributes():
        return _NamedGraph(adjacency, np.fromiter(graph.vs["name"], object, graph.vcount()))
    if _is_named_matrix(graph):
        return _NamedGraph(adjacency, np.asarray(graph.columns))
    return _NamedGraph(adjacency, np.arange(adjacency.shape[0]))


def is_graph_of(library: str, graph: Any) -> bool:
    """Whether a graph is a `Graph` of this library, which is not imported for it."""
    return library in sys.modules and isinstance(graph, sys.modules[library].Graph)


def linked_nodes(adjacency: csr_array) -> _Nodes:
    """Positions of the nodes with at least one edge, ascending: those that can be embedded."""
    return np.flatnonzero(np.diff(adjacency.indptr))


def among(adjacency: csr_array, nodes: _Nodes) -> csr_array:
    """The subgraph of `nodes`, ascending: all nodes with edges (`linked_nodes`), or more."""
    n_nodes = len(nodes)
    if n_nodes == adjacency.shape[0]:
        return adjacency
    # Columns of nodes without edges do not occur: what stands there is never read.
    place = np.zeros(adjacency.shape[0], adjacency.indices.dtype)
    place[nodes] = np.arange(n_nodes)
    starts = adjacency.indptr[np.append(nodes, adjacency.shape[0])]
    return csr_array((adjacency.data, place[adjacency.indices], starts), (n_nodes, n_nodes))


def _is_table_of_pairs(graph: Any) -> bool:
    """Whether a graph is a list of tuples or a table of two columns of ids, and maybe weights."""
    if isinstance(graph, list):
        return bool(graph) and all(map(_is_pair, graph))
    names = _column_names(graph)
    if names is None or len(names) not in (2, 3):
        return False
    counted = [str(place) for place in range(len(names))]  # by pandas, for want of names
    return names == counted or not _is_named_matrix(graph)


def _is_pair(member: Any) -> bool:
    if not isinstance(member, tuple) or len(member) not in (2, 3):
        return False
    return isinstance(member[0], int | str | tuple) or _dimensions(member[0]) == 0


def _dimensions(value: Any) -> int:
    """0 for a number or a name, 1 for a row of them, more for what holds a graph or several."""
    if isinstance(value, str | bytes | dict):
        return 0
    if issparse(value) or _column_names(value) is not None:
        return 2
    if hasattr(value, "__array__"):
        return np.ndim(value)
    if isinstance(value, Sequence):
        return 1 + (_dimensions(value[0]) if len(value) else 0)
    # NumPy would look into any graph that has a length and items, as a NetworkX graph has.
    is_graph = any(hasattr(value, name) for name in ("__getitem__", "adjacency", "edge_index"))
    return 2 if is_graph else 0


def _is_named_matrix(graph: Any) -> bool:
    """Whether the rows of a table, which only pandas names, have the names of its columns."""
    names = _column_names(graph)
    if not names or len(graph) != len(names):
        return False
    return list(getattr(graph, "index", ())) == list(graph.columns)


def _column_names(graph: Any) -> list[str] | None:
    if isinstance(graph, pa.Table | pa.RecordBatch):
        return list(graph.schema.names)
    if hasattr(graph, "__arrow_c_stream__") and hasattr(graph, "columns"):  # pandas, Polars
        return [str(name) for name in graph.columns]
    return None


def _snapshot_of_pairs(graph: Any) -> Snapshot:
    src, dst, weights = _columns(graph)
    return snapshot_from_pairs(
        src, dst, graph="graph", id="graph", window=NO_WINDOW, weights=weights
    )


def _columns(graph: Any) -> tuple[Any, Any, Any]:
    if isinstance(graph, list) and any(len(pair) == 3 for pair in graph):
        raise BadInput(
            "a list of tuples holds pairs of ids: give weights as a table with the column "
            "`weight`, and a dense matrix as an array"
        )
    try:
        if isinstance(graph, list):
            src, dst = map(id_array, zip(*graph, strict=True))
            return *_of_one_type(src, dst), None
        table = pa.table(graph) if not isinstance(graph, pa.RecordBatch) else graph
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise BadInput(
            f"the ids of the pairs are not all integers of 64 bits or all strings: {error}"
        ) from error
    names = _column_names(graph) or []
    ends = [place for place, name in enumerate(names) if name != _WEIGHT]
    if len(ends) != 2:
        raise BadInput(
            f"a table of pairs has two columns of ids and, where edges have weights, `weight`, not "
            f"{names}; give a dense matrix as an array"
        )
    plain = [values_of(column) for column in table.columns]  # categories as their values
    plain = [
        column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        for column in plain
    ]
    weights = plain[names.index(_WEIGHT)] if len(names) == 3 else None
    src, dst = (plain[end] for end in ends)
    return *_of_one_type(src, dst), weights


def _of_one_type(src: pa.Array, dst: pa.Array) -> tuple[pa.Array, pa.Array]:
    src, dst = widened(src), widened(dst)
    kind = common_type(src.drop_null(), dst.drop_null())  # None if none holds all of their ids
    return (src, dst) if kind is None else (src.cast(kind), dst.cast(kind))


_ACCEPTED = (
    "a scipy sparse or a dense square matrix, an edge_index (2, n_pairs), (edge_index, num_nodes), "
    "a table or a list of pairs, a NetworkX or an igraph graph, a PyG Data, or an object with "
    f"adjacency(); {_ONE_BY_ONE}"
)


def _as_matrix(graph: Any) -> coo_array:
    if issparse(graph):
        return coo_array(graph)
    # Before `adjacency()`, which graphs of NetworkX have too, with another meaning.
    if is_graph_of("networkx", graph):
        return _from_networkx(graph)
    if is_graph_of("igraph", graph):
        return _from_igraph(graph)
    if callable(getattr(graph, "adjacency", None)):
        return coo_array(graph.adjacency())
    if hasattr(graph, "edge_index") and hasattr(graph, "num_nodes"):
        weights = getattr(graph, "edge_weight", None)
        return _from_edge_index(_as_array(graph.edge_index), graph.num_nodes, weights)
    if isinstance(graph, tuple) and len(graph) == 2 and _is_whole_number(graph[1]):
        return _from_edge_index(_as_array(graph[0]), graph[1], None)
    if isinstance(graph, list | tuple) and any(_dimensions(member) > 1 for member in graph):
        raise BadInput(
            f"a {type(graph).__name__} of graphs is not a graph: give {_ONE_BY_ONE}; only `fit` "
            "takes several"
        )
    names = _column_names(graph)
    if names is not None and len(names) != len(graph):
        raise BadInput(
            f"a table of columns {names[:5]} is not a graph: give two columns of ids and, where "
            "edges have weights, `weight`"
        )
    if names is not None:
        _check_rows_are_columns(graph, names)
    if hasattr(graph, "__array__") or isinstance(graph, list | tuple):
        return _from_array(graph)
    raise BadSettings(f"a {type(graph).__name__} is not a supported graph; give {_ACCEPTED}")


def _check_rows_are_columns(matrix: Any, columns: list[str]) -> None:
    """Check that row i of a table (of pandas: others name no rows) is the node of column i.

    Rows or columns that are only counted have no names, unless the others are the same numbers in
    another order.
    """
    rows = [str(row) for row in getattr(matrix, "index", columns)]
    counted = [str(place) for place in range(len(rows))]
    if rows == columns or (counted in (rows, columns) and set(rows) != set(columns)):
        return
    row, column = next(pair for pair in zip(rows, columns, strict=True) if pair[0] != pair[1])
    raise BadInput(
        f"row {row!r} of a dense matrix is in the place of column {column!r}, but both are one "
        "node: order the rows as the columns (`table.loc[table.columns]`), or give the pairs"
    )


def _from_networkx(graph: Any) -> coo_array:
    import networkx

    if graph.is_directed():
        raise BadInput(DIRECTED)
    if not len(graph):  # NetworkX makes no matrix of it
        return coo_array((0, 0))
    try:
        return coo_array(networkx.to_scipy_sparse_array(graph, dtype=np.float64))
    except (TypeError, ValueError, OverflowError) as error:
        raise BadInput(f"the weights of a NetworkX graph must be numbers: {error}") from error


def _from_igraph(graph: Any) -> coo_array:
    if graph.is_directed():
        raise BadInput(f'{_DIRECTED}: give graph.as_undirected(combine_edges="sum")')
    pairs = np.array(graph.get_edgelist(), np.int64).reshape(-1, 2).T
    weights = graph.es["weight"] if "weight" in graph.es.attributes() else None
    return _from_edge_index(pairs, graph.vcount(), weights)


def _as_array(values: Any) -> NDArray[Any]:
    if any(map(np.ma.is_masked, values if isinstance(values, list | tuple) else [values])):
        raise BadInput("some entries of a graph are masked: fill them, such as with `.filled(0)`")
    if not hasattr(values, "__array__") and not isinstance(values, Sequence):
        raise BadInput(f"a {type(values).__name__} is not an array")
    try:
        return np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:
        # Such as rows of different lengths, a sparse tensor, or one that requires gradients.
        raise BadInput(f"a {type(values).__name__} is not an array: {error}") from error


def _is_whole_number(value: Any) -> bool:
    return hasattr(value, "__index__") and np.ndim(value) == 0


def _from_array(graph: Any) -> coo_array:
    array = _as_array(graph)
    if array.dtype == object and _is_matrix_of_pandas(graph):
        array = graph.to_numpy(np.float64, na_value=np.nan)
    shown = f"a {type(graph).__name__} of {array.dtype} of shape {array.shape}"
    if array.dtype.kind not in "biuf" or array.ndim != 2:
        raise BadInput(f"{shown} is not a supported graph; give {_ACCEPTED}")
    whole = array.dtype.kind in "iu"
    plain = _column_names(graph) is None  # else rows and columns have names: it is a matrix
    if array.shape == (2, 2) and whole and plain and array.tolist() != [[0, 1], [1, 0]]:
        raise BadInput(
            f"{shown} may be two pairs or the adjacency of two nodes: give (edge_index, "
            "num_nodes), or a scipy sparse matrix"
        )
    if array.shape[0] == array.shape[1]:
        return coo_array(array.astype(np.float64))
    if array.shape[0] == 2 and whole:
        n_nodes = int(array.max()) + 1 if array.size else 0
        if n_nodes > _MOST_COUNTED:
            raise BadInput(
                f"{shown} names node {n_nodes - 1}, so it has {n_nodes} nodes, above the limit of "
                f"{_MOST_COUNTED}: give ids as a table or a list of pairs, or (edge_index, "
                "num_nodes) if there are so many nodes"
            )
        return _from_edge_index(array, n_nodes, None)
    pairs = "; pairs stand in columns here: give its transpose" if array.shape[1] == 2 else ""
    raise BadInput(f"{shown} is neither square nor an edge_index (2, n_pairs) of integers{pairs}")


def _is_matrix_of_pandas(graph: Any) -> bool:
    """Whether all columns of a table are numbers, maybe of types of pandas that NumPy lacks."""
    return _column_names(graph) is not None and all(
        getattr(kind, "kind", None) in tuple("biuf") for kind in getattr(graph, "dtypes", [None])
    )


def _from_edge_index(pairs: NDArray[Any], num_nodes: Any, weights: Any) -> coo_array:
    if not _is_whole_number(num_nodes) or (n := int(num_nodes)) < 0:
        raise BadInput(f"num_nodes is {num_nodes!r}; give a whole number, at least 0")
    if pairs.ndim != 2 or pairs.shape[0] != 2 or pairs.dtype.kind not in "iu":
        raise BadInput(
            f"edge_index is {pairs.dtype} of shape {pairs.shape}; it must be integers (2, n_pairs)"
        )
    if pairs.size and not 0 <= pairs.min() <= pairs.max() < n:
        raise BadInput(
            f"edge_index names nodes {pairs.min()}..{pairs.max()}; num_nodes={n} allows 0..{n - 1}"
        )
    weights_or_ones = np.ones(pairs.shape[1]) if weights is None else _as_array(weights)
    try:
        values = np.asarray(weights_or_ones, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadInput(f"edge weights must be numbers: {error}") from error
    if values.shape != (pairs.shape[1],):
        raise BadInput(f"{pairs.shape[1]} pairs need one weight each; got shape {values.shape}")
    return coo_array((values, (pairs[0], pairs[1])), shape=(n, n))


def _check(matrix: coo_array) -> None:
    if len(matrix.shape) != 2:
        raise BadInput(f"an adjacency matrix has two axes; got shape {matrix.shape}: {_ONE_BY_ONE}")
    if matrix.shape[0] != matrix.shape[1]:
        raise BadInput(f"an adjacency matrix is square; got shape {matrix.shape}")
    if matrix.dtype.kind not in "biuf":
        raise BadInput(f"edge weights are real numbers, not {matrix.dtype}")
    bad = ~(np.isfinite(matrix.data) & (matrix.data >= 0))
    if bad.any():
        raise BadInput(f"edge weight {matrix.data[bad][0]} is not finite and non-negative")


def _canonical(matrix: csr_array) -> csr_array:
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix
