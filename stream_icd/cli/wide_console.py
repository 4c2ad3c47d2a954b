"""Tables on standard output, never cut where a program reads them."""

from __future__ import annotations

from rich.console import Console

WIDTH = 160


def wide_console() -> Console:
    """As wide as the terminal, or as a table needs where there is none."""
    console = Console(markup=False)  # names of graphs come from outside
    return console if console.is_terminal else Console(width=WIDTH, markup=False)
