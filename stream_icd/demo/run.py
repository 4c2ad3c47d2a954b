"""Run the demonstration: start the processes, watch them, count results, stop everything."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from rich.progress import Progress

from stream_icd.child_process import start_child, stop_child, tail
from stream_icd.errors import StreamIcdError
from stream_icd.kafka.embedded import embedded_broker
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import create_topics

START_S = 600.0
"""Time that the detector may take to start: the first time, it compiles its code for half a minute,
and longer on a busy machine."""

STALL_S = 90.0
"""Idle time after which missing results count as lost, once the detector has started."""

STOP_S = 10.0
LOOK_EVERY_S = 0.05

Child = subprocess.Popen[bytes]


class DemoFailed(StreamIcdError):
    """A process of the demonstration ended; the message shows the end of its log."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """One result as the subscriber printed it, and when it was read."""

    result: dict[str, Any]
    received_at: datetime

    @property
    def publish_ms(self) -> float:
        """Milliseconds from the result being ready in the detector to its arrival here."""
        ready = datetime.fromisoformat(self.result["detected_at"])
        return 1000 * (self.received_at - ready).total_seconds()


@dataclass(frozen=True, slots=True)
class DemoRun:
    """The outcome of a run of the demonstration.

    Attributes:
        sent: snapshots that the broker acknowledged to the producer.
        arrivals: results that the subscriber printed, in order, each snapshot once.
        dead_letters: snapshots that the detector dead-lettered.
        seconds: time from the producer's start to the last result.
    """

    sent: int
    arrivals: tuple[Arrival, ...]
    dead_letters: int
    seconds: float

    @property
    def lost(self) -> int:
        """Snapshots that were sent and have no result."""
        return self.sent - len({a.result["snapshot_id"] for a in self.arrivals})


@dataclass(frozen=True, slots=True)
class Programs:
    """The programs, each with its arguments after `stream-icd`; `view` only if it is wanted."""

    produce: tuple[str, ...]
    detect: tuple[str, ...]
    subscribe: tuple[str, ...] = ("subscribe", "--from", "beginning", "--format", "json")
    view: tuple[str, ...] | None = None


@contextmanager
def demo_broker(folder: Path) -> Iterator[KafkaSettings]:
    """Run an embedded broker with all topics for the duration of the block.

    Raises:
        MissingExtra: the embedded broker is not installed; the message says how.
    """
    with embedded_broker(log_file=folder / "broker.log") as broker:
        settings = KafkaSettings(bootstrap_servers=broker.bootstrap_servers)
        create_topics(settings)
        yield settings


def run_demo(
    settings: KafkaSettings, programs: Programs, folder: Path, progress: Progress
) -> DemoRun:
    """Run the programs as separate processes until every snapshot sent has its result.

    Args:
        folder: folder for their logs and for `communities.jsonl`, the subscriber's output.

    Raises:
        DemoFailed: one of them ended with an error.
    """
    with ExitStack() as stack:

        def start(arguments: tuple[str, ...], name: str, stdout: int | None = None) -> Child:
            child = start_child(
                # -P: ignore any producers.py or kafka.py in the working directory.
                (sys.executable, "-P", "-m", "stream_icd.cli", *arguments),
                folder / f"{name}.log",
                env={**os.environ, "STREAM_ICD_BOOTSTRAP_SERVERS": settings.bootstrap_servers},
                stdout=stdout,
            )
            stack.callback(stop_child, child, STOP_S)
            return child

        children = {
            "detect": start(programs.detect, "detect"),
            "subscribe": start(programs.subscribe, "subscribe", subprocess.PIPE),
        }
        arrivals: queue.SimpleQueue[Arrival] = queue.SimpleQueue()
        if programs.view is not None:
            children["view"] = start(programs.view, "view")
        printed = children["subscribe"].stdout
        assert printed is not None
        reading = (printed, folder / "communities.jsonl", arrivals)
        threading.Thread(target=_collect, args=reading, daemon=True).start()
        children["produce"] = start(programs.produce, "produce")
        return _watch(children, arrivals, folder, progress)


def _collect(printed: IO[bytes], copy: Path, arrivals: queue.SimpleQueue[Arrival]) -> None:
    """Record when each line arrives, and keep a copy of every line."""
    with copy.open("wb", buffering=0) as lines:  # unbuffered: every arrival is in the file
        for line in printed:
            received_at = datetime.now(UTC)
            lines.write(line)
            arrivals.put(Arrival(json.loads(line), received_at))


def _watch(
    children: dict[str, Child],
    queued: queue.SimpleQueue[Arrival],
    folder: Path,
    progress: Progress,
) -> DemoRun:
    sending = progress.add_task("sent", total=None)
    receiving = progress.add_task("detected, published, received", total=None)
    started = last = time.monotonic()
    sent: int | None = None
    arrivals: list[Arrival] = []
    dead_letters = 0
    detecting = False
    while sent is None or len(arrivals) + dead_letters < sent:
        try:
            arrivals.append(queued.get(timeout=LOOK_EVERY_S))
            last = time.monotonic()
        except queue.Empty:
            # Read logs and check processes only while nothing arrives.
            sent = _sent(children["produce"], folder) if sent is None else sent
            progress.update(sending, total=sent, completed=sent or 0)
            dead_letters = _count(folder / "detect.log", "dead letter")
            _check(children, folder)
            if not detecting and _count(folder / "detect.log", "started"):
                detecting, last = True, time.monotonic()
        progress.update(receiving, completed=len(arrivals), total=sent)
        if time.monotonic() - last > (STALL_S if detecting else START_S):
            break
    return DemoRun(sent or 0, tuple(arrivals), dead_letters, last - started)


def _sent(producer: Child, folder: Path) -> int | None:
    """Return how many snapshots were acknowledged, once the producer has finished."""
    if producer.poll() is None:
        return None
    finished = [e for e in read_log(folder / "produce.log") if e.get("event") == "finished"]
    return int(finished[-1]["snapshots"]) if finished else 0


def _count(log: Path, event: str) -> int:
    return sum(entry.get("event") == event for entry in read_log(log))


def _check(children: dict[str, Child], folder: Path) -> None:
    for name, child in children.items():
        status = child.poll()
        if status is not None and not (name == "produce" and status == 0):
            raise DemoFailed(
                f"{name} ended with status {status}; the end of {folder / name}.log:\n"
                f"{tail(folder / f'{name}.log')}"
            )


def read_log(path: Path) -> list[dict[str, Any]]:
    """Return the JSON events of a program's log; skip other lines."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
