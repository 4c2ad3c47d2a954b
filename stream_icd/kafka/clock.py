"""Time, and the wish to stop: arguments, so that tests do not have to wait."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


class Stop(Protocol):
    """Anything that can be asked whether to stop, such as a `threading.Event`."""

    def is_set(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Clock:
    """The machine's clock by default.

    Attributes:
        now: seconds since some moment; never goes back.
        sleep: wait for so many seconds.
    """

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
