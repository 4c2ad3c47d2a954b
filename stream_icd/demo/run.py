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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
)

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

SUBSCRIBE = ("subscribe", "--from", "beginning", "--format", "json")

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
    """The programs, each with its arguments after `stream-icd`.

    Attributes:
        view: the live page, if it is wanted.
        story: the change of the law and the retraining, if they are wanted; it sends the stream in
            place of `produce`.
    """

    produce: tuple[str, ...]
    detect: tuple[str, ...]
    view: tuple[str, ...] | None = None
    story: Story | None = None


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


def demo_progress(console: Console) -> Progress:
    """Return the progress bars of a run."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, TimeElapsedColumn(), console=console)


def run_demo(
    settings: KafkaSettings, programs: Programs, folder: Path, progress: Progress
) -> DemoRun:
    """Run the programs as separate processes until every snapshot sent has its result.

    Args:
        folder: folder for their logs and for `communities.jsonl`, the subscriber's output.

    Raises:
        DemoFailed: one of them ended with an error.
    """
    started: list[Child] = []

    def start(arguments: tuple[str, ...], name: str, stdout: int | None = None) -> Child:
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
        }
        if programs.story is not None:
            for name, arguments in programs.story.consumers().items():
                children[name] = start(arguments, name)
        arrivals: queue.SimpleQueue[Arrival] = queue.SimpleQueue()
        if programs.view is not None:
            children["view"] = start(programs.view, "view")
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
    """The producers, one after the other: the second continues when the detector has learned."""

    start: Callable[[tuple[str, ...], str], Child]
    folder: Path
    programs: Programs
    started: list[Child] = field(default_factory=list)
    waiting_since: float | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether all that was to be sent before the pause is sent."""
        return self.waiting_since is not None and len(self.started) < len(self.commands)

    @property
    def commands(self) -> list[tuple[str, ...]]:
        story = self.programs.story
        if story is None:
            return [self.programs.produce]
        return [story.produce(story.until_learned), story.produce(story.snapshots)]

    def look(self) -> int | None:
        """Start the next producer when it is time; return what was sent, if that was all.

        Raises:
            DemoFailed: a producer ended with an error.
        """
        if self.started and self.started[-1].poll() is None:
            return None
        if self.started:
            _check({self._name(len(self.started)): self.started[-1]}, self.folder, may_end=True)
        if len(self.started) == len(self.commands):
            return sum(map(self._sent, range(1, len(self.started) + 1)))
        if not self.started or self._is_time():
            name = self._name(len(self.started) + 1)
            self.started.append(self.start(self.commands[len(self.started)], name))
        return None

    def _is_time(self) -> bool:
        story, now = self.programs.story, time.monotonic()
        assert story is not None, "only a story has a second producer"
        self.waiting_since = self.waiting_since or now
        return story.is_over() or now - self.waiting_since > PATIENCE_S

    def _sent(self, number: int) -> int:
        log = read_log(self.folder / f"{self._name(number)}.log")
        finished = [entry for entry in log if entry.get("event") == "finished"]
        return int(finished[-1]["snapshots"]) if finished else 0

    @staticmethod
    def _name(number: int) -> str:
        return "produce" if number == 1 else f"produce-{number}"


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
