"""Loops compiled by numba and cached on disk: in several threads, and with memory asked for early.

Compiling takes seconds. numba caches the result in the first writable one of these folders:
`NUMBA_CACHE_DIR` if set, the source folder, the user's cache folder.

Compiled functions release the interpreter's lock, so plain threads suffice. They end with the
block that keeps them: a process may fork before and after, and no pool of another library is
started.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import pairwise
from types import FrameType
from typing import Any, TypeVar, cast

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import event
from numba.core.caching import FunctionCache
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

_LOG = logging.getLogger(__name__)
_PACKAGE = __name__.partition(".")[0]

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Result = TypeVar("_Result")

LARGE = 50_000
"""Nodes of a graph from which on more than one thread is used."""

_WORTH_A_THREAD = 100_000
"""Entries of an adjacency that a thread must have to do: fewer take no longer than its start."""

FAR = 10_000
"""Nodes of a graph from which on `prefetch` pays; the arrays of smaller ones stay in the caches."""

_FOR_READING, _KEPT_CLOSE, _DATA = 0, 3, 1
"""What the instruction asks for (LLVM language reference, `llvm.prefetch`)."""


class _SaysThatItCompiles(event.Listener):
    """Logs it once in a process: nothing else is seen for half a minute."""

    has_logged = False

    def on_start(self, compiling: Any) -> None:
        module = getattr(compiling.data["dispatcher"].py_func, "__module__", None) or ""
        if not self.has_logged and module.partition(".")[0] == _PACKAGE:
            self.has_logged = True
            _LOG.info("compiling, which takes half a minute at the first start on a machine")

    def on_end(self, compiling: Any) -> None:
        pass


event.register("numba:compile", _SaysThatItCompiles())  # type: ignore[no-untyped-call]


class _SparedCache(FunctionCache):
    """numba's cache of a function, whose file may be damaged, and whose disk may be full.

    numba raises what the file system or pickle raises then, and no detector would start.
    """

    has_logged = False

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        except Exception as error:  # of a damaged file, pickle raises nearly anything
            _LOG.warning(
                "what was compiled cannot be read, and is compiled anew: %s: %r",
                self.cache_path,
                error,
            )
            with suppress(OSError):
                self.flush()  # type: ignore[no-untyped-call] # else it cannot be saved, either
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]
        except OSError as error:
            if not _SparedCache.has_logged:
                _SparedCache.has_logged = True
                _LOG.warning(
                    "what is compiled cannot be kept, so each process compiles for itself: "
                    "%s: %s; NUMBA_CACHE_DIR names another folder",
                    self.cache_path,
                    error.strerror,
                )


def compiled(**options: Any) -> Callable[[_Function], _Function]:
    """`numba.njit` with these options; releases the global interpreter lock while it runs.

    If no cache folder is writable, numba raises an error; then each process compiles for itself.
    """

    def compile_lazily(function: _Function) -> _Function:
        dispatcher: Any = numba.njit(nogil=True, **options)(function)
        with suppress(RuntimeError):  # no folder for the cache
            # As `cache=True` sets numba's own.
            dispatcher._cache = _SparedCache(function)  # type: ignore[no-untyped-call]
        return cast(_Function, dispatcher)

    return compile_lazily


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Let Ctrl-C wait for the end of the block; a second one does not wait.

    An exception that arrives while numba hands a result over, as where it arrived in the loop
    before, becomes a `SystemError`, or ends the process if the result is a named tuple.
    """
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting: list[FrameType | None] = []

    def wait(_number: int, frame: FrameType | None) -> None:
        waiting.append(frame)
        signal.signal(signal.SIGINT, handler)

    signal.signal(signal.SIGINT, wait)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if waiting:
            handler(signal.SIGINT, waiting[0])


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


def in_parts(
    work: Callable[[int, int], _Result], n_items: int, weights: Callable[[], NDArray[Any]]
) -> list[_Result]:
    """Return `work(start, end)` of consecutive ranges of 0..n_items with about equal weights.

    weights: makes the entries of each item, (n_items,); called only if there are several threads.
    """
    n_parts = n_threads()
    if n_parts > 1:
        ends = np.cumsum(weights())
        n_parts = min(n_parts, int(ends[-1]) // _WORTH_A_THREAD) if n_items else 1
    if n_parts <= 1:
        return [work(0, n_items)]
    inner = np.searchsorted(ends, ends[-1] * np.arange(1, n_parts) / n_parts)
    return in_threads(work, [0, *inner.tolist(), n_items])


def in_threads(work: Callable[[int, int], _Result], bounds: Sequence[int]) -> list[_Result]:
    """Return `work(start, end)` between each two bounds, in their order.

    The calling thread works too: no other is waited for that has not begun.
    """
    ranges = list(pairwise(bounds))
    if n_threads() <= 1:
        return [work(start, end) for start, end in ranges]
    results: list[Any] = [None] * len(ranges)
    turns = iter(range(len(ranges)))

    def take_turns() -> None:
        for turn in turns:
            start, end = ranges[turn]
            results[turn] = work(start, end)

    helpers = [_kept.pool.submit(take_turns) for _ in range(min(n_threads(), len(ranges)) - 1)]
    take_turns()
    for helper in helpers:
        if not helper.cancel():  # one that has not begun has nothing left to do
            helper.result()
    return results


def unsigned(numbers: NDArray[np.int32]) -> NDArray[Any]:
    """Return the same array of numbers that are not negative, for a loop that uses them as indices.

    Else numba asks whether they count from the end, a tenth to a half of the time of the loop.
    """
    return numbers.view(np.uint32)


@overload(unsigned)
def _compiled_unsigned(numbers: Any) -> Any:
    def viewed(numbers: Any) -> Any:
        return numbers.view(np.uint32)

    return viewed if numbers.dtype == types.int32 else None  # of others, a view is longer


def prefetch(array: NDArray[Any], index: int) -> None:
    """Have the processor fetch the element or row at this index, which may be outside the array.

    Loops over a graph read what belongs to a node's neighbours, anywhere in memory. Of arrays that
    are larger than the processor's caches, most of the time would pass in waiting for them. No
    result depends on it; in loops that are not compiled, it does nothing.
    """


@overload(prefetch)
def _compiled_prefetch(array: Any, index: Any) -> Any:  # noqa: ARG001
    def asked(array: Any, index: Any) -> Any:
        return _ask(array, index)  # type: ignore[call-arg]

    return asked


@intrinsic
def _ask(_typing: Any, array: Any, _index: Any) -> Any:
    def generated(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        struct = context.make_array(signature.args[0])(context, builder, arguments[0])
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        stride = builder.extract_value(struct.strides, 0)
        place = builder.gep(builder.bitcast(struct.data, byte), [builder.mul(arguments[1], stride)])
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        instruction = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        flags = [ir.Constant(number, flag) for flag in (_FOR_READING, _KEPT_CLOSE, _DATA)]
        builder.call(instruction, [place, *flags])
        return context.get_dummy_value()

    return types.void(array, types.intp), generated
