"""Compiled loops in several threads: each thread runs a part, with arrays of its own to write to.

Compiled functions release the interpreter's lock (`compiled`), so plain threads suffice. They end
with the call, or with the block that keeps them: a process may fork before and after, and no pool
of another library is started.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Result = TypeVar("Result")

LARGE = 50_000
"""Nodes of a graph from which on more than one thread is used."""

WORTH_A_THREAD = 100_000
"""Entries of an adjacency that a thread must have to do: fewer take no longer than its start."""

_kept = threading.local()


def threads_for(n_nodes: int, threads: int) -> int:
    """Return how many threads work on a graph: 1 below `LARGE` nodes."""
    return threads if n_nodes >= LARGE else 1


@contextmanager
def keep_threads(threads: int) -> Iterator[None]:
    """Keep the other threads of all loops in this block until its end: to start them is not free.

    Blocks may be nested; the outermost one decides how many there are.
    """
    if threads <= 1 or getattr(_kept, "pool", None) is not None:
        yield
        return
    with ThreadPoolExecutor(threads - 1) as _kept.pool:
        try:
            yield
        finally:
            _kept.pool = None


def in_parts(
    work: Callable[[int, int], Result], weights: NDArray[Any], threads: int
) -> list[Result]:
    """Return `work(start, end)` of consecutive ranges with about equal sums of weights.

    weights: (n,) entries of each item; the ranges are those of 0..n.
    """
    if threads > 1:
        ends = np.cumsum(weights)
        threads = min(threads, int(ends[-1]) // WORTH_A_THREAD) if len(ends) else 1
    if threads <= 1:
        return [work(0, len(weights))]
    inner = np.searchsorted(ends, ends[-1] * np.arange(1, threads) / threads)
    return in_threads(work, [0, *inner.tolist(), len(weights)], threads)


def in_threads(
    work: Callable[[int, int], Result], bounds: Sequence[int], threads: int
) -> list[Result]:
    """Return `work(start, end)` between each two bounds, in their order.

    The calling thread works too: no other is waited for that has not begun.
    """
    ranges = list(pairwise(bounds))
    if threads <= 1:
        return [work(*one) for one in ranges]
    results: list[Any] = [None] * len(ranges)
    turns = iter(range(len(ranges)))

    def take_turns() -> None:
        for turn in turns:
            results[turn] = work(*ranges[turn])

    with keep_threads(threads):
        others = [_kept.pool.submit(take_turns) for _ in range(min(threads, len(ranges)) - 1)]
        take_turns()
        for other in others:
            if not other.cancel():
                other.result()
    return results
