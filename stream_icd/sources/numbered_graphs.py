"""Graphs of numbered nodes, in the formats of other programs.

- Matrix Market (`.mtx`), sparse matrices of scipy and SuiteSparse
  (https://math.nist.gov/MatrixMarket/formats.html): the entry `i j w` is an edge of weight w.
- METIS (`.graph`, `.metis`), of KaHIP and DIMACS, too (G. Karypis, "METIS: a software package for
  partitioning unstructured graphs", version 5.1, 2013, section 4.1): the first line has the numbers
  of nodes and edges, and perhaps says which weights there are; then each line lists the neighbours
  of one node, and `%` begins a comment.
- Pajek (`.net`, `.pajek`), of Gephi, igraph and VOSviewer, too (A. Mrvar and V. Batagelj, "Pajek:
  reference manual", section 5.3): `*Vertices n` counts the nodes, whose lines hold a number and
  perhaps a label; `*Edges` and `*Arcs` hold pairs of numbers, perhaps with a weight, which is 1 by
  default; `*Edgeslist` and `*Arcslist` the neighbours of a node.

All count nodes from 1.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import dropwhile
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_icd.core.arrays import Floats, Ids
from stream_icd.core.errors import BadInput, BadRow
from stream_icd.sources.headerless import NUMBER
from stream_icd.sources.source import OnBadRow, OnIgnored, RawRows
from stream_icd.sources.tables import text_of

FORMATS = {
    ".mtx": "Matrix Market",
    ".graph": "METIS",
    ".metis": "METIS",
    ".net": "Pajek",
    ".pajek": "Pajek",
}
"""The format of each ending of a file's name."""

_ANY_FILE_DECLARES = 1 << 20
"""Number of nodes that a file of any size may declare by their number alone."""

_BANNER = "%%matrixmarket"

_OBLONG = (
    "is a matrix of %s: row i and column i are taken for the same node. If they are not, write an "
    "edge list"
)

_SIZES = re.compile(r"\s*(\d{1,18})\s+(\d{1,18})(?:\s+([01]{1,3})(?:\s+(\d{1,9}))?)?\s*")
"""Number of nodes, number of edges, format, and number of weights of a node."""

_A_LOOK = 100
"""Lines that show whether a text is METIS."""

_PAIRS, _LISTS = ("edges", "arcs"), ("edgeslist", "arcslist")
_TITLE = re.compile(rf"\*({'|'.join(('network', 'vertices', *_PAIRS, *_LISTS))})\b", re.IGNORECASE)
_KNOWN = "keep *Network, *Vertices, *Edges, *Arcs, *Edgeslist and *Arcslist only"
_VERTEX = re.compile(r'\s*(\d+)(?:\s+(?:"([^"]*)"|(\S+)))?')

_BY_NUMBER = (
    "has nodes without a label of their own: all nodes are named by their numbers, not by labels "
    "such as %s"
)


def numbered_graph(
    form: str,
    start: str,
    content: Callable[[], bytes],
    name: str,
    on_bad_row: OnBadRow,
    on_ignored: OnIgnored,
) -> tuple[str, RawRows] | None:
    """Return the format and the graph of a file: `src`, `dst`, perhaps `weight`, and all nodes.

    None if neither the ending `form` of its name nor its `start`, up to the end of a line, shows
    one of these formats. Raises `BadInput` if the graph is damaged, or no undirected graph.
    """

    def text() -> str:
        return text_of(io.BytesIO(content())).read()

    format = FORMATS.get(form)
    if format == "Matrix Market" or start.lower().startswith(_BANNER):
        return "Matrix Market", _read_matrix_market(content(), name, on_ignored)
    if format == "Pajek" or _is_pajek(start):
        return "Pajek", _read_pajek(text(), name, on_bad_row, on_ignored)
    if format == "METIS":
        return "METIS", _read_metis(text(), name)
    if _may_be_metis(start):
        with suppress(BadInput):  # an edge list, too, may begin like METIS
            return "METIS", _read_metis(text(), name)
    return None


def _check_number_of_nodes(n_nodes: int, size: int) -> None:
    """Raise `BadInput` if a text of this size declares more nodes than memory should be given."""
    if n_nodes > _ANY_FILE_DECLARES + size:
        raise BadInput(
            f"it declares {n_nodes:,} nodes; the limit for its {size:,} bytes is "
            f"{_ANY_FILE_DECLARES + size:,}. Write an edge list, whose nodes need not be declared"
        )


def _with_nodes(origin: str, place: Ids, edges: pa.Table, nodes: pa.Array) -> RawRows:
    """Return edges, each with its line `place`, and after them the nodes without an edge.

    A node without an edge is a row without `dst`, at line 0; `nodes` are all nodes, as in `src`.
    """
    linked = pa.concat_arrays([*edges["src"].chunks, *edges["dst"].chunks, nodes.slice(0, 0)])
    alone = nodes.filter(pc.invert(pc.is_in(nodes, linked)))
    declared = pa.table({"src": alone})
    rows = pa.concat_tables([edges, declared], promote_options="default") if len(alone) else edges
    return RawRows(origin, np.append(place, np.zeros(len(alone), np.int64)), rows)


def _read_matrix_market(text: bytes, name: str, on_ignored: OnIgnored) -> RawRows:
    """Read a matrix; the sizes of an oblong one go to `on_ignored`.

    Raises `BadInput` if it is dense, complex or skew-symmetric.
    """
    import scipy.io  # few need it

    try:
        n_rows, n_columns, n_entries, form, field, symmetry = scipy.io.mminfo(io.BytesIO(text))
        if form != "coordinate" or field == "complex" or symmetry not in ("general", "symmetric"):
            raise BadInput(
                f"its matrix is {form}, {field}, {symmetry}; a graph is coordinate, of real "
                "numbers, general or symmetric"
            )
        if n_entries > len(text):  # memory for all of them is allocated at once
            raise BadInput(f"it has {len(text):,} bytes, too few for {n_entries:,} entries")
        n_nodes = max(n_rows, n_columns)
        _check_number_of_nodes(n_nodes, len(text))
        matrix = scipy.io.mmread(io.BytesIO(text), spmatrix=True)
    except (ValueError, OverflowError) as error:
        raise BadInput(f"it is no matrix of Matrix Market: {error}") from error
    if n_rows != n_columns:
        on_ignored(_OBLONG, f"{n_rows:,} rows and {n_columns:,} columns")
    # scipy states both halves of a symmetric matrix; the file has the lower one.
    stated = np.flatnonzero(matrix.row >= matrix.col) if symmetry == "symmetric" else slice(None)
    src, dst = matrix.row[stated].astype(np.int64) + 1, matrix.col[stated].astype(np.int64) + 1
    columns = {"src": pa.array(src), "dst": pa.array(dst)}
    if field != "pattern":
        columns["weight"] = pa.array(matrix.data[stated].astype(np.float64))
    lines = enumerate(io.BytesIO(text), start=1)
    sizes = next(at for at, line in lines if line.strip() and not line.startswith(b"%"))
    place = sizes + np.arange(1, len(src) + 1)  # exact unless there are empty lines between
    return _with_nodes(name, place, pa.table(columns), pa.array(np.arange(1, n_nodes + 1)))


def _may_be_metis(start: str) -> bool:
    """Whether the first lines fit METIS, as those of an edge list hardly do."""
    sizes, *lists = [text for _, text in _content(start)][: _A_LOOK + 1] or [""]
    if (match := _SIZES.fullmatch(sizes)) is None:
        return False
    n_nodes, n_edges = int(match[1]), int(match[2])
    if any(text.strip() for text in lists[n_nodes:]) or re.search(r"[^\d\s.]", "".join(lists)):
        return False
    if match[3] is not None:  # weights may be any numbers
        return True
    named = [(node, text.split()) for node, text in enumerate(lists, start=1)]
    return sum(len(neighbours) for _, neighbours in named) <= 2 * n_edges and all(
        str(node) not in neighbours for node, neighbours in named
    )


def _read_metis(text: str, name: str) -> RawRows:
    """Read lists of neighbours, which state each edge at both ends."""
    lines = list(dropwhile(lambda numbered: not numbered[1].strip(), _content(text)))
    first = lines[0][1] if lines else ""
    if (sizes := _SIZES.fullmatch(first)) is None:
        raise BadInput(
            f"METIS begins with the numbers of nodes and of edges, not with {first!r:.40}"
        )
    n_nodes, n_edges = int(sizes[1]), int(sizes[2])
    has_sizes, has_weights, is_weighted = (digit == "1" for digit in (sizes[3] or "").zfill(3))
    n_before = has_sizes + (int(sizes[4] or 1) if has_weights else 0)
    lists, after = lines[1 : n_nodes + 1], lines[n_nodes + 1 :]
    n_after = sum(bool(line.strip()) for _, line in after)
    if len(lists) < n_nodes or n_after:
        raise BadInput(
            f"its first line says {n_nodes:,} nodes, and {len(lists) + n_after:,} lines follow"
        )
    counts, neighbours, weights = list[int](), list[int](), list[float]()
    for at, line in lists:
        fields = line.split()[n_before:]
        try:
            named = [int(field) for field in fields[:: 1 + is_weighted]]
            weights += [float(field) for field in fields[1::2]] if is_weighted else []
        except ValueError as error:
            raise BadInput(f"line {at}, {line!r:.60}, is no list of neighbours") from error
        if not all(1 <= neighbour <= n_nodes for neighbour in named):
            raise BadInput(f"line {at}, {line!r:.60}, names a node that is not in 1 to {n_nodes:,}")
        neighbours += named
        counts.append(len(named))
    if is_weighted and len(weights) != len(neighbours):
        raise BadInput(
            "some neighbours have no weight, though the first line says that all have one"
        )
    nodes = np.arange(1, n_nodes + 1)
    edges = {"src": np.repeat(nodes, counts), "dst": np.array(neighbours, np.int64)}
    if is_weighted:
        edges["weight"] = np.array(weights)
    _check_lists(edges, n_edges)
    once = edges["src"] <= edges["dst"]
    place = np.repeat([at for at, _ in lists], counts)[once]
    table = pa.table({column: values[once] for column, values in edges.items()})
    return _with_nodes(name, place, table, pa.array(nodes))


def _check_lists(edges: Mapping[str, Ids | Floats], n_edges: int) -> None:
    """Raise `BadInput` unless each edge is there in both directions, and all are counted."""
    src, dst = edges["src"], edges["dst"]
    if len(src) != 2 * n_edges:
        raise BadInput(
            f"its first line says {n_edges:,} edges, and its lists name {len(src):,} neighbours: "
            "not twice as many"
        )
    weights = edges.get("weight", np.zeros(len(src)))
    up, down = src < dst, src > dst
    upward = _in_order(np.array([src[up], dst[up], weights[up]]))
    downward = _in_order(np.array([dst[down], src[down], weights[down]]))
    if not np.array_equal(upward, downward):
        raise BadInput("its lists differ in an edge: both ends of each one must name the other")


def _in_order(edges: Floats) -> Floats:
    return edges[:, np.lexsort(edges[::-1])]


def _content(text: str) -> list[tuple[int, str]]:
    """Return the lines that are no comments, with their numbers; an empty one lists nobody."""
    lines = enumerate(text.removesuffix("\n").split("\n"), start=1)
    return [(at, line) for at, line in lines if not line.startswith("%")]


class _PajekPart(NamedTuple):
    """The lines below a title, with their numbers."""

    title: str  # in lower case, without the star
    number: int  # in the title; -1: none
    lines: list[tuple[int, str]]


def _is_pajek(start: str) -> bool:
    lines = (line.strip() for line in start.split("\n"))
    return _TITLE.match(next((line for line in lines if line and line[0] != "%"), "")) is not None


def _read_pajek(text: str, name: str, on_bad_row: OnBadRow, on_ignored: OnIgnored) -> RawRows:
    """Read a network; nodes have their labels as ids if each has one of its own, else numbers.

    Lines that are no edges go to `on_bad_row`. Positions, colours and times are not used. Raises
    `BadInput` if the file has several networks, or another part, such as a matrix.
    """
    parts = _pajek_parts(text.split("\n"))
    vertices = [part for part in parts if part.title == "vertices"]
    if len(vertices) != 1 or vertices[0].number < 0:
        raise BadInput(
            f"it has {len(vertices)} lists *Vertices; one network a file has one, with the number "
            "of its nodes"
        )
    n_nodes = vertices[0].number
    _check_number_of_nodes(n_nodes, len(text))
    nodes = _pajek_nodes(vertices[0], on_ignored)
    place, src, dst, weights = list[int](), list[int](), list[int](), list[str | None]()
    for part in parts:
        for at, line in part.lines if part.title in (*_PAIRS, *_LISTS) else ():
            first, *rest = line.split()
            ends = [first, *(rest[:1] if part.title in _PAIRS else rest)]
            if len(ends) < 2 or not all(re.fullmatch(r"\d{1,18}", end) for end in ends):
                on_bad_row(BadRow(f"{name}:{at}: {line!r:.60} is no edge of two numbers of nodes"))
                continue
            node, *neighbours = map(int, ends)
            if not all(1 <= end <= n_nodes for end in (node, *neighbours)):
                on_bad_row(BadRow(f"{name}:{at}: {line!r:.60} names no node of 1 to {n_nodes:,}"))
                continue
            weight = rest[1] if part.title in _PAIRS and len(rest) > 1 else ""
            weights += [weight if re.match(NUMBER, weight) else None] * len(neighbours)
            src += [node] * len(neighbours)
            dst += neighbours
            place += [at] * len(neighbours)
    edges = {"src": src, "dst": dst}
    columns = {end: nodes.take(pa.array(np.array(of, np.int64) - 1)) for end, of in edges.items()}
    if any(weights):
        columns["weight"] = pa.array([weight or "1" for weight in weights])
    return _with_nodes(name, np.array(place, np.int64), pa.table(columns), nodes)


def _pajek_parts(lines: Iterable[str]) -> list[_PajekPart]:
    """Divide a file at its titles; `BadInput`: one is of something else than a simple network."""
    parts = [_PajekPart("", -1, [])]
    for at, text in enumerate(lines, start=1):
        line = text.strip()
        if line.startswith("*"):
            if (title := _TITLE.match(line)) is None:
                raise BadInput(
                    f"line {at}, {line!r:.60}, begins a part that cannot be read: {_KNOWN}"
                )
            number = re.search(r"\d{1,18}", line)
            parts.append(_PajekPart(title[1].lower(), int(number[0]) if number else -1, []))
        elif line and not line.startswith("%"):
            parts[-1].lines.append((at, line))
    return parts


def _pajek_nodes(vertices: _PajekPart, on_ignored: OnIgnored) -> pa.Array:
    """Return the id of each node: its label, if each has one of its own, or its number."""
    matches = filter(None, (_VERTEX.match(line) for _, line in vertices.lines))
    labels = {int(match[1]): match[2] or match[3] for match in matches}
    named = {number: label for number, label in labels.items() if label}
    numbers = range(1, vertices.number + 1)
    if len(set(named.values())) == vertices.number and all(number in named for number in numbers):
        return pa.array([named[number] for number in numbers])
    if named:
        on_ignored(_BY_NUMBER, next(iter(named.values())))
    return pa.array(np.arange(1, vertices.number + 1))
