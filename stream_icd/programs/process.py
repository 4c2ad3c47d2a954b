"""A process that runs for long: how its memory stays small, and how signals stop it."""

from __future__ import annotations

import _thread
import ctypes
import gc
import os
import signal
import sys
import threading

from stream_icd.kafka.delivery.handler import BatchDone, Watcher

M_ARENA_MAX = -8  # of malloc.h


def share_one_heap() -> None:
    """Make all threads allocate from one heap, if the C library is glibc.

    By default glibc gives each thread its own heap. One thread frees what another allocated, and
    fragmentation makes a worker's heaps grow for half an hour (docs/measured/soak.md). Call this
    before threads are started. MALLOC_ARENA_MAX in the environment takes precedence.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None and "MALLOC_ARENA_MAX" not in os.environ:
        mallopt(M_ARENA_MAX, 1)


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
