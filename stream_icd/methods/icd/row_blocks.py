"""Dense products whose result does not depend on how many threads compute them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

Floats32 = NDArray[np.float32]

_BLOCK = 1024
"""Rows per block. The number is fixed because BLAS may round differently for other shapes."""


def product(left: Floats32, right: Floats32, threads: int = 1) -> Floats32:
    """`left @ right`, `(n, k) × (k, m)`, the same to the last bit on any number of threads.

    If BLAS splits one product over threads, its rounding depends on the number of threads. Here
    each block of rows is one single-threaded product, and the blocks run in parallel.
    """
    result = np.empty((left.shape[0], right.shape[1]), np.float32)

    def fill(rows: slice) -> None:
        np.matmul(left[rows], right, out=result[rows])

    for_blocks(fill, left.shape[0], threads)
    return result


def for_blocks(work: Callable[[slice], None], n_rows: int, threads: int = 1) -> None:
    """Call `work` once per block of rows on `threads` threads; BLAS uses one thread per call."""
    blocks = [slice(start, start + _BLOCK) for start in range(0, n_rows, _BLOCK)]
    # Around all blocks: the limit is of the process, and one block must not lift another's.
    with single_threaded_blas():
        if threads == 1 or len(blocks) == 1:
            for block in blocks:
                work(block)
            return
        # The blocks are the same on any number of threads, and each writes rows of its own.
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, blocks))


def single_threaded_blas() -> AbstractContextManager[object]:
    """A context in which each BLAS call of the process runs on one thread."""
    limit: AbstractContextManager[object] = _thread_pools().limit(limits=1, user_api="blas")
    return limit


_thread_pools = cache(ThreadpoolController)  # looks for libraries once, at the first use
