"""A producer that is closed while its broker is away.

Seen in kafka-python 3.0.12: `close` flushes first, and raises KafkaTimeoutError without closing
where that takes too long.
"""

from __future__ import annotations

import contextlib
from typing import Any

from kafka import errors as client


def close_producer(producer: Any, timeout_s: float) -> None:
    """Close it, within about twice that time, whatever is not acknowledged."""
    try:
        producer.close(timeout=timeout_s)
    except client.KafkaTimeoutError:
        producer._sender.force_close()
        with contextlib.suppress(client.KafkaTimeoutError):
            producer.close(timeout=timeout_s)
