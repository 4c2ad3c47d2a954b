"""Cells that a spreadsheet shows as they are, where it would otherwise run them as a formula."""

from __future__ import annotations

import pyarrow as pa

FORMULA = r"^([=+\-@\t\r])"
"""How a cell begins that spreadsheets take for a formula (OWASP, *CSV Injection*)."""


def safe_cells(table: pa.Table) -> pa.Table:
    """The table with an apostrophe before each text that begins like a formula.

    Numbers stay as they are. For rows that end in a file of comma-separated values: a node called
    `=HYPERLINK(…)` must not become a link on the desk of whoever opens it.

    >>> safe_cells(pa.table({"node": ["=1+1", "AS701"], "size": [-1, 2]})).to_pylist()
    [{'node': "'=1+1", 'size': -1}, {'node': 'AS701', 'size': 2}]
    """
    import pyarrow.compute as pc

    for at, field in enumerate(table.schema):
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            safe = pc.replace_substring_regex(table.column(at), FORMULA, r"'\1")
            table = table.set_column(at, field, safe)
    return table
