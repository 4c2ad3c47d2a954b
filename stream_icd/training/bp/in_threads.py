"""Run work on several cores: the kernels release the global interpreter lock."""

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
    """The results of `work` for all items, in their order, for any number of threads.

    Args:
        on_done: called in the caller's thread with each item when it is done, in their order.

    After an exception, including Ctrl-C, it ends as soon as the current items are done.
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
