"""Prevent spreadsheets from running text cells as formulas, and terminals from obeying them."""

from __future__ import annotations

import re

import pyarrow as pa

FORMULA = r"^([=+\-@＝＋－＠])"
"""First characters of a cell that spreadsheets treat as a formula (OWASP, *CSV Injection*); some of
them take the full-width ones for the others."""

CONTROL = "[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]"
"""Characters that end a line, command a terminal, or change the direction of what follows. OWASP's
list has three of them, too: a tab, CR or LF before a formula."""


def safe_cells(table: pa.Table) -> pa.Table:
    """Return the table with an apostrophe before each text that begins like a formula.

    Control characters become escapes, as in a Python string. Lists become texts, their values
    separated by spaces. Numbers are unchanged. Use it for rows written to CSV: a node called
    `=HYPERLINK(…)` must not become a link in the spreadsheet of a reader, and one with an escape
    sequence must not clear a terminal.

    >>> safe_cells(pa.table({"node": ["=1+1", "AS701"], "size": [-1, 2]})).to_pylist()
    [{'node': "'=1+1", 'size': -1}, {'node': 'AS701', 'size': 2}]
    >>> safe_cells(pa.table({"parents": [[3, 14], [], None]})).to_pylist()
    [{'parents': '3 14'}, {'parents': ''}, {'parents': None}]
    """
    import pyarrow.compute as pc

    for at, field in enumerate(table.schema):
        if pa.types.is_list(field.type):
            texts = pc.binary_join(table.column(at).cast(pa.list_(pa.string())), " ")
            table, field = table.set_column(at, field.name, texts), field.with_type(pa.string())
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            safe = pc.replace_substring_regex(_escaped(table.column(at)), FORMULA, r"'\1")
            table = table.set_column(at, field, safe)
    return table


def _escaped(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow.compute as pc

    if not pc.any(pc.match_substring_regex(texts, CONTROL)).as_py():
        return texts
    escaped = [
        one if one is None else re.sub(CONTROL, lambda match: ascii(match[0])[1:-1], one)
        for one in texts.to_pylist()
    ]
    return pa.chunked_array([pa.array(escaped, texts.type)])
