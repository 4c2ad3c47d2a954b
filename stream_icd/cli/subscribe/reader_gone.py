"""Noticing that whoever read our output has left, as `| head` does."""

from __future__ import annotations

import select
import sys
import threading
from collections.abc import Callable


def when_reader_leaves(call: Callable[[], None]) -> None:
    """Call, from a thread of its own, once nobody reads standard output any more.

    A program that waits for what comes would else find out when it writes next, perhaps never.
    """
    try:
        output = sys.stdout.fileno()
    except (AttributeError, OSError):  # there is none, or it is no file of the system's
        return

    def watch() -> None:
        ends = select.poll()
        ends.register(output, 0)  # 0: the end is reported without being asked for
        ends.poll()
        call()

    threading.Thread(target=watch, name="reader", daemon=True).start()
