"""Limits the memory growth of long-running workers."""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stream_icd.kafka.delivery.handler import BatchDone

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


def freeze_what_stays() -> Callable[[BatchDone], None]:
    """Return an `on_done` that, after the first batch, freezes long-lived objects (`gc.freeze`).

    Python collects its oldest generation only after it has grown by a quarter, which takes half an
    hour, since a worker loads so many objects. Until then, fetches that the Kafka client (3.0.12)
    leaves in reference cycles, with their records, fragment the memory in use.
    """
    first = True

    def freeze_once(_batch: BatchDone) -> None:
        nonlocal first
        if first:
            gc.collect()
            gc.freeze()
            gc.collect()  # resets the count of old objects to nearly none
        first = False

    return freeze_once
