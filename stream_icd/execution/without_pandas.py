"""Keep pyarrow from importing pandas in a process that never gives it an object of pandas."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType

import pyarrow as pa


class _NoPandas(MetaPathFinder):
    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("not needed here", name=fullname)


def without_pandas() -> None:
    """Let pyarrow look for pandas now, and find none; it looks once.

    It would otherwise import it, where it is installed, to ask whether an array is one of pandas:
    an eighth of the time in which a worker process starts, and 30 MB. Other code may import pandas.
    """
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(finder)
