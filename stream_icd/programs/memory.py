"""What keeps the memory of a worker that runs for months from growing."""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stream_icd.kafka.batch_done import BatchDone

M_ARENA_MAX = -8  # of malloc.h


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
