"""Ids of nodes: integers of one value are one node, whatever the width of their type.

Programs that write a graph choose a type of their own: pandas gives int64, a database int32,
polars `large_string` or `string_view`. So all that holds ids holds them in one type (`widened`):
int64, or uint64 if an id is above its range, or string.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_MOST_TEXT = (1 << 31) - 1
"""Bytes of text in an array of type `string`; longer ones are `large_string`."""

_WIDE = pa.int64(), pa.string()
"""The types of nearly all ids."""

_FEW_FOR_EACH = 16
"""Known ids and ids in their span, for each wanted one, up to which a table of the span is made."""


def id_array(ids: Any) -> pa.Array:
    """Return an array of ids that Python or numpy holds; Arrow alone takes none above int64."""
    try:
        return pa.array(ids)
    except OverflowError:
        return pa.array(ids, pa.uint64())


def is_id_type(kind: pa.DataType) -> bool:
    """Whether node ids may have this Arrow type: any integer, or a string."""
    return bool(pa.types.is_integer(kind)) or is_text(kind)


def is_text(kind: pa.DataType) -> bool:
    """Whether this Arrow type is a string, of any kind."""
    kinds = pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view
    return any(is_kind(kind) for is_kind in kinds)


def change_of_kind(before: pa.Array, now: pa.Array) -> str | None:
    """Return a warning if the nodes of a graph had ids of the other kind before; None if not.

    >>> change_of_kind(pa.array([1, 2]), pa.array([1, 3], pa.uint64()))
    >>> change_of_kind(pa.array([1, 2]), pa.array(["1", "2"]))[:51]
    'the ids of the nodes were integers, and are text no'
    """
    is_same = before.type == now.type or is_text(before.type) == is_text(now.type)
    if is_same or not (len(before) and len(now)):
        return None
    kinds = ("text", "integers") if is_text(before.type) else ("integers", "text")
    return (
        f"the ids of the nodes were {kinds[0]}, and are {kinds[1]} now: each node is a new one, "
        "and no community continues. Give ids the same type in all windows"
    )


def widened(ids: pa.Array) -> pa.Array:
    """Return the ids in the one type of ids of their kind.

    >>> [widened(pa.array([id], pa.uint64())).type for id in (701, 1 << 63)]
    [DataType(int64), DataType(uint64)]
    """
    kind = wide_type(ids)
    return ids if ids.type == kind else ids.cast(kind)


def wide_type(*columns: pa.Array | pa.ChunkedArray) -> pa.DataType:
    """Return the one type of ids of their kind, for columns of one type; ids may be null."""
    kind = columns[0].type
    if kind in _WIDE:
        return kind
    if is_text(kind):
        most = sum(map(_text_bytes, columns))
        return pa.large_string() if most > _MOST_TEXT else pa.string()
    if not pa.types.is_integer(kind):
        return kind
    if kind == pa.uint64():
        import pyarrow.compute as pc  # a tenth of a subscriber's start, for a type that is rare

        if any((pc.max(ids).as_py() or 0) >= 1 << 63 for ids in columns):
            return kind
    return pa.int64()


def _text_bytes(texts: pa.Array | pa.ChunkedArray) -> int:
    if not pa.types.is_string_view(texts.type):
        return int(texts.nbytes)
    chunks = texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]
    return sum(int(_views(chunk)[_valid(chunk), 0].sum(dtype=np.int64)) for chunk in chunks)


def _without_views(table: pa.Table) -> pa.Table:
    """Return the table with `string` for `string_view`, which few functions of Arrow take."""
    for at, field in enumerate(table.schema):
        if pa.types.is_string_view(field.type):
            text, kind = table.column(at), wide_type(table.column(at))
            chunks = [_without_hidden(chunk).cast(kind) for chunk in text.chunks]
            table = table.set_column(at, field.name, pa.chunked_array(chunks, kind))
    return table


def _without_hidden(texts: pa.Array) -> pa.Array:
    """Return a `string_view` array whose nulls have no text: Arrow reads there when it casts."""
    valid = _valid(texts)
    if not _views(texts)[~valid].any():
        return texts
    views = _views(texts) * valid[:, None]
    parts = [pa.array(valid).buffers()[1], pa.py_buffer(views), *texts.buffers()[2:]]
    return pa.Array.from_buffers(texts.type, len(texts), parts, texts.null_count)


def plain_columns(table: pa.Table, check_views: Callable[[int], None] | None = None) -> pa.Table:
    """Return a table from outside with `values_of` categories, and `string` for `string_view`.

    Calls `check_views` with the bytes of text in views before it writes these out: many views may
    share few bytes. Raises `pyarrow.ArrowException` if the table is damaged.
    """
    table.validate(full=True)  # else it could end the process, and its texts be no UTF-8
    for at, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(at, field.name, values_of(table.column(at)))
    if check_views is not None:
        views = (column for column in table.columns if pa.types.is_string_view(column.type))
        check_views(sum(map(_text_bytes, views)))
    return _without_views(table)


def values_of(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return the values of a column of categories; any other column as it is.

    >>> values_of(pa.array(["b", "a", "b"]).dictionary_encode()).to_pylist()
    ['b', 'a', 'b']
    """
    if not pa.types.is_dictionary(column.type):
        return column
    if pa.types.is_string_view(column.type.value_type):  # those of Polars: Arrow decodes none
        column = column.cast(pa.dictionary(column.type.index_type, pa.large_string()))
    return column.cast(column.type.value_type)


def _views(texts: pa.Array) -> NDArray[np.int32]:
    """Return the views of a `string_view` array, `(n, 4)`: the first number is the length."""
    views = texts.buffers()[1] or b""
    return np.frombuffer(views, np.int32).reshape(-1, 4)[texts.offset :][: len(texts)]


def _valid(texts: pa.Array) -> NDArray[np.bool_]:
    return np.asarray(texts.is_valid().to_numpy(zero_copy_only=False), np.bool_)


def common_type(ids: pa.Array, other_ids: pa.Array) -> pa.DataType | None:
    """Return the type that holds both; None if there is none, such as for numbers and texts.

    Without `other_ids`, it is that of the ids: an array of none may have any type.
    """
    if ids.type == other_ids.type or not len(other_ids):
        return ids.type
    if is_text(ids.type) and is_text(other_ids.type):
        return pa.large_string()
    if not (pa.types.is_integer(ids.type) and pa.types.is_integer(other_ids.type)):
        return None
    least = min(int(numbers.to_numpy().min(initial=0)) for numbers in (ids, other_ids))
    return pa.uint64() if least >= 0 else None


def in_schema(table: pa.Table, schema: pa.Schema) -> pa.Table | None:
    """Return the table in a schema that differs in the width of ids only; None if it cannot be."""
    if table.schema.names != schema.names or not all(map(_alike, table.schema, schema)):
        return None
    try:
        return table.cast(schema)
    except pa.ArrowInvalid:  # such as an id above the range of int64
        return None


def _alike(field: pa.Field, other: pa.Field) -> bool:
    kinds = field.type, other.type
    if all(map(pa.types.is_list, kinds)):
        return _alike(field.type.value_field, other.type.value_field)
    wide = all(kind in (pa.int64(), pa.uint64()) for kind in kinds)
    return wide or kinds[0] == kinds[1] or all(map(is_text, kinds))


def places(ids: pa.Array, among: pa.Array) -> NDArray[np.int64]:
    """Return the position of each id in `among`, both widened; -1 if absent.

    Numbers and texts are never equal.
    """
    if ids.equals(among):  # the usual case, in which no table of ids is needed
        return np.arange(len(ids))
    if ids.type == among.type:
        return _found(ids, among)
    if is_text(ids.type) and is_text(among.type):
        return _found(ids.cast(pa.large_string()), among.cast(pa.large_string()))
    if not (pa.types.is_integer(ids.type) and pa.types.is_integer(among.type)):
        return np.full(len(ids), -1)
    # One side is uint64. As int64, an id above its range has the bits of a negative one.
    signed = ids.cast(pa.int64(), safe=False)
    at = _found(signed, among.cast(pa.int64(), safe=False))
    at[signed.to_numpy() < 0] = -1
    return at


def _found(ids: pa.Array, among: pa.Array) -> NDArray[np.int64]:
    if pa.types.is_integer(ids.type) and not (ids.null_count or among.null_count):
        ids_sought, ids_among = ids.to_numpy(), among.to_numpy()
        if len(ids_among) and (ids_among[1:] > ids_among[:-1]).all():  # as in windows and memories
            return _found_ascending(ids_sought, ids_among)
    import pyarrow.compute as pc  # a tenth of a subscriber's start

    at = pc.fill_null(pc.index_in(ids, value_set=among), -1)
    return np.asarray(at).astype(np.int64)


def _found_ascending(
    sought: NDArray[np.integer], ascending: NDArray[np.integer]
) -> NDArray[np.int64]:
    first, last = int(ascending[0]), int(ascending[-1])
    if last - first + len(ascending) < _FEW_FOR_EACH * len(sought) and last < 1 << 63:
        table = np.full(last - first + 2, -1, np.int64)  # a third of the time of a search
        table[ascending - first] = np.arange(len(ascending))
        inside = (sought >= first) & (sought <= last)
        return table[np.where(inside, sought - first, last - first + 1)]
    place = np.searchsorted(ascending, sought)
    return np.where(ascending[place.clip(max=len(ascending) - 1)] == sought, place, -1)
