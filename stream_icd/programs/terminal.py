"""What programs show: progress on standard error, tables on standard output, and how they end."""

from __future__ import annotations

import structlog
import typer
from rich.console import Console
from rich.progress import (
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from stream_icd.kafka.clock import Stop

INTERRUPTED = 130
"""Exit status after a requested stop, as shells use for Ctrl-C."""

WIDTH = 160
"""Of tables that a program reads: none is cut."""


def wide_console() -> Console:
    """As wide as the terminal, or as a table needs where there is none."""
    console = Console(markup=False)  # names of graphs come from outside
    return console if console.is_terminal else Console(width=WIDTH, markup=False)


class _Rate(ProgressColumn):
    """Snapshots per second."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:.1f}/s" if task.speed else "", style="progress.data.speed")


def progress_bar(*columns: ProgressColumn) -> Progress:
    """A bar and columns (default: count, rate and times) on standard error, if a terminal."""
    usual = (MofNCompleteColumn(), _Rate(), TimeElapsedColumn(), TimeRemainingColumn())
    shown = (*Progress.get_default_columns()[:2], *(columns or usual))
    console = Console(stderr=True)
    return Progress(*shown, console=console, disable=not console.is_terminal)


def finish(stop: Stop, failed: bool, /, **counts: object) -> None:
    """Log what was done.

    Raises:
        typer.Exit: `INTERRUPTED` after a requested stop, else 1 if something failed.
    """
    structlog.get_logger().info("stopped" if stop.is_set() else "finished", **counts)
    if stop.is_set():
        raise typer.Exit(INTERRUPTED)
    if failed:
        raise typer.Exit(1)
