"""The source of time: an argument, so that tests do not have to wait."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clock:
    """The machine's clock by default.

    Attributes:
        now: seconds since some moment; never goes back.
        sleep: wait for so many seconds.
    """

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
