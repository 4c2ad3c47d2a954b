"""Compiled loops in several threads: each thread runs a part, with arrays of its own to write to.

Compiled functions release the interpreter's lock (`compiled`), so plain threads suffice. They end
with the block that keeps them: a process may fork before and after, and no pool of another library
is started.
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


def n_threads() -> int:
    """Return how many threads share the loops of this block: 1 outside of `keep_threads`."""
    return int(getattr(_kept, "n_threads", 1))


@contextmanager
def keep_threads(threads: int) -> Iterator[None]:
    """Share all loops in this block among so many threads, which end with it.

    No result depends on the number. Blocks may be nested; the outermost one decides it.
    """
    if threads <= 1 or n_threads() > 1:
        yield
        return
    with ThreadPoolExecutor(threads - 1) as _kept.pool:
        _kept.n_threads = threads
        try:
            yield
        finally:
            _kept.pool, _kept.n_threads = None, 1


def in_parts(work: Callable[[int, int], Result], weights: NDArray[Any]) -> list[Result]:
    """Return `work(start, end)` of consecutive ranges with about equal sums of weights.

    weights: (n,) entries of each item; the ranges are those of 0..n.
    """
    n_parts = n_threads()
    if n_parts > 1:
        ends = np.cumsum(weights)
        n_parts = min(n_parts, int(ends[-1]) // WORTH_A_THREAD) if len(ends) else 1
    if n_parts <= 1:
        return [work(0, len(weights))]
    inner = np.searchsorted(ends, ends[-1] * np.arange(1, n_parts) / n_parts)
    return in_threads(work, [0, *inner.tolist(), len(weights)])


def in_threads(work: Callable[[int, int], Result], bounds: Sequence[int]) -> list[Result]:
    """Return `work(start, end)` between each two bounds, in their order.

    The calling thread works too: no other is waited for that has not begun.
    """
    ranges = list(pairwise(bounds))
    if n_threads() <= 1:
        return [work(*one) for one in ranges]
    results: list[Any] = [None] * len(ranges)
    turns = iter(range(len(ranges)))

    def take_turns() -> None:
        for turn in turns:
            results[turn] = work(*ranges[turn])

    others = [_kept.pool.submit(take_turns) for _ in range(min(n_threads(), len(ranges)) - 1)]
    take_turns()
    for other in others:
        if not other.cancel():
            other.result()
    return results
