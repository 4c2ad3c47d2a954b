"""How every program stops: the first signal requests a stop, the second one forces it."""

from __future__ import annotations

import _thread
import signal
import sys
import threading


def stop_on_signals() -> threading.Event:
    """Return an event that SIGINT and SIGTERM set; a second signal ends the program at once."""
    stop = threading.Event()
    asked = False

    def on_signal(number: int, _frame: object) -> None:
        nonlocal asked
        if asked:
            sys.exit(128 + number)
        asked = True
        # In another thread: the interrupted main thread may hold the event's lock.
        _thread.start_new_thread(stop.set, ())

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    return stop
