"""Loops compiled by numba and cached on disk, which may ask for memory before they read it.

Compiling takes seconds. numba caches the result in the first writable one of these folders:
`NUMBA_CACHE_DIR` if set, the source folder, the user's cache folder.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

Function = TypeVar("Function", bound=Callable[..., Any])

FAR = 10_000
"""Nodes of a graph from which on `prefetch` pays; the arrays of smaller ones stay in the caches."""

FOR_READING, KEPT_CLOSE, DATA = 0, 3, 1
"""What the instruction asks for (LLVM language reference, `llvm.prefetch`)."""


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


def prefetch(array: NDArray[Any], index: int) -> None:
    """Have the processor fetch the element or row at this index, which may be outside the array.

    Loops over a graph read what belongs to a node's neighbours, anywhere in memory. Once these
    arrays are larger than the processor's caches, most of the time passes in waiting for them,
    unless they are asked for some visits before. No result depends on it. In loops that are not
    compiled, it does nothing.
    """


@overload(prefetch)
def _compiled_prefetch(array: Any, index: Any) -> Any:  # noqa: ARG001
    def asked(array: Any, index: Any) -> Any:
        return _ask(array, index)  # type: ignore[call-arg]

    return asked


@intrinsic
def _ask(_typing: Any, array: Any, _index: Any) -> Any:
    """The instruction itself."""

    def generated(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        made = context.make_array(signature.args[0])(context, builder, arguments[0])
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        stride = builder.extract_value(made.strides, 0)
        place = builder.gep(builder.bitcast(made.data, byte), [builder.mul(arguments[1], stride)])
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        instruction = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        flags = [ir.Constant(number, flag) for flag in (FOR_READING, KEPT_CLOSE, DATA)]
        builder.call(instruction, [place, *flags])
        return context.get_dummy_value()

    return types.void(array, types.intp), generated
