"""A snapshot: the undirected graph of one time window, with the node ids of its source."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from stream_icd.core.arrays import Floats, Ids
from stream_icd.core.coordinates import Coordinates
from stream_icd.core.errors import BadSnapshot, LimitExceeded
from stream_icd.core.node_ids import is_id_type, is_text, widened

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MICROSECOND = timedelta(microseconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

MOST_GRAPH_BYTES = 200
"""Maximum size of a graph's name, written as in a URL: the archive names a folder `graph=NAME`, and
file systems allow names of 255 bytes."""

MOST_NODE_BYTES = 4096
"""Maximum size of a node's id: that of the longest path of a file; URLs are shorter in practice.
Millions of equal bytes compress to a few, so limits on messages do not bound what an id takes."""

_SHORT = 1 << 16
"""Length of a range of ids for which a table takes no longer than hashing, however few ids."""

LEAST_WEIGHT, MOST_WEIGHT = 1e-150, 1e150
"""Least weight of one edge, and most weight of all edges together. Modularity and the planted
model multiply and divide by sums of weights: within these bounds the results are finite."""


@dataclass(frozen=True, slots=True)
class Window:
    """A half-open span of event time, `[start, end)`, in UTC, in microseconds.

    Raises:
        BadSnapshot: a time is no `datetime`, has no zone or is outside the years 1 to 9999 in UTC,
            or the end is before the start.
    """

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        for name, time in (("start", self.start), ("end", self.end)):
            if not isinstance(time, datetime):
                raise BadSnapshot(f"window {name} {time!r} is no datetime; give one with a zone")
            if time.tzinfo is None:
                raise BadSnapshot(f"window {name} {time.isoformat()} has no time zone; give UTC")
            try:
                utc = time.astimezone(UTC)
                # A Timestamp of pandas has nanoseconds, which no message can hold.
                object.__setattr__(self, name, datetime.combine(utc.date(), utc.timetz()))
            except OverflowError as error:
                raise BadSnapshot(
                    f"window {name} {time.isoformat()} is outside the years 1 to 9999 in UTC"
                ) from error
        if self.end < self.start:
            raise BadSnapshot(f"window ends ({self.end}) before it starts ({self.start})")


def check_graph_name(graph: str) -> None:
    """Check that a graph may have this name.

    Raises `BadSnapshot` if it is empty or no text of UTF-8; `LimitExceeded` above
    `MOST_GRAPH_BYTES`.
    """
    if not isinstance(graph, str):
        raise BadSnapshot(f"the name of the graph is {graph!r}: give a text, such as as733")
    if not graph:
        raise BadSnapshot("the name of the graph is empty: give one, such as as733")
    try:
        size = len(quote(graph, safe=""))
    except UnicodeEncodeError as error:
        raise BadSnapshot(f"the name of graph {graph!r:.80} is not UTF-8 text") from error
    if size > MOST_GRAPH_BYTES:
        raise LimitExceeded(
            f"the name of graph {graph:.40}… has {size} bytes when written as in a URL; the limit "
            f"is {MOST_GRAPH_BYTES}"
        )


def checked_ids(ids: pa.Array) -> pa.Array:
    """Return ids of nodes in the one type of their kind (`node_ids.widened`).

    Raises `LimitExceeded` if one has more than `MOST_NODE_BYTES`.
    """
    ids = widened(ids)
    if is_text(ids.type) and ids.nbytes > MOST_NODE_BYTES:
        for chunk in ids.chunks if isinstance(ids, pa.ChunkedArray) else [ids]:
            sizes = _text_lengths(chunk)
            if (size := int(sizes.max(initial=0))) > MOST_NODE_BYTES:
                node = chunk[int(sizes.argmax())].as_py()
                raise LimitExceeded(
                    f"the id of node {node:.40}… has {size} bytes; the limit is {MOST_NODE_BYTES}: "
                    "send a shorter id, such as a hash of it"
                )
    return ids


def _text_lengths(texts: pa.Array) -> NDArray[np.integer]:
    """Return the bytes of each text, `(n,)`, of an array of `string` or `large_string`."""
    if not len(texts):  # it may have no buffers
        return np.zeros(0, np.int64)
    wide = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    offsets = np.frombuffer(texts.buffers()[1], wide)
    return np.diff(offsets[texts.offset : texts.offset + len(texts) + 1])


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """The graph of one window, in canonical form: made by `snapshot_from_pairs`.

    Two lists of pairs that describe the same graph give equal snapshots, whatever the order
    and the direction of the pairs.

    Attributes:
        graph: name of the graph; the key of the Kafka message.
        id: name of the snapshot, unique in its graph, such as `as733/1999-04-02`.
        nodes: the source's own ids, `(n_nodes,)`, unique, ascending; integers or strings, of the
            one type of their kind (`node_ids.widened`).
        edges: positions in `nodes`, `(2, n_edges)`, row 0 < row 1, each pair once, ascending.
        weights: `(n_edges,)` at least `LEAST_WEIGHT` each and at most `MOST_WEIGHT` in all, or
            None for an unweighted graph.
        n_communities: K, if the source knows it.
        source: a URI reference (`ce_source`).
        n_self_loops: number of self loops that were dropped.
        content: SHA-256 of everything except the names (graph, id, source) and the coordinates, 64
            lower-case hexadecimal digits. A different hash under the same id is a correction.
    """

    graph: str
    id: str
    window: Window
    nodes: pa.Array
    edges: Ids
    weights: Floats | None = None
    n_communities: int | None = None
    source: str = "stream_icd"
    n_self_loops: int = 0
    coordinates: Coordinates | None = None
    content: str = field(init=False)

    def __post_init__(self) -> None:
        check_graph_name(self.graph)
        if not isinstance(self.window, Window):
            raise BadSnapshot(f"the window is {self.window!r:.80}; give Window(start, end)")
        _check_text("id", self.id)
        _check_text("source", self.source)
        if self.coordinates is not None and self.coordinates.crs != "":
            _check_text("crs", self.coordinates.crs)
        k = self.n_communities
        is_whole = hasattr(k, "__index__") and not isinstance(k, bool)
        if k is not None and not (is_whole and 1 <= k <= self.n_nodes):
            raise BadSnapshot(
                f"snapshot {self.id!r} asks for {k!r} communities of {self.n_nodes} nodes; "
                f"K must be a whole number from 1 to the number of nodes, or left out"
            )
        object.__setattr__(self, "nodes", checked_ids(self.nodes))
        object.__setattr__(self, "content", _content_of(self))

    @property
    def n_nodes(self) -> int:
        """Number of nodes, isolated ones included."""
        return len(self.nodes)

    @property
    def kind_of_ids(self) -> Literal["integer", "string"]:
        return "string" if is_text(self.nodes.type) else "integer"

    @property
    def n_edges(self) -> int:
        """Number of undirected edges, each counted once."""
        return int(self.edges.shape[1])

    @property
    def n_bytes(self) -> int:
        """Bytes of memory, approximately."""
        weights = 0 if self.weights is None else self.weights.nbytes
        places = 0 if self.coordinates is None else 2 * self.coordinates.x.nbytes
        return int(self.nodes.nbytes) + self.edges.nbytes + weights + places

    def adjacency(self) -> csr_array:
        """The symmetric adjacency matrix A, `(n_nodes, n_nodes)` float64, zero diagonal."""
        from stream_icd.core.symmetric import symmetric  # few readers need numba and scipy

        low, high = self.edges
        weights = np.ones(self.n_edges) if self.weights is None else self.weights
        return symmetric(low, high, weights, self.n_nodes)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Snapshot):
            return NotImplemented
        return self._named() == other._named() and self.coordinates == other.coordinates

    def __hash__(self) -> int:
        return hash(self._named())

    def _named(self) -> tuple[str, ...]:
        return self.graph, self.id, self.source, self.content


def _check_text(name: str, text: object) -> None:
    """Raise `BadSnapshot` unless this is a text that a message can hold, and not empty."""
    if not (text and isinstance(text, str)):
        raise BadSnapshot(f"a snapshot needs a text as its {name}, not {text!r:.80}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadSnapshot(f"{name} {text!r:.80} is not UTF-8 text") from error


def _content_of(snapshot: Snapshot) -> str:
    """Return the hash of the canonical form, which docs/wire.md describes for other languages."""
    kind, arrays = _kind_and_bytes(snapshot.nodes)
    window = snapshot.window
    start, end = ((time - EPOCH) // MICROSECOND for time in (window.start, window.end))
    head = (
        f"window {start} {end}\n"
        f"k {snapshot.n_communities or 0}\n"
        f"nodes {snapshot.n_nodes} {kind}\n"
        f"edges {snapshot.n_edges} {'plain' if snapshot.weights is None else 'weighted'}\n"
    )
    arrays.append(np.ascontiguousarray(snapshot.edges, "<i8"))
    if snapshot.weights is not None:
        arrays.append(np.ascontiguousarray(snapshot.weights, "<f8"))
    digest = hashlib.sha256(head.encode())
    for part in arrays:
        digest.update(part)
    return digest.hexdigest()


def _kind_and_bytes(nodes: pa.Array) -> tuple[str, list[Any]]:
    """Return the kind of the ids, and their bytes; of texts, first the length of each."""
    if not pa.types.is_integer(nodes.type):
        texts = nodes.cast(pa.large_utf8())
        _, offsets, data = texts.buffers()
        starts = np.frombuffer(offsets, "<i8")[texts.offset : texts.offset + len(texts) + 1]
        return "utf8", [np.diff(starts), memoryview(data)[starts[0] : starts[-1]]]
    values = nodes.to_numpy()
    if values.dtype != np.uint64 or not len(values) or values[-1] < 1 << 63:  # they are ascending
        return "int64", [np.ascontiguousarray(values, "<i8")]
    return "uint64", [np.ascontiguousarray(values, "<u8")]


def snapshot_from_pairs(
    src: ArrayLike | pa.Array,
    dst: ArrayLike | pa.Array,
    *,
    graph: str,
    id: str,
    window: Window,
    weights: ArrayLike | pa.Array | None = None,
    n_communities: int | None = None,
    source: str = "stream_icd",
    x: ArrayLike | pa.Array | None = None,
    y: ArrayLike | pa.Array | None = None,
    crs: str = "",
) -> Snapshot:
    """Bring a list of pairs into the canonical form of a `Snapshot`.

    A pair given twice or in both directions is one edge (weights add), self loops are dropped
    and counted, and a null `dst` declares `src` as a node without an edge.

    Args:
        src, dst: ids of the two ends, `(n_pairs,)` each, of one integer or string type.
        weights: `(n_pairs,)`, positive and finite; ignored where `dst` is null.
        x, y, crs: the place of `src`, `(n_pairs,)`, null or NaN where a row names none; and the
            coordinate reference system (`Coordinates`).

    Raises:
        BadSnapshot: there is no edge, ids have the wrong type, a `src` is null, a weight is bad,
            or weights add up to more than `MOST_WEIGHT`, or on one edge to less than
            `LEAST_WEIGHT`; or a place is wrong (`Coordinates.of_rows`).

    >>> day = Window(datetime(1999, 4, 2, tzinfo=UTC), datetime(1999, 4, 3, tzinfo=UTC))
    >>> snapshot = snapshot_from_pairs(
    ...     [701, 1239, 701, 7018], [1239, 701, 701, None],
    ...     graph="as733", id="as733/1999-04-02", window=day)
    >>> snapshot.nodes.to_pylist(), snapshot.edges.tolist(), snapshot.n_self_loops
    ([701, 1239, 7018], [[0], [1]], 1)
    """
    src_ids, dst_ids = _ids("src", src), _ids("dst", dst)
    check_id_types(src_ids.type, dst_ids.type)
    if len(src_ids) != len(dst_ids):
        raise BadSnapshot(
            f"src has {len(src_ids)} rows and dst {len(dst_ids)}; each pair needs both"
        )
    if src_ids.null_count:
        raise BadSnapshot(f"src is null in {src_ids.null_count} rows; only dst may be null")
    nodes, row, column = _positions(src_ids, dst_ids)
    coordinates = Coordinates.of_rows(
        row,
        len(nodes),
        x=_numbers("x", x, len(src_ids)),
        y=_numbers("y", y, len(src_ids)),
        crs=crs,
    )
    paired = np.asarray(dst_ids.is_valid()) if dst_ids.null_count else slice(None)
    row = row[paired]
    weight = _numbers("weight", weights, len(src_ids))
    weight = None if weight is None else weight[paired]
    loops = row == column
    n_self_loops = int(np.count_nonzero(loops))
    if n_self_loops == len(row):
        raise BadSnapshot(f"snapshot {id!r} has no edge between two different nodes")
    if n_self_loops:
        row, column = row[~loops], column[~loops]
        weight = None if weight is None else weight[~loops]
    pairs = _numbered(row, column, len(nodes))
    del row, column, loops  # frees memory for the next step, for large graphs
    edges, merged = _merge(pairs, weight, len(nodes))
    return Snapshot(
        graph=graph,
        id=id,
        window=window,
        nodes=nodes,
        edges=edges,
        weights=merged,
        n_communities=n_communities,
        source=source,
        n_self_loops=n_self_loops,
        coordinates=coordinates,
    )


def _ids(name: str, values: Any) -> pa.Array:
    try:
        ids = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values)
    except MemoryError:
        raise
    except OverflowError as error:
        raise BadSnapshot(
            f"{name} has an integer outside the range of int64; give src and dst as "
            "pyarrow.array(…, pyarrow.uint64())"
        ) from error
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise BadSnapshot(f"{name} is not a column of integers or strings: {error}") from error
    if isinstance(ids, pa.ChunkedArray):  # a single chunk needs no copy
        ids = ids.chunk(0) if ids.num_chunks == 1 else ids.combine_chunks()
    return widened(ids) if pa.types.is_string_view(ids.type) else ids  # which cannot be sorted


def _numbers(name: str, values: ArrayLike | pa.Array | None, n_rows: int) -> Floats | None:
    """Return a column of the pairs, `(n_rows,)`, as numbers; None if it is not given.

    Raises `BadSnapshot` if it is none, or has another length.
    """
    if values is None:
        return None
    try:
        array = np.asarray(values)
        if array.dtype.kind in "cmM":  # numpy takes the real part, or the number of microseconds
            raise TypeError(f"it has type {array.dtype}")
        column = np.asarray(array, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadSnapshot(f"{name} is not a column of numbers: {error}") from error
    if column.shape != (n_rows,):
        raise BadSnapshot(f"{name} has shape {column.shape}; {n_rows} pairs need one each")
    return column


def check_id_types(src: pa.DataType, dst: pa.DataType) -> None:
    """Raise `BadSnapshot` unless columns of these types can be ends of pairs; `dst` may be null."""
    if not is_id_type(src):
        raise BadSnapshot(f"src has type {src!s:.80}; ids are integers or strings")
    if dst not in (src, pa.null()):
        raise BadSnapshot(f"src has type {src!s:.80} and dst {dst!s:.80}; give both the same type")


def _positions(
    src: pa.Array, dst: pa.Array
) -> tuple[pa.Array, NDArray[np.integer], NDArray[np.integer]]:
    """Return ascending node ids, the position of each src, and that of each non-null dst."""
    whole = dst if dst.type == src.type else dst.cast(src.type)
    ends = src, whole.drop_null() if whole.null_count else whole
    span = _span(ends)
    nodes, (row, column) = _ranked(ends) if span is None else _ranked_in(span, ends)
    return nodes, row, column


def _span(ends: tuple[pa.Array, pa.Array]) -> range | None:
    """Return the range from the smallest to the largest id, if a table of it is cheap."""
    if not pa.types.is_integer(ends[0].type):
        return None
    columns = [end.to_numpy() for end in ends if len(end)]
    if not columns:
        return None
    first, last = min(int(ids.min()) for ids in columns), max(int(ids.max()) for ids in columns)
    is_short = last - first < 4 * sum(map(len, ends)) + _SHORT
    return range(first, last + 1) if is_short and last < (1 << 63) - 1 else None


def _ranked_in(
    span: range, ends: tuple[pa.Array, pa.Array]
) -> tuple[pa.Array, list[NDArray[np.integer]]]:
    """Rank ids by a table of the whole span: a tenth of the time and memory of hashing."""
    columns = [end.to_numpy().astype(np.int64, copy=False) for end in ends]
    present = np.zeros(span.stop - span.start, np.bool_)
    for ids in columns:
        present[ids - span.start] = True
    nodes = np.flatnonzero(present)
    rank = np.empty(len(present), _index_type(len(present)))
    rank[nodes] = np.arange(len(nodes))
    nodes += span.start
    return pa.array(nodes), [rank[ids - span.start] for ids in columns]


def _ranked(ends: tuple[pa.Array, pa.Array]) -> tuple[pa.Array, list[NDArray[np.integer]]]:
    """Rank ids of any type by hashing."""
    import pyarrow.compute as pc

    encoded = pc.dictionary_encode(pa.concat_arrays(ends))
    order = pc.sort_indices(encoded.dictionary)
    rank = np.empty(len(order), _index_type(len(order)))
    rank[order.to_numpy()] = np.arange(len(order))
    positions = rank[encoded.indices.to_numpy()]
    return encoded.dictionary.take(order), [positions[: len(ends[0])], positions[len(ends[0]) :]]


def _index_type(n: int) -> type[np.integer]:
    return np.int32 if n < 1 << 31 else np.int64


def _numbered(row: NDArray[np.integer], column: NDArray[np.integer], n: int) -> Ids:
    """Encode each pair as one number, lower end first: numbers sort as the pairs do."""
    pairs: Ids = np.minimum(row, column).astype(np.int64)
    pairs *= n
    pairs += np.maximum(row, column)
    return pairs


def _merge(pairs: Ids, weights: Floats | None, n: int) -> tuple[Ids, Floats | None]:
    """Return each pair once, ascending, with weights of repeats added. Sorts `pairs` in place."""
    if weights is None:
        if not (pairs[1:] > pairs[:-1]).all():  # our encoder writes them ascending
            pairs.sort()  # sorting and dropping repeats takes a fifth of np.unique's time
        return _split(pairs, _first(pairs), n), None
    bad = ~(np.isfinite(weights) & (weights > 0))
    if bad.any():
        raise BadSnapshot(f"weight {weights[bad][0]} is not positive and finite; drop the edge")
    order = np.argsort(pairs, kind="stable")
    first = _first(pairs[order])
    if not first.all():  # weights add up to the same sum in any order of the rows
        order = np.lexsort((weights, pairs))
    pairs = pairs[order]
    added = np.bincount(np.cumsum(first) - 1, weights[order]).astype(np.float64, copy=False)
    check_weights(added)
    return _split(pairs, first, n), added


def check_weights(weights: Floats) -> None:
    """Raise `BadSnapshot` if a weight is below the least, or all together are above the most."""
    with np.errstate(over="ignore"):
        least, total = weights.min(initial=np.inf), weights.sum()
    if least < LEAST_WEIGHT:
        raise BadSnapshot(
            f"an edge has weight {least:g}; the least is {LEAST_WEIGHT:g}: multiply all weights"
        )
    if total > MOST_WEIGHT:
        raise BadSnapshot(
            f"the weights of all edges add up to {total:g}; "
            f"the limit is {MOST_WEIGHT:g}: divide all weights"
        )


def _first(ascending: Ids) -> NDArray[np.bool_]:
    """Return True where a value differs from the one before."""
    return np.append([True], ascending[1:] != ascending[:-1])


def _split(pairs: Ids, chosen: NDArray[np.bool_], n: int) -> Ids:
    """Return both ends, `(2, n_chosen)`, of the chosen numbered pairs."""
    if not chosen.all():
        pairs = pairs[chosen]
    ends = np.empty((2, len(pairs)), np.int64)
    np.floor_divide(pairs, n, out=ends[0])
    np.multiply(ends[0], n, out=ends[1])
    np.subtract(pairs, ends[1], out=ends[1])  # half the time of `np.divmod`
    return ends
