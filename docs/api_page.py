"""The tables of docs/api.md: public names, each with the first paragraph of its docstring.

    python docs/api_page.py

Names are written by hand; this program writes what stands beside them. The documentation site
shows the whole docstrings instead of the tables.
"""

from __future__ import annotations

import inspect
import pydoc
import re
import sys
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parent / "api.md"

ROW = re.compile(r"^\| `([\w.]+)` \|(.*)\|$", re.MULTILINE)
TABLE = re.compile(r"^\| name \| .*\n\|[- |]+\n((?:\| .*\n)+)", re.MULTILINE)


def with_summaries(page: str) -> str:
    """The page with what the docstrings say today."""
    return ROW.sub(lambda row: f"| `{row[1]}` | {_summary(row[1]) or row[2].strip()} |", page)


def with_docstrings(page: str) -> str:
    """The page with a directive for each row of its tables, for Sphinx."""
    return TABLE.sub(lambda table: _directives(table[1]), page)


def named(name: str) -> Any:
    """The object of a dotted name such as `stream_icd.ICD.fit`."""
    return pydoc.locate(name)


def _summary(name: str) -> str:
    found = named(name)
    if not (inspect.isclass(found) or inspect.isroutine(found)):
        return ""  # the docstring of a constant is not there when a program runs
    return " ".join((inspect.getdoc(found) or "").partition("\n\n")[0].split())


def _directives(rows: str) -> str:
    names = [name for name, _ in ROW.findall(rows)]
    lines = (
        f".. {_directive(name)}:: {name}"
        for name in names
        if name.rpartition(".")[0] not in names  # a class shows its methods
    )
    return "```{eval-rst}\n" + "\n".join(lines) + "\n```\n"


def _directive(name: str) -> str:
    found = named(name)
    if inspect.isclass(found):
        return "autoexception" if issubclass(found, Exception) else "autoclass"
    return "autofunction" if inspect.isfunction(found) else "autodata"


if __name__ == "__main__":
    sys.path.insert(0, str(PAGE.parents[1]))
    PAGE.write_text(with_summaries(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
