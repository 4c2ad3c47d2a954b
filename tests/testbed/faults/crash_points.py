"""Where a worker can be made to kill -9 itself, while it publishes a batch."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import partial
from typing import Any

CRASH_POINTS = {
    "before send": ("KafkaProducer", "send"),
    "after send": ("KafkaProducer", "send_offsets_to_transaction"),
    "before commit": ("KafkaProducer", "commit_transaction"),
    "before commit, at least once": ("KafkaConsumer", "commit"),
}


def die_while_publishing(crash_point: str, batch: int = 1) -> None:
    """Let this process kill itself at `crash_point` of the `batch`-th batch, counted from 1.

    Not before: where a broker is tested for what it can do, that publishes by the same calls.
    """
    import kafka

    owner, method = CRASH_POINTS[crash_point]
    batches = 0

    def armed(publish: Publish, *arguments: Any) -> None:
        nonlocal batches
        batches += 1
        if batches == batch:
            setattr(getattr(kafka, owner), method, _die)
        publish(*arguments)

    publish_by(armed)


Publish = Callable[..., None]


def publish_by(call: Callable[..., None], setattr: Callable[..., None] = setattr) -> None:
    """Have each worker call `call(publish, *arguments)` instead of the `publish` of its sink."""
    from stream_icd.kafka import consumer
    from stream_icd.kafka.delivery.delivery import open_sink

    def opened(*arguments: Any) -> Any:
        sink = open_sink(*arguments)
        sink.publish = partial(call, sink.publish)  # type: ignore[method-assign]
        return sink

    setattr(consumer, "open_sink", opened)


def _die(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)
