"""A program as a process: what a terminal shows, how signals end it, and its memory."""

from __future__ import annotations

import _thread
import ctypes
import gc
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING

import structlog
import typer

from stream_icd.core.printable import end_without_reader
from stream_icd.kafka.delivery.handler import BatchDone, Watcher
from stream_icd.kafka.waiting import Stop

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, ProgressColumn

INTERRUPTED = 130
"""Exit status after a requested stop, as shells use for Ctrl-C."""

_WIDTH = 10_000
"""Characters; so wide that rich never truncates a cell: the terminal wraps."""

_M_ARENA_MAX = -8  # of malloc.h


def wide_console() -> Console:
    from rich.console import Console

    class Shown(Console):
        def on_broken_pipe(self) -> None:
            end_without_reader()

    return Shown(width=_WIDTH, markup=False)  # names of graphs come from outside


def progress_bar(*columns: ProgressColumn) -> Progress:
    """A bar and columns (default: count, rate and times) on standard error, if a terminal."""
    from rich import progress
    from rich.console import Console
    from rich.text import Text

    class Rate(progress.ProgressColumn):
        def render(self, task: progress.Task) -> Text:
            return Text(f"{task.speed:.1f}/s" if task.speed else "", style="progress.data.speed")

    times = progress.TimeElapsedColumn(), progress.TimeRemainingColumn()
    usual = (progress.MofNCompleteColumn(), Rate(), *times)
    shown = (*progress.Progress.get_default_columns()[:2], *(columns or usual))
    console = Console(stderr=True)
    return progress.Progress(*shown, console=console, disable=not console.is_terminal)


def stop_on_signals() -> threading.Event:
    """Return an event that SIGINT and SIGTERM set; a second signal ends the program at once."""
    import pyarrow

    pyarrow.enable_signal_handlers(False)  # else Ctrl-C ends what Arrow reads with an error
    stop = threading.Event()
    is_first = True

    def on_signal(number: int, _frame: object) -> None:
        nonlocal is_first
        if not is_first:
            sys.exit(128 + number)
        is_first = False  # here, not by the event: the thread below may not have set it yet
        # In another thread: the interrupted main thread may hold the event's lock.
        _thread.start_new_thread(stop.set, ())

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    return stop


def finish(stop: Stop, failed: bool, /, **counts: object) -> None:
    """Log what was done; exit with `INTERRUPTED` after a requested stop, else 1 if it failed."""
    structlog.get_logger().info("stopped" if stop.is_set() else "finished", **counts)
    # First: what is left undone after a signal is no failure.
    if stop.is_set():
        raise typer.Exit(INTERRUPTED)
    if failed:
        raise typer.Exit(1)


def share_one_heap() -> None:
    """Make all threads that start later allocate from one heap, if the C library is glibc.

    Else each has its own, one frees what another allocated, and fragmentation makes a worker's
    heaps grow for half an hour (docs/measured/soak.md). MALLOC_ARENA_MAX takes precedence.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None and "MALLOC_ARENA_MAX" not in os.environ:
        mallopt(_M_ARENA_MAX, 1)


class FreezeWhatStays(Watcher):
    """After the first batch, freezes long-lived objects (`gc.freeze`).

    Python collects its oldest generation only after it has grown by a quarter, which takes half an
    hour, since a worker loads so many objects. Until then, fetches that the Kafka client (3.0.12)
    leaves in reference cycles, with their records, fragment the memory in use.
    """

    _first = True

    def done(self, batch: BatchDone) -> None:  # noqa: ARG002
        if self._first:
            gc.collect()
            gc.freeze()
            gc.collect()  # resets the count of old objects to nearly none
        self._first = False
