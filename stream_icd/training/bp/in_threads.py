"""Work on several cores at once: the kernels release the interpreter's lock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_threads(
    work: Callable[[Item], Result],
    items: Sequence[Item],
    threads: int,
    on_done: Callable[[Item], None] = lambda _: None,
) -> list[Result]:
    """`work` of each item, in their order, whatever the number of threads.

    Args:
        on_done: called in the caller's thread with each item once it is done, in their order.

    An exception, Ctrl-C included, ends it as soon as the items being worked on are done.
    """
    pool = ThreadPoolExecutor(threads)
    try:
        results = []
        for item, future in [(item, pool.submit(work, item)) for item in items]:
            results.append(future.result())
            on_done(item)
        return results
    finally:
        pool.shutdown(cancel_futures=True)
