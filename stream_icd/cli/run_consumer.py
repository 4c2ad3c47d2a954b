"""What every consumer program does: run a loop until a signal asks it to stop, and be seen."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stream_icd.kafka.settings import KafkaSettings
    from stream_icd.metrics.metrics import Metrics


def stop_on_signals() -> threading.Event:
    """An event that SIGINT and SIGTERM set; a second one of them ends the program at once."""
    stop = threading.Event()

    def on_signal(number: int, _frame: object) -> None:
        if stop.is_set():
            sys.exit(128 + number)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    return stop


@contextmanager
def shown_on(port: int | None, host: str, settings: KafkaSettings) -> Iterator[Metrics]:
    """What this worker counts, shown on that port, if there is one, while the block lasts.

    Raises:
        BadSettings: nothing can be served there.
    """
    from stream_icd.metrics.health import Health
    from stream_icd.metrics.metrics import Metrics
    from stream_icd.metrics.server import serving

    metrics = Metrics(Health(settings.max_poll_interval_s, settings.session_timeout_s))
    if port is None:
        yield metrics
        return
    with serving(metrics, port, host):
        yield metrics
