"""One run of a scenario: start programs, send snapshots, watch results, report the outcome."""

from __future__ import annotations

import os
import subprocess
import threading
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from math import nan
from pathlib import Path
from typing import Self

import numpy as np

from stream_icd.core.child_process import tail
from stream_icd.core.communities import Communities
from stream_icd.core.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.kafka.client.connections import open_admin
from stream_icd.kafka.port import TopicSpec, dead_letter_topic
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.reader import Until, open_reader
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.topics import COMMUNITIES, EVENTS, MEMORY, SNAPSHOTS, WORKERS, create_topics
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_lfr
from stream_icd.wire.communities import decode_communities
from stream_icd.wire.snapshots import encode_snapshot
from tests.testbed.brokers import wait_until
from tests.testbed.faults.ground import Ground
from tests.testbed.faults.injected import Fault
from tests.testbed.starting import CLI, start_python

START = datetime(2026, 1, 1, tzinfo=UTC)
TOPICS = (
    *TopicSpec(SNAPSHOTS, partitions=6).with_dead_letters(),
    *TopicSpec(COMMUNITIES, partitions=6).with_dead_letters(),
    TopicSpec(EVENTS, partitions=6),
    TopicSpec(WORKERS),
    TopicSpec(MEMORY, partitions=6),
)
PATIENCE_S = 90.0
Clock = Callable[[], float]
Program = subprocess.Popen[bytes]


@cache
def edges() -> np.ndarray:
    """Of every snapshot; shape (2, n_edges)."""
    rng = np.random.default_rng(1)
    return generate_lfr(rng, LfrSettings(n_nodes=300, max_degree=30, max_community=60)).edges


def snapshot(graph: str, i: int) -> Snapshot:
    """The i-th of a graph's stream; it has i isolated nodes, so that no two are alike."""
    src, dst = edges()
    begin = START + timedelta(minutes=i)
    return snapshot_from_pairs(
        [*src, *range(1000, 1000 + i)],
        [*dst, *[None] * i],
        graph=graph,
        id=f"{graph}/{i}",
        window=Window(begin, begin + timedelta(minutes=1)),
    )


def record_of(snapshot: Snapshot, clock: Clock | None = None) -> OutgoingRecord:
    message = encode_snapshot(snapshot)
    timestamp_ms = None if clock is None else round(1000 * clock())
    return OutgoingRecord(
        SNAPSHOTS, message.value, message.key, message.headers, timestamp_ms=timestamp_ms
    )


@dataclass(frozen=True, slots=True)
class Item:
    """One snapshot, or its result: they are equal when the result is that snapshot's."""

    graph: str
    snapshot_id: str
    n_nodes: int

    @classmethod
    def of(cls, one: Snapshot | Communities) -> Self:
        return cls(one.graph, one.id if isinstance(one, Snapshot) else one.snapshot_id, one.n_nodes)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a stream.

    Attributes:
        sent: snapshots, in the order in which they were sent.
        seen: every record that a reader of committed records finds in the communities topic, in
            order within a graph; nothing is dropped that came twice.
        removed: what the fault took from the topic before a detector had read it.
        dead_letters: records in the dead-letter topic.
        next_after_s: seconds from the end of the fault to the next result that was seen.
        all_after_s: seconds from the end of the fault until all were seen.
        stopped_with: exit status and error of a program that was to stop, or nothing.
    """

    sent: tuple[Item, ...]
    seen: tuple[Item, ...]
    removed: tuple[Item, ...] = ()
    dead_letters: int = 0
    next_after_s: float = nan
    all_after_s: float = nan
    stopped_with: str = ""

    @property
    def expected(self) -> tuple[Item, ...]:
        """What readers are to see, once."""
        return tuple(item for item in self.sent if item not in set(self.removed))

    @property
    def lost(self) -> int:
        return (Counter(self.expected) - Counter(self.seen)).total()

    @property
    def repeated(self) -> int:
        return len(self.seen) - len(set(self.seen))

    @property
    def exactly_once(self) -> bool:
        """Of each graph all results, each once, in the order of its snapshots."""
        return by_graph(self.seen) == by_graph(self.expected) and not self.dead_letters

    @property
    def at_least_once(self) -> bool:
        """The same, after dropping what came again."""
        firsts = dict.fromkeys(self.seen)
        return by_graph(firsts) == by_graph(self.expected) and not self.dead_letters


def by_graph(items: Iterable[Item]) -> dict[str, list[Item]]:
    graphs: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        graphs[item.graph].append(item)
    return dict(graphs)


class Play:
    """A context manager: begins with empty topics and a watcher, ends with nothing running.

    Snapshots go to `graphs` graphs in turn, numbered from 0 in each; `make` makes them.
    """

    def __init__(
        self, ground: Ground, graphs: int = 3, make: Callable[[str, int], Snapshot] = snapshot
    ) -> None:
        self.ground = ground
        self._make = make
        self.group = f"group-{uuid.uuid4().hex}"
        self.sent: list[Item] = []
        self.removed: list[Item] = []
        self.sightings: list[tuple[float, Item]] = []  # when a reader of committed records saw it
        self.healed_at = nan
        self.stopped_with = ""
        self._sign = ground.folder / f"{self.group}.sign"
        self._asked = ground.folder / f"{self.group}.asked"
        self._graphs = [f"g{number}" for number in range(graphs)]
        self._stop = threading.Event()
        self._watches = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._logs: dict[Program, Path] = {}

    def __enter__(self) -> Self:
        delete_topics(self.ground, [spec.name for spec in TOPICS])  # of the scenario before
        create_topics(self.ground.broker.settings(), TOPICS)
        self._watcher.start()
        assert self._watches.wait(30), "no reader of the communities topic starts"  # before faults
        return self

    def __exit__(self, *_: object) -> None:
        for program in self._logs:
            program.kill()
            program.wait()
        self._stop.set()
        self._watcher.join(30)

    def send(self, count: int, every_s: float = 0.0, clock: Clock | None = None) -> None:
        """Publish `count` more snapshots, one each `every_s` seconds.

        `clock` gives their records' timestamps, in seconds since 1970.
        """
        with Publisher(self.ground.broker.settings()) as publisher:
            for number in range(len(self.sent), len(self.sent) + count):
                graph = self._graphs[number % len(self._graphs)]
                snapshot = self._make(graph, number // len(self._graphs))
                publisher.send(record_of(snapshot, clock))
                self.sent.append(Item.of(snapshot))
                time.sleep(every_s)

    def long(self, pattern: str, seconds: float) -> Fault:
        """One snapshot, with an id of that pattern, takes so much longer; see `in_hand`."""
        return Fault(
            long_snapshot=pattern, seconds=seconds, sign=str(self._sign), asked=str(self._asked)
        )

    def in_hand(self) -> int:
        """Wait until that snapshot is worked on; the id of the process that is at it."""
        wait_until(self._is_in_hand)
        return int(self._sign.read_text())

    def send_until_in_hand(self) -> int:
        """The same, and publish one more snapshot of each graph a second until then.

        Whoever is to take long may lose its partitions meanwhile, and then gets others.
        """
        wait_until(lambda: self._is_in_hand() or self.send(len(self._graphs)), every_s=1.0)
        return self.in_hand()

    def asked(self) -> None:
        """Wait until the program with that snapshot has understood that it is asked to end."""
        wait_until(self._asked.exists)

    @contextmanager
    def sending(self, count: int, every_s: float) -> Iterator[None]:
        """The same, while the block runs; leaving it waits until all are sent."""
        sender = threading.Thread(target=self.send, args=(count, every_s))
        sender.start()
        try:
            yield
        finally:
            sender.join()

    def detector(self, *options: str, fault: Fault | None = None, **settings: object) -> Program:
        """Start `stream-icd consume detect`."""
        model = ("--model", str(self.ground.model), "--batch", "4")
        return self.program("detect", *model, *options, fault=fault, **settings)

    def program(self, *arguments: str, fault: Fault | None = None, **settings: object) -> Program:
        """Start `stream-icd consume …` in this play's group, with a fault in it if one is given.

        `settings` are some of `KafkaSettings`.
        """
        module = CLI if fault is None else "tests.testbed.faults.injected"
        direct = {"bootstrap_servers": self.ground.broker.bootstrap_servers}
        chosen = direct | dict(self.ground.waits) | settings
        environment = os.environ | {f"STREAM_ICD_{k.upper()}": str(v) for k, v in chosen.items()}
        environment |= fault.environment() if fault else {}
        log = self.ground.folder / f"{self.group}-{len(self._logs)}.log"
        # The client has noted the clock once it is imported, so that it cannot be turned back.
        start = start_python if fault and fault.clock_backwards else self.ground.start
        command = ("consume", *arguments, "--group", self.group)
        program = start(command, log, env=environment, module=module)
        self._logs[program] = log
        return program

    def log(self, program: Program) -> str:
        """What a program said so far."""
        return self._logs[program].read_text(errors="replace")

    def healed(self) -> None:
        """The fault is over: from now on it counts how long things take."""
        self.healed_at = time.monotonic()

    def since_healed(self) -> float:
        """Seconds since the fault was over."""
        return time.monotonic() - self.healed_at

    @property
    def seen(self) -> set[Item]:
        return {item for _, item in self.sightings}

    def wait_seen(self, count: int | None = None, timeout_s: float = PATIENCE_S) -> None:
        """Return when so many different results were seen; by default, all that can be."""
        expected = len(self.sent) - len(self.removed) if count is None else count
        try:
            wait_until(lambda: len(self.seen) >= expected, timeout_s)
        except AssertionError as error:
            logs = "\n".join(f"{log.name}\n{tail(log)}" for log in self._logs.values())
            raise AssertionError(f"{len(self.sightings)} of {expected} seen\n{logs}") from error

    def wait_stopped(self, program: Program, timeout_s: float = PATIENCE_S) -> str:
        """Wait for a program that ends by itself, and note its exit status; its last words.

        Its log, lines of JSON, may go on after them: threads of the client end after it.
        """
        status = program.wait(timeout_s)
        words = [line for line in self.log(program).splitlines() if not line.startswith("{")][-1]
        self.stopped_with = f"{status} {words.split(':')[0]}"
        return words

    def recovered(self, *options: str, **settings: object) -> Outcome:
        """The outcome of a fault that is over, once another detector has done the rest."""
        self.healed()
        self.detector(*options, **settings)
        return self.outcome()

    def outcome(self) -> Outcome:
        """What the communities topic holds once all is seen, to a reader who comes afterwards."""
        self.wait_seen()
        return self.outcome_of(map(result, held(self.ground, COMMUNITIES)))

    def outcome_of(self, seen: Iterable[Item]) -> Outcome:
        """The outcome where this is what was seen in the end."""
        after = sorted(at - self.healed_at for at, _ in self.sightings)
        later = [seconds for seconds in after if seconds > 0]
        return Outcome(
            sent=tuple(self.sent),
            seen=tuple(seen),
            removed=tuple(self.removed),
            dead_letters=len(held(self.ground, dead_letter_topic(SNAPSHOTS))),
            next_after_s=later[0] if later else nan,
            all_after_s=after[-1] if after else nan,
            stopped_with=self.stopped_with,
        )

    def _is_in_hand(self) -> bool:
        return self._sign.exists() and self._sign.read_text() != ""

    def _watch(self) -> None:
        settings = self.ground.broker.settings()
        with open_reader(settings, COMMUNITIES, stop=self._stop) as records:
            self._watches.set()
            for record in records:
                self.sightings.append((time.monotonic(), result(record)))


def result(record: Record) -> Item:
    return Item.of(decode_communities(record.key, record.value, record.headers))


def held(ground: Ground, topic: str, until: Until = "end") -> list[Record]:
    """What a topic holds, to readers of committed records."""
    with open_reader(ground.broker.settings(), topic, until=until) as records:
        return list(records)


def delete_topics(ground: Ground, names: list[str]) -> None:
    """Delete those of them that exist, and wait until they are gone."""
    with open_admin(ground.broker.settings()) as admin:
        existing = set(names) & set(admin.list_topics())
        if existing:
            admin.delete_topics(sorted(existing))
            wait_until(lambda: not existing & set(admin.list_topics()))
