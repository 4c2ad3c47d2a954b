"""How every program ends: a first signal asks it to, a second one makes it."""

from __future__ import annotations

import _thread
import signal
import sys
import threading


def stop_on_signals() -> threading.Event:
    """An event that SIGINT and SIGTERM set; a second one of them ends the program at once."""
    stop = threading.Event()
    asked = False

    def on_signal(number: int, _frame: object) -> None:
        nonlocal asked
        if asked:
            sys.exit(128 + number)
        asked = True
        # Not here: the main thread, in whose midst we are, may hold the event's lock.
        _thread.start_new_thread(stop.set, ())

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    return stop
