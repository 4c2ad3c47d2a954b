"""Close a producer while its broker is unavailable.

Seen in kafka-python 3.0.12: `close` flushes first, and if that takes too long it raises
KafkaTimeoutError without closing.
"""

from __future__ import annotations

import contextlib
from typing import Any

from kafka import errors as client


def close_producer(producer: Any, timeout_s: float) -> None:
    """Close the producer within about twice `timeout_s`, even with unacknowledged records."""
    try:
        producer.close(timeout=timeout_s)
    except client.KafkaTimeoutError:
        producer._sender.force_close()
        with contextlib.suppress(client.KafkaTimeoutError):
            producer.close(timeout=timeout_s)
