"""What every consumer program does: run a loop until a signal asks it to stop, and be seen."""

from __future__ import annotations

import _thread
import ctypes
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stream_icd.kafka.batch_done import BatchDone
    from stream_icd.kafka.settings import KafkaSettings
    from stream_icd.metrics.metrics import Metrics

M_ARENA_MAX = -8  # of malloc.h


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


def share_one_heap() -> None:
    """Have all threads take memory from one heap, where the C library is glibc.

    It gives each thread a heap of its own. What one thread fetches another one lets go, and
    between what stays the heaps of a worker keep growing for half an hour (docs/soak.md). Call
    before threads are started. MALLOC_ARENA_MAX in the environment has its way.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None and "MALLOC_ARENA_MAX" not in os.environ:
        mallopt(M_ARENA_MAX, 1)


def freeze_what_stays(
    on_done: Callable[[BatchDone], None] = lambda _: None,
) -> Callable[[BatchDone], None]:
    """`on_done` that, after the first batch, hides from garbage collection what stays.

    Python looks through its old objects only once a quarter of their number has come on top, and
    a worker loads so many that this takes half an hour. Until then the fetches that the Kafka
    client (3.0.12) leaves in reference cycles, records and all, lie between what is in use.
    """
    first = True

    def freeze_and_pass_on(batch: BatchDone) -> None:
        nonlocal first
        if first:
            gc.collect()
            gc.freeze()
            gc.collect()  # counts the old objects anew: there are next to none
        first = False
        on_done(batch)

    return freeze_and_pass_on


@contextmanager
def shown_on(port: int | None, host: str, settings: KafkaSettings) -> Iterator[Metrics]:
    """What this worker counts, shown on that port, if there is one, while the block lasts.

    Raises:
        BadSettings: nothing can be served there.
    """
    from stream_icd.metrics.health import Health
    from stream_icd.metrics.metrics import Metrics
    from stream_icd.metrics.server import serving

    metrics = Metrics(Health(settings.max_poll_interval_s, settings.session_timeout_s))
    if port is None:
        yield metrics
        return
    with serving(metrics, port, host):
        yield metrics
