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
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

from rich.progress import Progress

from stream_icd.core.child_process import start_child, stop_children, tail
from stream_icd.core.errors import StreamIcdError
from stream_icd.core.store.store import open_store
from stream_icd.history.archive import Archive
from stream_icd.history.archiver import TOPICS, Archiver
from stream_icd.kafka.embedded import embedded_broker
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import create_topics

_START_S = 600.0
"""Time that the detector may take to start: the first time, it compiles its code for half a minute,
and longer on a busy machine."""

_STALL_S = 90.0
"""Idle time after which missing results count as lost, once the detector has started."""

_PATIENCE_S = 600.0
"""Time after which the rest of the stream is sent, whether there is a new champion or not."""

LEAST_SNAPSHOTS = 75  # shorter streams have no time for the story

_DETECTION = ("--method", "icd", "--memory", "off")
"""Of the detector: the encoder of the champion and K-means, on each snapshot alone."""

_LEAST_FALL = 15
"""Snapshots after the change before learning: the retrainer needs 11, and one or two to notice."""

_STOP_S = 10.0
_LOOK_EVERY_S = 0.05

_NAMES = ("produce", "produce-2", "produce-3")  # of the producers, and of their logs

_SUBSCRIBE = ("subscribe", "--from", "beginning", "--format", "json")

_Child = subprocess.Popen[bytes]
_Arguments = tuple[str, ...]  # what stands after `stream-icd`


class _DemoFailed(StreamIcdError):
    """A process of the demonstration ended; the message shows the end of its log."""


@dataclass(frozen=True, slots=True)
class _Arrival:
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
    """The outcome of a run of the demonstration."""

    sent: int  # snapshots that the broker acknowledged to the producers
    arrivals: tuple[_Arrival, ...]  # in the order in which the subscriber printed them
    dead_letters: int
    seconds: float  # from the start of the first producer to the last result

    @property
    def lost(self) -> int:
        """Snapshots that were sent and have no result."""
        return self.sent - len({a.result["snapshot_id"] for a in self.arrivals})

    @property
    def evidence(self) -> str:
        """The number of snapshots by strength of evidence, such as "118 strong, 2 none"."""
        counts = Counter(arrival.result["evidence"] for arrival in self.arrivals)
        strengths = ("strong", "weak", "none")
        return ", ".join(
            f"{counts[strength]} {strength}" for strength in strengths if counts[strength]
        )

    @property
    def model_changes(self) -> list[int]:
        """The position of the first result of each later model."""
        models = [arrival.result["model"] for arrival in self.arrivals]
        return [at for at, (before, after) in enumerate(pairwise(models), 1) if before != after]


@dataclass(frozen=True, slots=True)
class Story:
    """A frozen encoder that is refreshed from labelled history, also when the stream changes.

    The detector embeds each snapshot with the encoder of the champion, and K-means finds its
    communities. The first champion's encoder has no trained weights. Meanwhile, snapshots and their
    known communities are archived; after `learn_at` of them, the retrainer learns an encoder, and
    the detector changes to it. From `change_at` on, the communities are larger, and the retrainer
    learns again.

    The producer pauses before each of these changes of the model. A window of the stream lasts a
    minute, and learning takes seconds: on a real stream, no window would pass.
    """

    folder: Path  # of the results
    snapshots: int
    nodes: int = 2000
    learn_at: int = 30  # the number of snapshots before the retrainer learns
    change_at: int = 45  # the number of snapshots before the change
    first: str = "default"  # the first champion, a shipped model

    @property
    def registry(self) -> str:
        return str(self.folder / "demo-registry")

    @property
    def history(self) -> str:
        return str(self.folder / "retraining-history")

    @property
    def pauses(self) -> tuple[int, int]:
        """Numbers of snapshots after which the producer waits until the retrainer has learned."""
        return self.learn_at, max(2 * self.learn_at, self.change_at + _LEAST_FALL)

    def prepare(self) -> _Arguments:
        """Remove what an earlier run left; return the command that makes the first champion."""
        for place in (self.registry, self.history):
            shutil.rmtree(place, ignore_errors=True)
        return ("models", "import", self.first, "--registry", self.registry, "--first-champion")

    def producers(self) -> list[_Arguments]:
        """The commands that send the snapshots up to each pause, and the others after the last."""
        sizes = ("--sizes", "5-50", "--sizes-after", "10-200", "--mixing", "0.55")
        law = ("--nodes", str(self.nodes), "--change-at", str(self.change_at), *sizes)
        limits = (*(pause for pause in self.pauses if pause < self.snapshots), self.snapshots)
        return [("produce", "lfr", "--limit", str(limit), *law) for limit in limits]

    def detect(self) -> _Arguments:
        """The model of the detector, and how it detects, as options."""
        of_model = ("--model", "champion", "--registry", self.registry)
        return (*of_model, *_DETECTION)

    def consumers(self) -> dict[str, _Arguments]:
        """The commands of archive and retrainer."""
        kinds = ("--kind", "snapshots", "--kind", "labels")
        places = (self.history, "--registry", self.registry)
        rounds = ("--every-windows", str(self.learn_at), "--check", "1s", *_DETECTION)
        return {
            "archive": ("consume", "archive", self.history, *kinds),
            "retrain": ("consume", "retrain", *places, *rounds),
        }

    def has_learned(self, times: int) -> bool:
        """Whether the detector has changed its model that often, or will not."""
        swapped = _count_events(self.folder / "detect.log", "the model changed")
        log = self.folder / "retrain.log"
        return swapped + _count_events(log, "kept") + _count_events(log, "failed") >= times

    def decisions(self) -> Iterator[str]:
        """What the retrainer decided, other than to wait."""
        for entry in _read_log(self.folder / "retrain.log"):
            if entry.get("event") in ("promoted", "kept", "confirmed", "rolled back", "failed"):
                yield f"{entry['event']}: {entry['reason']}"


@dataclass(frozen=True, slots=True)
class Programs:
    """The programs of the demonstration."""

    producers: Sequence[_Arguments]  # each waits until the detector has learned once more
    detect: _Arguments
    others: Mapping[str, _Arguments] = field(default_factory=dict)  # by name, such as `view`
    story: Story | None = None

    def run(self, settings: KafkaSettings, folder: Path, progress: Progress) -> DemoRun:
        """Run them as separate processes until every snapshot sent has its result.

        The folder gets their logs and `communities.jsonl`, the subscriber's output.

        Raises:
            DemoFailed: one of them ended with an error.
        """
        started: list[_Child] = []
        env = {
            **os.environ,
            "STREAM_ICD_BOOTSTRAP_SERVERS": settings.bootstrap_servers,
            "STREAM_ICD_SECURITY_PROTOCOL": settings.security_protocol,
        }

        def start(arguments: _Arguments, name: str, stdout: int | None = None) -> _Child:
            child = start_child(
                # -P: ignore any producers.py or kafka.py in the working directory.
                (sys.executable, "-P", "-m", "stream_icd.commands.cli", *arguments),
                folder / f"{name}.log",
                env=env,
                stdout=stdout,
            )
            started.append(child)  # at once: whatever fails next, it is stopped
            return child

        try:
            if self.story is not None:
                # The detector and the retrainer need a champion when they start.
                champion = start(self.story.prepare(), "first-champion")
                champion.wait()
                _check({"first-champion": champion}, folder, may_end=True)
            # All of them before the first producer, which `_send` starts.
            children = {
                "detect": start(self.detect, "detect"),
                "subscribe": start(_SUBSCRIBE, "subscribe", subprocess.PIPE),
                **{name: start(arguments, name) for name, arguments in self.others.items()},
            }
            arrivals: queue.SimpleQueue[_Arrival] = queue.SimpleQueue()
            printed = children["subscribe"].stdout
            assert printed is not None
            # In a thread: an arrival is timed when it comes, whatever `_watch` is doing.
            reading = (printed, folder / "communities.jsonl", arrivals)
            threading.Thread(target=_collect, args=reading, daemon=True).start()
            sending = _send(start, folder, self)
            return _watch(children, sending, arrivals, folder, progress)
        finally:
            stop_children(started, _STOP_S)


@contextmanager
def demo_broker(folder: Path, history: Path | None = None) -> Iterator[KafkaSettings]:
    """Run an embedded broker with all topics for the duration of the block.

    After it, the topics are archived in the folder `history`, whose content is replaced.
    """
    with embedded_broker(log_file=folder / "broker.log") as broker:
        create_topics(broker.settings)
        yield broker.settings
        if history is not None:  # while the broker runs: it keeps nothing
            _archive(broker.settings, history)


def _send(
    start: Callable[[_Arguments, str], _Child], folder: Path, programs: Programs
) -> Iterator[tuple[int | None, bool]]:
    """Run the producers, one after the other.

    Yield how many snapshots were sent, None before that is all; and whether the next producer waits
    until the detector has learned.
    """
    sent = 0
    for pause, (name, arguments) in enumerate(zip(_NAMES, programs.producers, strict=False)):
        if pause:
            assert programs.story is not None, "only a story has more than one producer"
            since = time.monotonic()
            while not (programs.story.has_learned(pause) or time.monotonic() - since > _PATIENCE_S):
                yield None, True
        producer = start(arguments, name)
        # A generator, not a loop: `_watch` takes arrivals and looks at the others meanwhile.
        while producer.poll() is None:
            yield None, False
        _check({name: producer}, folder, may_end=True)
        log = _read_log(folder / f"{name}.log")
        finished = [entry for entry in log if entry.get("event") == "finished"]
        sent += int(finished[-1]["snapshots"]) if finished else 0
    while True:
        yield sent, False


def _collect(printed: IO[bytes], copy: Path, arrivals: queue.SimpleQueue[_Arrival]) -> None:
    """Record when each line arrives, and keep a copy of every line."""
    with copy.open("wb", buffering=0) as lines:  # unbuffered: every arrival is in the file
        for line in printed:
            received_at = datetime.now(UTC)
            lines.write(line)
            arrivals.put(_Arrival(json.loads(line), received_at))


def _watch(
    children: dict[str, _Child],
    sending: Iterator[tuple[int | None, bool]],
    queued: queue.SimpleQueue[_Arrival],
    folder: Path,
    progress: Progress,
) -> DemoRun:
    sent_bar = progress.add_task("sent", total=None)
    received_bar = progress.add_task("detected, published, received", total=None)
    sent, waiting = next(sending)
    started = last = time.monotonic()
    arrivals: list[_Arrival] = []
    dead_letters = 0
    detecting = False
    while sent is None or len(arrivals) + dead_letters < sent:
        try:
            arrivals.append(queued.get(timeout=_LOOK_EVERY_S))
            last = time.monotonic()
        except queue.Empty:
            # Read logs and check processes only while nothing arrives.
            sent, waiting = next(sending)  # it may start the next producer
            progress.update(sent_bar, total=sent, completed=sent or 0)
            dead_letters = _count_events(folder / "detect.log", "dead letter")
            _check(children, folder)
            if not detecting and _count_events(folder / "detect.log", "started"):
                detecting, last = True, time.monotonic()
        progress.update(received_bar, completed=len(arrivals), total=sent)
        if waiting:  # nothing is sent, so nothing is missing
            last = time.monotonic()
        if time.monotonic() - last > (_STALL_S if detecting else _START_S):
            break
    return DemoRun(sent or 0, tuple(arrivals), dead_letters, last - started)


def _check(children: dict[str, _Child], folder: Path, *, may_end: bool = False) -> None:
    for name, child in children.items():
        status = child.poll()
        if status is not None and not (may_end and status == 0):
            raise _DemoFailed(
                f"{name} ended with status {status}; the end of {folder / name}.log:\n"
                f"{tail(folder / f'{name}.log')}"
            )


def _archive(settings: KafkaSettings, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    archive = Archive(open_store(str(folder)))
    for kind, topic in TOPICS.items():
        archiver = Archiver(archive, kind)
        with open_reader(settings, topic, start="beginning", until="end") as records:
            for record in records:
                archiver.process(record)


def _read_log(path: Path) -> list[dict[str, Any]]:
    """Return the JSON events of a program's log; skip other lines. A missing log is empty."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]


def _count_events(path: Path, event: str) -> int:
    return sum(entry.get("event") == event for entry in _read_log(path))
