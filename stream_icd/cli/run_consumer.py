"""What every consumer program does: run a loop until a signal asks it to stop."""

from __future__ import annotations

import signal
import sys
import threading


def stop_on_signals() -> threading.Event:
    """An event that SIGINT and SIGTERM set; a second one of them ends the program at once."""
    stop = threading.Event()

    def on_signal(number: int, _frame: object) -> None:
        if stop.is_set():
            sys.exit(128 + number)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    return stop
