"""Leave out a rule of the library by putting something in its place that does nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch


@contextmanager
def left_out(stand_ins: Mapping[str, Any]) -> Iterator[None]:
    """The library with these in place of what they replace, by its full name, while it lasts."""
    with ExitStack() as stack:
        for target, stand_in in stand_ins.items():
            stack.enter_context(patch(target, stand_in))
        yield
