"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def head(names: Sequence[str]) -> list[str]:
    """The first two lines of a table."""
    return [line(names), line(["---"] * len(names))]


def line(cells: Sequence[str]) -> str:
    """A line of a table."""
    return f"| {' | '.join(cells)} |"


def matrix(
    title: str,
    methods: Sequence[str],
    data_sets: Sequence[str],
    text: Callable[[str, str], str],
) -> list[str]:
    """A section with methods by data sets, without rows and columns that are empty.

    text: of a data set and a method; "" where there is nothing to say.
    """
    known = {(method, name): text(name, method) for method in methods for name in data_sets}
    columns = [name for name in data_sets if any(known[method, name] for method in methods)]
    lines = [
        line([method, *(known[method, name] for name in columns)])
        for method in methods
        if any(known[method, name] for name in columns)
    ]
    return [f"### {title}", "", *head(["method", *columns]), *lines, ""] if lines else []
