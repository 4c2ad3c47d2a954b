"""Loops compiled by numba, kept on disk from one start of a program to the next.

Compiling takes seconds. numba keeps the result in `NUMBA_CACHE_DIR` if that is set, else beside the
source, else in the user's cache folder, whichever can be written first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(**options: Any) -> Callable[[Function], Function]:
    """`numba.njit` with these options, without the global lock while it runs.

    Where no folder can be written, each process compiles for itself: numba refuses that.
    """

    def compile_lazily(function: Function) -> Function:
        try:
            return cast(Function, numba.njit(cache=True, nogil=True, **options)(function))
        except RuntimeError:  # no folder for the cache
            return cast(Function, numba.njit(nogil=True, **options)(function))

    return compile_lazily
