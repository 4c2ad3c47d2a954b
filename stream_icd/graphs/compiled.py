"""Loops compiled by numba and cached on disk.

Compiling takes seconds. numba caches the result in the first writable one of these folders:
`NUMBA_CACHE_DIR` if set, the source folder, the user's cache folder.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(**options: Any) -> Callable[[Function], Function]:
    """`numba.njit` with these options; releases the global interpreter lock while it runs.

    If no cache folder is writable, numba raises an error; then each process compiles for itself.
    """

    def compile_lazily(function: Function) -> Function:
        try:
            return cast(Function, numba.njit(cache=True, nogil=True, **options)(function))
        except RuntimeError:  # no folder for the cache
            return cast(Function, numba.njit(nogil=True, **options)(function))

    return compile_lazily
