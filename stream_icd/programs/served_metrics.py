"""What a worker shows of itself, while it runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stream_icd.kafka.settings import KafkaSettings
    from stream_icd.metrics.metrics import Metrics


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
