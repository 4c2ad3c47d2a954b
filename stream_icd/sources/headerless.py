"""Text without a header that names the ends of edges: is each row an edge, also the first one?

Almost any text has two words in its first line. What plainly holds no edges is refused.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_icd.core.errors import BadInput
from stream_icd.core.printable import listed
from stream_icd.sources.source import OnIgnored, RawRows
from stream_icd.sources.values import INTEGER, IdForm

_HEADER = {"src", "dst", "source", "target", "weight"}
"""Names of columns that are hardly ids."""
EXPECTED = "an edge list has the columns src, dst and perhaps weight"
NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_FRACTION = r"^[+-]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_WORD = r"^[A-Za-z][A-Za-z0-9 _.-]*$"
"""A name of a column, as a rule."""
_TIME = r"^([0-9]{9,10}|[0-9]{13})(\.[0-9]*)?$|^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:.*)?$"
"""Seconds or milliseconds since 1970, from 1973 on, or ISO 8601."""
_NAMES = (
    r"account|actor|alter|author|buyer|callee|caller|child|destination|dst|ego|entity|followee|"
    r"follower|friend|from|fromnode|item|member|name|node|origin|parent|person|receiver|recipient|"
    r"seller|sender|source|src|target|to|tonode|user|vertex"
)
"""What columns of nodes are called, without `id`, numbers and a last letter."""
_A_FEW, _A_LOOK = 3, 20
_IS_HEADER = (
    "if it is one, name the ends in it (src,dst or source,target or from,to), or leave it out; if "
    "it is an edge, write src,dst above it"
)

_TWO_COLUMNS = (
    "has no header: columns 1 and 2{separated} are the ends of edges, the first one is %s"
)
_NO_HEADER = (
    "has no header: only columns 1 and 2{separated} are used, not %s; for weights, write the "
    "header src,dst,weight"
)
_FIRST_IS_SIZE = "begins with its number of edges: the first line (%s) is taken for no edge"
_FIRST_IS_COMMENT = "holds numbers below its first line (%s), which is taken for a comment"
_SEPARATED = {"\t": ", separated by tabs,", " ": ", separated by spaces,"}

_RefuseTimes = Callable[[pa.ChunkedArray, str, Mapping[str, str]], None]
"""Raises `BadInput` if times differ: given them, what the column is called, and options of
`produce events` with which it reads them."""

_Read = Callable[[Sequence[str], bool], list[RawRows]]
"""Reads the rows of a text, given names for its columns, and whether its first line is no row."""


def headerless_edges(
    lines: Sequence[Sequence[str]],
    delimiter: str,
    read: _Read,
    on_ignored: OnIgnored,
    refuse_times: _RefuseTimes,
) -> list[RawRows]:
    """Read a text whose first lines have these fields; the columns `src` and `dst` come first.

    Raises `BadInput` if the first line looks like a header, or rows are no edges.
    """
    if lines[0][:1] == [""] or _HEADER.intersection(field.lower() for field in lines[0]):
        # The index of pandas has no name.
        raise BadInput(f"its first line ({listed(lines[0])}) looks like a header; {EXPECTED}")
    shape = _shape_of(lines)
    batches = read(shape.columns, shape.has_title)
    if not any(len(batch.rows) for batch in batches):
        return batches
    batches = _edges_of(batches, shape, on_ignored)
    rows, filled = pa.concat_tables([batch.rows for batch in batches]), []
    for number, name in enumerate(rows.column_names[2:], start=3):
        if _all_match(rows[name], _TIME):
            columns = ",".join("t" if column == name else column for column in rows.column_names)
            refuse_times(rows[name], f"column {number}", {"columns": columns})
        if pc.any(pc.not_equal(rows[name], "")).as_py():
            filled.append(number)
    separated = _SEPARATED.get(delimiter, f", separated by {delimiter!r},")
    if filled:
        on_ignored(_NO_HEADER.format(separated=separated), ", ".join(map(str, filled)))
    else:
        on_ignored(_TWO_COLUMNS.format(separated=separated), f"{rows['src'][0]} - {rows['dst'][0]}")
    return batches


@dataclass(frozen=True, slots=True)
class _TextShape:
    """What the first lines of a text show of its rows."""

    first: Sequence[str]  # the fields of the first line
    n_columns: int
    has_title: bool  # the first line has other columns, so it can only state sizes

    @property
    def columns(self) -> list[str]:
        """Names for the columns, of which the first two are the ends of edges."""
        return ["src", "dst", *(f"more{number}" for number in range(2, self.n_columns))]


def _shape_of(lines: Sequence[Sequence[str]]) -> _TextShape:
    """Return the shape of the rows, given the fields of the first lines.

    Raises `BadInput` if the rows have one column, or most of them others than the first line.
    """
    first, *below = lines
    n_columns, n_agree = Counter(map(len, below)).most_common(1)[0] if below else (0, 0)
    n_like_first = sum(len(fields) == len(first) for fields in below)
    is_like_others = len(below) < 2 or 2 * n_like_first >= len(below)
    if not is_like_others and 2 * n_agree <= len(below):
        raise BadInput(f"its rows have different numbers of columns; {EXPECTED}")
    n_columns = len(first) if is_like_others else n_columns
    if n_columns < 2:
        raise BadInput(f"its rows have one column, as in {listed(lines[-1])}; {EXPECTED}")
    if is_like_others:
        return _TextShape(first, n_columns, False)
    if not all(re.fullmatch(r"\d+", field) for field in first):
        raise BadInput(
            f"its first line ({listed(first)}) has {len(first)} columns and the rows {n_columns}: "
            f"{_IS_HEADER}"
        )
    return _TextShape(first, n_columns, True)


def _edges_of(
    batches: Sequence[RawRows], shape: _TextShape, on_ignored: OnIgnored
) -> list[RawRows]:
    """Return the rows that are edges: all, except a first one that states sizes, or is a comment.

    That is guessed, and goes to `on_ignored`. Raises `BadInput` if the first row is a header, or
    the rows are a matrix, measurements or labels.
    """
    rows = pa.concat_tables([batch.rows for batch in batches])
    below = rows if shape.has_title else rows.slice(1)
    guess = None
    if _is_size(shape.first, below):
        guess = _FIRST_IS_SIZE
    elif shape.has_title:
        raise BadInput(
            f"its first line ({listed(shape.first)}) has {len(shape.first)} columns and the rows "
            f"{shape.n_columns}: {_IS_HEADER}"
        )
    elif _is_header(rows):
        if shape.first[0][:1] not in ("#", "%"):
            raise BadInput(f"the first line ({listed(shape.first)}) is a header: {_IS_HEADER}")
        guess = _FIRST_IS_COMMENT
    elif _is_strange(rows):
        raise BadInput(
            f"the first line ({listed(shape.first)}) looks like a header, for no other line has "
            f"its words: {_IS_HEADER}"
        )
    edges = rows if guess is None else below
    _refuse_matrix(edges)
    _refuse_labels_and_measurements(edges)
    if guess is not None:
        on_ignored(guess, listed(shape.first))
    if guess is None or shape.has_title:
        return list(batches)
    at = next(at for at, batch in enumerate(batches) if len(batch.rows))
    first = replace(batches[at], place=batches[at].place[1:], rows=batches[at].rows.slice(1))
    return [*batches[:at], first, *batches[at + 1 :]]


def _is_size(first: Sequence[str], rows: pa.Table) -> bool:
    """Whether a line states the nodes (or rows and columns) and the number of edges below."""
    if len(rows) < _A_FEW or not 2 <= len(first) <= 3:
        return False
    ends = [rows["src"], rows["dst"]]
    if not all(re.fullmatch(r"\d{1,18}", field) for field in first):
        return False
    *n_nodes, n_edges = map(int, first)
    if n_edges != len(rows) or not all(_all_match(end, INTEGER) for end in ends):
        return False
    return all(pc.max(end.cast(pa.int64())).as_py() <= max(n_nodes) for end in ends)


def _is_header(rows: pa.Table) -> bool:
    """Whether the first row has words in columns that hold numbers or times in all others."""
    titled = [
        not _all_match(column.slice(0, 1), f"{NUMBER}|{_TIME}|^$")
        and pc.any(pc.not_equal(column.slice(1), "")).as_py()
        and (
            _all_match(column.slice(1), f"{NUMBER}|^$")
            or _all_match(column.slice(1), f"{_TIME}|^$")
        )
        for column in rows.columns
    ]
    return all(titled[:2]) or (any(titled) and len(rows) >= _A_FEW)


def _is_strange(rows: pa.Table) -> bool:
    """Whether the first row has two words that are in no other row, and that are names of columns.

    They are if they say so, as the ids below do not; or if no other row has two ids of its own. If
    all rows are edges, in any order, the latter happens at most once in their number.
    """
    ends = pa.chunked_array([*rows["src"].chunks, *rows["dst"].chunks])
    words = [rows["src"][0], rows["dst"][0]]
    if not all(re.fullmatch(_WORD, word.as_py()) for word in words):
        return False
    if any(pc.sum(pc.equal(ends, word)).as_py() > 1 for word in words):
        return False
    few = rows.slice(1, _A_LOOK)
    if all(_is_name(word) for word in words) and not any(
        _is_name(end) for end in (*few["src"], *few["dst"])
    ):
        return True
    counts = ends.value_counts()
    once = counts.field("values").filter(pc.equal(counts.field("counts"), 1))
    alone = pc.and_(pc.is_in(rows["src"], once), pc.is_in(rows["dst"], once))
    return int(pc.sum(alone).as_py()) == 1


def _is_name(word: pa.Scalar) -> bool:
    """Whether a column of nodes may be called so, such as `person_a`, `FromNodeId` or `user 2`."""
    stem = re.sub(r"[^a-z]", "", re.sub(r"[ _.-][a-z]$", "", word.as_py().lower()))
    return re.fullmatch(_NAMES, stem.removesuffix("id")) is not None


def _refuse_matrix(rows: pa.Table) -> None:
    """Refuse cells of a matrix: all are 0 or 1, or it is square with an empty diagonal."""
    columns = rows.columns
    if len(columns) == len(rows) + 1 and not _all_match(columns[0], NUMBER):  # names of the rows
        columns = columns[1:]
    is_square = len(columns) == len(rows)
    if len(columns) < _A_FEW or len(rows) < 2:
        return
    is_table_of_links = all(_all_match(column, r"^[01](\.0*)?$") for column in columns)
    if (
        is_square
        and not is_table_of_links
        and all(_all_match(column, NUMBER) for column in columns)
    ):
        cells = np.array([column.cast(pa.float64()).to_numpy() for column in columns])
        is_table_of_links = np.array_equal(cells, cells.T) or not cells.diagonal().any()
    if is_table_of_links:
        raise BadInput(
            f"it is a matrix of {len(rows)} rows and {len(columns)} columns: write a row for each "
            f"edge, or Matrix Market (.mtx); {EXPECTED}"
        )


def _refuse_labels_and_measurements(rows: pa.Table) -> None:
    """Refuse columns that hold fractions, or the same value in each row."""
    ends = [rows["src"], rows["dst"]]
    for number, end in enumerate(ends, start=1):
        # Of more columns, it is a matrix: whole numbers such as 0.0 and 1.0 are no ids there.
        may_be_ids = len(rows.columns) <= _A_FEW and IdForm.of_column(end).kind == "integer"
        if _all_match(end, _FRACTION) and not may_be_ids:
            raise BadInput(f"column {number} holds fractions, not ids of nodes; {EXPECTED}")
    counts = [len(end.unique()) for end in ends]
    if min(counts) == 1 and max(counts) >= _A_FEW:
        at = counts.index(1)
        raise BadInput(
            f"column {at + 1} holds {ends[at][0]} in each row: is it a label? If these are edges "
            "to one node, name the columns in a first line: src,dst"
        )


def _all_match(column: pa.ChunkedArray, pattern: str) -> bool:
    """Whether each text has this pattern; a look at a few is enough, as a rule."""
    parts = (column.slice(0, 100), column)
    return all(pc.all(pc.match_substring_regex(part, pattern)).as_py() for part in parts)
