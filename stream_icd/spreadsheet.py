"""Prevent spreadsheets from running text cells as formulas."""

from __future__ import annotations

import pyarrow as pa

FORMULA = r"^([=+\-@\t\r])"
"""First characters of a cell that spreadsheets treat as a formula (OWASP, *CSV Injection*)."""


def safe_cells(table: pa.Table) -> pa.Table:
    """Return the table with an apostrophe before each text that begins like a formula.

    Numbers are unchanged. Use it for rows written to CSV: a node called `=HYPERLINK(…)` must not
    become a link in the spreadsheet of a reader.

    >>> safe_cells(pa.table({"node": ["=1+1", "AS701"], "size": [-1, 2]})).to_pylist()
    [{'node': "'=1+1", 'size': -1}, {'node': 'AS701', 'size': 2}]
    """
    import pyarrow.compute as pc

    for at, field in enumerate(table.schema):
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            safe = pc.replace_substring_regex(table.column(at), FORMULA, r"'\1")
            table = table.set_column(at, field, safe)
    return table
