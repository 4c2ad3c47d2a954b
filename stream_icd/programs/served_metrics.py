"""Serves the metrics of a running worker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stream_icd.kafka.settings import KafkaSettings
    from stream_icd.metrics.metrics import Metrics


@contextmanager
def shown_on(port: int | None, host: str, settings: KafkaSettings) -> Iterator[Metrics]:
    """Serve this worker's metrics on the port, if one is given, for the duration of the block.

    Raises:
        BadSettings: the port cannot be served.
    """
    from stream_icd.kafka.pace import IDLE_S
    from stream_icd.metrics.health import Health
    from stream_icd.metrics.metrics import Metrics
    from stream_icd.metrics.server import serving

    # An idle worker hears from the broker only once every two polls or so.
    silence_s = max(settings.session_timeout_s, 3 * IDLE_S)
    metrics = Metrics(Health(settings.max_poll_interval_s, silence_s))
    if port is None:
        yield metrics
        return
    with serving(metrics, port, host):
        yield metrics
