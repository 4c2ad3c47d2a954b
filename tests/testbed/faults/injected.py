"""`python -m tests.testbed.faults.injected consume detect …`: the real program, with a fault in it.

The fault comes in the environment. Processes that the program starts by `spawn` or `forkserver`
import the main module, under another name: so they have it too.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from fnmatch import fnmatch
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

VARIABLE = "TEST_FAULT"
CRASH_POINTS = {
    "before send": ("KafkaProducer", "send"),
    "after send": ("KafkaProducer", "send_offsets_to_transaction"),
    "before commit": ("KafkaProducer", "commit_transaction"),
    "before commit, at least once": ("KafkaConsumer", "commit"),
}
"""Where a worker can be made to kill itself, while it publishes a batch."""


@dataclass(frozen=True)
class Fault:
    """What goes wrong inside a program.

    Attributes:
        crash_point: it kills -9 itself there (`CRASH_POINTS`), at the `batch`-th batch.
        long_snapshot: pattern of the ids of those of which one takes `seconds` more, the first
            that comes.
        sign: the file that appears when it is in hand; it holds the id of the process at work.
        asked: the file that appears when the program has understood that it is asked to end.
        clock_backwards: its wall clock goes back an hour with every second.
    """

    crash_point: str = ""
    batch: int = 1
    long_snapshot: str = ""
    seconds: float = 0.0
    sign: str = ""
    asked: str = ""
    clock_backwards: bool = False

    def environment(self) -> Mapping[str, str]:
        return {VARIABLE: json.dumps(asdict(self))}


def inject(fault: Fault) -> None:
    """Put it into this process."""
    if fault.clock_backwards:
        turn_the_clock_back()
    if fault.crash_point:
        die_while_publishing(fault.crash_point, fault.batch)
    if fault.long_snapshot:
        take_long(fault)
    if fault.asked:
        tell_when_asked(Path(fault.asked))


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


def take_long(fault: Fault) -> None:
    import stream_icd.streaming.detection.snapshot as pipeline

    real, sign = pipeline.detect_snapshot, Path(fault.sign)

    def detect_snapshot(snapshot: Any, *arguments: Any) -> Any:
        if fnmatch(snapshot.id, fault.long_snapshot) and not sign.exists():
            sign.write_text(str(os.getpid()))
            time.sleep(fault.seconds)
        return real(snapshot, *arguments)

    pipeline.detect_snapshot = detect_snapshot


def tell_when_asked(sign: Path) -> None:
    """Signals that come before the first was understood are one with it."""
    program: Any = import_module("stream_icd.commands.programs.worker")
    real = program.stop_on_signals

    def stop_on_signals() -> threading.Event:
        stop = real()
        understand = stop.set

        def set_and_note() -> None:
            understand()
            sign.touch()

        stop.set = set_and_note  # type: ignore[method-assign]
        return stop

    program.stop_on_signals = stop_on_signals


def turn_the_clock_back() -> None:
    """Of what the client stamps records with, and of what results say of themselves.

    To be called first: the client keeps the function that it finds when it is imported.
    """
    real, started = time.time, time.time()

    def backwards() -> float:
        return started - 3600 * (real() - started)

    class Backwards(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime.fromtimestamp(backwards(), UTC).astimezone(tz)

    time.time = backwards
    import stream_icd.core.times as clock

    clock.datetime = Backwards  # type: ignore[misc, attr-defined]


if __name__ in ("__main__", "__mp_main__"):
    inject(Fault(**json.loads(os.environ[VARIABLE])))

if __name__ == "__main__":
    from stream_icd.commands.cli.main import main

    main()
