"""How a loop is asked to stop."""

from __future__ import annotations

from typing import Protocol


class Stop(Protocol):
    """Anything that can be asked whether to stop, such as a `threading.Event`."""

    def is_set(self) -> bool: ...
