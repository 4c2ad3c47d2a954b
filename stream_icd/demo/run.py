"""Run the demonstration: start the processes, watch them, count results, stop everything."""

from __future__ import annotations

import json
import os
import queue
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from rich.progress import Progress

from stream_icd.child_process import start_child, stop_children, tail
from stream_icd.demo.story import PATIENCE_S, Story, count_events, read_log
from stream_icd.errors import StreamIcdError
from stream_icd.history.archive import Archive
from stream_icd.kafka.embedded import embedded_broker
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import create_topics
from stream_icd.store.store import open_store
from stream_icd.workers.archive import TOPICS, Archiver

START_S = 600.0
"""Time that the detector may take to start: the first time, it compiles its code for half a minute,
and longer on a busy machine."""

STALL_S = 90.0
"""Idle time after which missing results count as lost, once the detector has started."""

STOP_S = 10.0
LOOK_EVERY_S = 0.05

NAMES = ("produce", "produce-2")
"""Of the producers, and of their logs."""

SUBSCRIBE = ("subscribe", "--from", "beginning", "--format", "json")

Child = subprocess.Popen[bytes]
Arguments = tuple[str, ...]
"""What stands after `stream-icd`."""


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
        arrivals: results that the subscriber printed, in order.
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
    """The programs.

    Attributes:
        producers: one after the other; the second waits until the detector has learned.
        others: by name, such as the live page.
        story: the change of the law, if it is wanted.
    """

    producers: Sequence[Arguments]
    detect: Arguments
    others: Mapping[str, Arguments] = field(default_factory=dict)
    story: Story | None = None


@contextmanager
def demo_broker(folder: Path) -> Iterator[KafkaSettings]:
    """Run an embedded broker with all topics for the duration of the block."""
    with embedded_broker(log_file=folder / "broker.log") as broker:
        settings = KafkaSettings(bootstrap_servers=broker.bootstrap_servers)
        create_topics(settings)
        yield settings


def run_demo(
    settings: KafkaSettings, programs: Programs, folder: Path, progress: Progress
) -> DemoRun:
    """Run the programs as separate processes until every snapshot sent has its result.

    The folder gets their logs and `communities.jsonl`, the subscriber's output.

    Raises:
        DemoFailed: one of them ended with an error.
    """
    started: list[Child] = []

    def start(arguments: Arguments, name: str, stdout: int | None = None) -> Child:
        child = start_child(
            # -P: ignore any producers.py or kafka.py in the working directory.
            (sys.executable, "-P", "-m", "stream_icd.cli", *arguments),
            folder / f"{name}.log",
            env={**os.environ, "STREAM_ICD_BOOTSTRAP_SERVERS": settings.bootstrap_servers},
            stdout=stdout,
        )
        started.append(child)
        return child

    try:
        if programs.story is not None:
            champion = start(programs.story.prepare(), "first-champion")
            champion.wait()
            _check({"first-champion": champion}, folder, may_end=True)
        children = {
            "detect": start(programs.detect, "detect"),
            "subscribe": start(SUBSCRIBE, "subscribe", subprocess.PIPE),
            **{name: start(arguments, name) for name, arguments in programs.others.items()},
        }
        arrivals: queue.SimpleQueue[Arrival] = queue.SimpleQueue()
        printed = children["subscribe"].stdout
        assert printed is not None
        reading = (printed, folder / "communities.jsonl", arrivals)
        threading.Thread(target=_collect, args=reading, daemon=True).start()
        sending = _Sending(start, folder, programs)
        return _watch(children, sending, arrivals, folder, progress)
    finally:
        stop_children(started, STOP_S)


@dataclass
class _Sending:
    """Starts the producers, each at its time."""

    start: Callable[[Arguments, str], Child]
    folder: Path
    programs: Programs
    started: list[Child] = field(default_factory=list)
    waiting_since: float | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether all that was to be sent before the pause is sent."""
        return self.waiting_since is not None and len(self.started) < len(self.programs.producers)

    def look(self) -> int | None:
        """Start the next producer when it is time; return what was sent, if that was all."""
        at = len(self.started)
        if self.started:
            if self.started[-1].poll() is None:
                return None
            _check({NAMES[at - 1]: self.started[-1]}, self.folder, may_end=True)
        if at == len(self.programs.producers):
            return sum(map(self._sent, NAMES[:at]))
        if at == 0 or self._is_time():
            self.started.append(self.start(self.programs.producers[at], NAMES[at]))
        return None

    def _is_time(self) -> bool:
        story, now = self.programs.story, time.monotonic()
        assert story is not None, "only a story has a second producer"
        self.waiting_since = self.waiting_since or now
        return story.is_over() or now - self.waiting_since > PATIENCE_S

    def _sent(self, name: str) -> int:
        log = read_log(self.folder / f"{name}.log")
        finished = [entry for entry in log if entry.get("event") == "finished"]
        return int(finished[-1]["snapshots"]) if finished else 0


def _collect(printed: IO[bytes], copy: Path, arrivals: queue.SimpleQueue[Arrival]) -> None:
    """Record when each line arrives, and keep a copy of every line."""
    with copy.open("wb", buffering=0) as lines:  # unbuffered: every arrival is in the file
        for line in printed:
            received_at = datetime.now(UTC)
            lines.write(line)
            arrivals.put(Arrival(json.loads(line), received_at))


def _watch(
    children: dict[str, Child],
    producing: _Sending,
    queued: queue.SimpleQueue[Arrival],
    folder: Path,
    progress: Progress,
) -> DemoRun:
    sending = progress.add_task("sent", total=None)
    receiving = progress.add_task("detected, published, received", total=None)
    sent = producing.look()
    started = last = time.monotonic()
    arrivals: list[Arrival] = []
    dead_letters = 0
    detecting = False
    while sent is None or len(arrivals) + dead_letters < sent:
        try:
            arrivals.append(queued.get(timeout=LOOK_EVERY_S))
            last = time.monotonic()
        except queue.Empty:
            # Read logs and check processes only while nothing arrives.
            sent = producing.look()
            progress.update(sending, total=sent, completed=sent or 0)
            dead_letters = count_events(folder / "detect.log", "dead letter")
            _check(children, folder)
            if not detecting and count_events(folder / "detect.log", "started"):
                detecting, last = True, time.monotonic()
        progress.update(receiving, completed=len(arrivals), total=sent)
        if producing.is_waiting:
            last = time.monotonic()
        if time.monotonic() - last > (STALL_S if detecting else START_S):
            break
    return DemoRun(sent or 0, tuple(arrivals), dead_letters, last - started)


def _check(children: dict[str, Child], folder: Path, *, may_end: bool = False) -> None:
    for name, child in children.items():
        status = child.poll()
        if status is not None and not (may_end and status == 0):
            raise DemoFailed(
                f"{name} ended with status {status}; the end of {folder / name}.log:\n"
                f"{tail(folder / f'{name}.log')}"
            )


def keep(settings: KafkaSettings, folder: Path) -> None:
    """Archive all topics of the broker in a folder; what was there before is removed."""
    shutil.rmtree(folder, ignore_errors=True)
    archive = Archive(open_store(str(folder)))
    for kind, topic in TOPICS.items():
        archiver = Archiver(archive, kind)
        with open_reader(settings, topic, start="beginning", until="end") as records:
            for record in records:
                archiver.process(record)
