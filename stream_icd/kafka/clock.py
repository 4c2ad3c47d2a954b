"""Where the time comes from: an argument, so that tests need not wait for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clock:
    """The machine's own, unless another one is given.

    Attributes:
        now: seconds since some moment; never goes back.
        sleep: wait for so many seconds.
    """

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
