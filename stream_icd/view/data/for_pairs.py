"""Remember what was computed for two windows, for as long as both are in memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar
from weakref import WeakKeyDictionary

from stream_icd.view.data.window import SeenWindow

Found = TypeVar("Found")
OfPair = Callable[[SeenWindow, SeenWindow], Found]


def for_pairs(compute: OfPair[Found]) -> OfPair[Found]:
    """Return a function that computes each pair once; it keeps no window alive."""
    known: WeakKeyDictionary[SeenWindow, WeakKeyDictionary[SeenWindow, Found]] = WeakKeyDictionary()

    @wraps(compute)
    def remembered(one: SeenWindow, other: SeenWindow) -> Found:
        found = known.setdefault(one, WeakKeyDictionary())
        if other not in found:
            found[other] = compute(one, other)
        return found[other]

    return remembered
