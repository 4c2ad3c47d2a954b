"""Notice messages in the topic of models, so that the registry is looked at once, not later."""

from __future__ import annotations

import threading

import structlog

from stream_icd.errors import StreamIcdError
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import MODELS

TRY_AGAIN_S = 30.0


def nudge_on_messages(
    settings: KafkaSettings,
    nudged: threading.Event,
    stop: threading.Event,
) -> None:
    """Set `nudged` at each new message of the topic, until `stop`.

    What a message says does not matter: the registry holds the truth. If the topic cannot be read,
    this is logged once, and tried again every 30 s; meanwhile, changes are noticed at the next
    regular look.
    """
    trouble = ""
    while not stop.is_set():
        try:
            with open_reader(settings, MODELS, start="latest", stop=stop) as records:
                for _ in records:
                    nudged.set()
        except StreamIcdError as error:
            before, trouble = trouble, f"{type(error).__name__}: {error}"
            if trouble != before:
                structlog.get_logger().info(
                    "cannot read the topic of models; new champions are found by looking",
                    topic=MODELS,
                    reason=trouble,
                )
            stop.wait(TRY_AGAIN_S)
