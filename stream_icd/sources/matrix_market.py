"""Graphs as sparse matrices in Matrix Market files (`.mtx`), as scipy and SuiteSparse write them.

https://math.nist.gov/MatrixMarket/formats.html: the entry `i j w` is an edge of weight w between
the nodes i and j, which count from 1.
"""

from __future__ import annotations

import io
from typing import IO

import numpy as np
import pyarrow as pa

from stream_icd.core.errors import BadInput
from stream_icd.sources.declared_nodes import check_number_of_nodes, with_nodes
from stream_icd.sources.source import OnIgnored
from stream_icd.sources.tables import RawRows

_BANNER = "%%matrixmarket"

_OBLONG = (
    "is a matrix of %s: row i and column i are taken for the same node. If they are not, write an "
    "edge list"
)


def is_matrix_market(start: str) -> bool:
    """Whether a text that begins so is in this format."""
    return start.lower().startswith(_BANNER)


def read_matrix_market(content: IO[bytes], name: str, on_ignored: OnIgnored) -> RawRows:
    """Read columns `src`, `dst` and, unless the matrix is a pattern, `weight`; and all nodes.

    The sizes of an oblong matrix go to `on_ignored`, with `_OBLONG`.

    Raises `BadInput` if the file is damaged, is no such matrix, or is dense, complex or
    skew-symmetric.
    """
    import scipy.io  # few need it

    text = content.read()
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
        check_number_of_nodes(n_nodes, len(text))
        matrix = scipy.io.mmread(io.BytesIO(text), spmatrix=True)
    except (ValueError, OverflowError) as error:
        raise BadInput(f"it is no matrix of Matrix Market: {error}") from error
    if n_rows != n_columns:
        on_ignored(_OBLONG, f"{n_rows:,} rows and {n_columns:,} columns")
    # scipy states both halves of a symmetric matrix; the file has the lower one.
    given = np.flatnonzero(matrix.row >= matrix.col) if symmetry == "symmetric" else slice(None)
    src, dst = matrix.row[given].astype(np.int64) + 1, matrix.col[given].astype(np.int64) + 1
    columns = {"src": pa.array(src), "dst": pa.array(dst)}
    if field != "pattern":
        columns["weight"] = pa.array(matrix.data[given].astype(np.float64))
    lines = enumerate(io.BytesIO(text), start=1)
    sizes = next(at for at, line in lines if line.strip() and not line.startswith(b"%"))
    place = sizes + np.arange(1, len(src) + 1)  # exact unless there are empty lines between
    return with_nodes(name, place, pa.table(columns), pa.array(np.arange(1, n_nodes + 1)))
