"""Three detectors on Apache Kafka under random faults: what is lost, doubled or changed.

    python -m benchmarks.chaos
    python -m benchmarks.chaos --minutes 2 --seed 7
    python -m benchmarks.chaos --minutes 3 --on tls
    python -m benchmarks.chaos --minutes 3 --on cluster
    python -m benchmarks.chaos --keep evidence

Snapshots of drifting graphs are sent all the time, while one random fault follows another: a
detector is killed (-9), ended in order (SIGTERM) or stands still (SIGSTOP), and is started again
under its own name; the broker is killed, ended in order or stands still. Settings are those that
nobody set. The detectors remember: a result depends on all windows of the graph before it. In the
end, the results and the states in the memory topic are compared, byte for byte, with those of a
detector that nothing happened to. Prints each fault, and the seed that repeats their order; writes
a section of docs/measured/faults.md after ten minutes or more. The exit status is 1 when a result
or a state was lost, came twice, came out of order, or differs; `--keep FOLDER` then keeps what
tells why: the detectors' logs, the results with their places, and the broker's folder, for Kafka's
own `kafka-dump-log.sh --offsets-decoder`.
"""

from __future__ import annotations

import argparse
import logging
import os
import platform
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path

import structlog

from benchmarks.shared.pages.sections import write_section
from stream_icd.core.snapshot import Snapshot
from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.in_process.broker import memory_broker
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import COMMUNITIES, MEMORY, SNAPSHOTS, create_topics
from stream_icd.registry.find import open_model
from stream_icd.registry.model import VersionedModel, save_model
from stream_icd.streaming.dead_letters.letters import DeadLetterLimit
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.workers.detect import Detector
from stream_icd.streaming.workers.memories import Memories
from stream_icd.streaming.workers.runner import Runner
from stream_icd.wire.message import Message
from tests.testbed.brokers import KafkaNode
from tests.testbed.drifting import outgoing, remembering_model, stream
from tests.testbed.faults.ground import Ground, open_cluster_ground, open_ground, open_secure_ground
from tests.testbed.faults.play import Outcome, Play, Program, by_graph, held, result
from tests.testbed.fingerprint import fingerprint
from tests.testbed.handlers import StopAfter

GRAPHS = 12
# Of a run, while snapshots are sent: the rest is for the last faults to come.
SENDING = 0.9
LONGEST_S = {"pause": 25.0, "away": 3.0, "gap": 5.0}
SETTLED_WITHIN_S = 180.0
GROUNDS: dict[str, Callable[[Path], AbstractContextManager[Ground]]] = {
    "one broker": lambda folder: open_ground(folder, {}),
    "tls": open_secure_ground,
    "cluster": lambda folder: open_cluster_ground(folder, {}),
}

Contents = dict[tuple[str, str], list[str]]
"""By topic and snapshot id: the fingerprint of each record about it."""


@dataclass
class Detectors:
    """Detectors that are there all the time: who ends is started again, as a supervisor would.

    Attributes:
        ended: exit status and error of those that ended by themselves.
    """

    play: Play
    count: int
    ended: Counter[str] = field(default_factory=Counter)
    running: dict[str, Program] = field(default_factory=dict)

    def tend(self) -> None:
        """Start those that are not running."""
        for number in range(self.count):
            name = f"detector-{number}"
            program = self.running.get(name)
            if program is None or program.poll() is not None:
                if program is not None:
                    self.play.wait_stopped(program)
                    self.ended[self.play.stopped_with] += 1
                self.start(name)

    def start(self, name: str) -> None:
        self.running[name] = self.play.detector(instance_id=name)

    def end(self) -> None:
        """SIGTERM to all; returns when they have ended."""
        for program in self.running.values():
            program.send_signal(signal.SIGTERM)
        for program in self.running.values():
            program.wait(60)


@dataclass(frozen=True)
class Chaos:
    """What can go wrong; each method is a fault, and returns when it is over."""

    ground: Ground
    detectors: Detectors
    rng: random.Random

    def detector_killed(self) -> None:
        name, program = self._one()
        program.kill()
        self._start_again(name, program)

    def detector_ended(self) -> None:
        name, program = self._one()
        program.send_signal(signal.SIGTERM)
        self._start_again(name, program)

    def detector_stands_still(self) -> None:
        _, program = self._one()
        os.kill(program.pid, signal.SIGSTOP)
        self._sleep("pause")
        os.kill(program.pid, signal.SIGCONT)

    def broker_killed(self) -> None:
        node = self._node()
        node.kill()
        self._sleep("away")
        node.start()

    def broker_ended(self) -> None:
        node = self._node()
        node.stop()
        self._sleep("away")
        node.start()

    def broker_stands_still(self) -> None:
        with self._node().paused():
            self._sleep("pause")

    def faults(self) -> dict[str, tuple[Callable[[], None], int]]:
        """By what the page calls them: what does it, and how often it is chosen beside the rest."""
        return {
            "detector killed (-9)": (self.detector_killed, 4),
            "detector stopped (SIGTERM)": (self.detector_ended, 2),
            "detector frozen (SIGSTOP) for up to 25 s": (self.detector_stands_still, 3),
            "broker killed (-9)": (self.broker_killed, 1),
            "broker shut down and restarted": (self.broker_ended, 1),
            "broker frozen (SIGSTOP) for up to 25 s": (self.broker_stands_still, 1),
        }

    def run(self, until: float) -> Counter[str]:
        """One fault after the other until that time of the monotonic clock; how many of each."""
        faults, happened = self.faults(), Counter[str]()
        weights = [weight for _, weight in faults.values()]
        began = time.monotonic()
        while time.monotonic() < until:
            self.detectors.tend()
            (fault,) = self.rng.choices(list(faults), weights)
            print(f"{time.monotonic() - began:6.1f} s  {fault}", flush=True)
            faults[fault][0]()
            happened[fault] += 1
            self._sleep("gap")
        self.detectors.tend()
        return happened

    def _node(self) -> KafkaNode:
        others = self.ground.others
        return self.rng.choice([self.ground.node, *others]) if others else self.ground.node

    def _one(self) -> tuple[str, Program]:
        name = self.rng.choice(sorted(self.detectors.running))
        return name, self.detectors.running[name]

    def _start_again(self, name: str, program: Program) -> None:
        program.wait(60)
        self._sleep("away")
        self.detectors.start(name)

    def _sleep(self, what: str) -> None:
        time.sleep(self.rng.uniform(0.0, LONGEST_S[what]))


@dataclass(frozen=True)
class Found:
    """What came of a run.

    Attributes:
        states: records in the memory topic.
        differing: results and states that are not, each once, those of an undisturbed detector.
    """

    outcome: Outcome
    states: int
    differing: int
    happened: Counter[str]
    ended: Counter[str]
    minutes: float
    seed: int

    @property
    def in_order(self) -> bool:
        """Whether the first results of each graph's snapshots came in the order of these."""
        seen = by_graph(dict.fromkeys(self.outcome.seen))
        places = {item: place for place, item in enumerate(self.outcome.sent)}
        return all(items == sorted(items, key=places.__getitem__) for items in seen.values())

    @property
    def kept(self) -> bool:
        lost = self.outcome.lost or self.outcome.repeated or self.differing
        return self.in_order and not lost


def run(ground: Ground, count: int, n_detectors: int, minutes: float, seed: int) -> Found:
    streams = {f"g{graph}": stream(f"g{graph}", -(-count // GRAPHS)) for graph in range(GRAPHS)}
    with Play(ground, GRAPHS, lambda graph, number: streams[graph][number]) as play:
        detectors = Detectors(play, n_detectors)
        detectors.tend()
        chaos = Chaos(ground, detectors, random.Random(seed))
        until = time.monotonic() + 60 * minutes
        with play.sending(count, every_s=SENDING * 60 * minutes / count):
            happened = chaos.run(until)
        play.healed()
        try:
            play.wait_seen(timeout_s=SETTLED_WITHIN_S)
        except AssertionError as error:  # the outcome says how many are lost
            print(error, file=sys.stderr)
        detectors.end()
        results, states = (held(ground, topic, "settled") for topic in (COMMUNITIES, MEMORY))
        sent = [streams[item.graph][int(item.snapshot_id.split("/")[1])] for item in play.sent]
        expected = undisturbed(sent, open_model(str(ground.model)), play.group)
        found = contents_of([*results, *states])
        differing = sum(found.get(key) != expected.get(key) for key in found | expected)
        outcome = play.outcome_of(map(result, results))
        return Found(outcome, len(states), differing, happened, detectors.ended, minutes, seed)


def keep(ground: Ground, folder: Path) -> None:
    """Write to `folder` what is left of a run; the broker has ended then."""
    results = sorted(held(ground, COMMUNITIES), key=lambda record: record.timestamp_ms)
    ground.node.stop()
    shutil.copytree(
        ground.folder, folder / "logs", ignore=shutil.ignore_patterns(ground.model.name)
    )
    shutil.copytree(ground.node.folder, folder / "kafka")
    lines = (f"{one.timestamp_ms} {one.place} {result(one)} {dict(one.headers)}" for one in results)
    (folder / "results.txt").write_text("\n".join(lines))


def section(found: Found, n_detectors: int) -> str:
    outcome, happened = found.outcome, found.happened
    ended = ", ".join(f"{n} with `{how}`" for how, n in found.ended.most_common())
    return "\n".join(
        (
            "fault, chosen at random | times",
            "--- | ---",
            *(f"{fault} | {times}" for fault, times in happened.most_common()),
            "",
            f"{n_detectors} detectors, {GRAPHS} graphs, {happened.total()} faults in "
            f"{found.minutes:g} minutes: **{len(outcome.sent):,} snapshots sent, {outcome.lost} "
            "results lost,",
            f"{outcome.repeated} published twice**, order within each graph "
            f"{'kept' if found.in_order else 'not kept'}, {outcome.dead_letters} dead letters.",
            f"Of the {len(outcome.seen):,} results and the {found.states:,} states of memory, "
            f"**{found.differing} differ in any byte** from those of a",
            "detector that nothing happened to. After the last fault, all results were published "
            f"within {max(0.0, outcome.all_after_s):.0f} s.",
            f"Detectors that ended by themselves and were restarted: {ended or 'none'}.",
            "",
            f"Written by `python -m benchmarks.chaos --seed {found.seed}`. Apache Kafka and the "
            "detectors, with default",
            f"settings, share {os.cpu_count()} CPU cores (load average at the end "
            f"{os.getloadavg()[0]:.1f}), Python {platform.python_version()}. The",
            "seed repeats the order of the faults, but not their times.",
            "",
        )
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--count", type=int, default=2000, help="snapshots to send")
    parser.add_argument("--detectors", type=int, default=3)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument(
        "--on",
        choices=GROUNDS,
        default="one broker",
        help="tls: connections are encrypted and log in; cluster: three brokers; writes no page",
    )
    parser.add_argument("--keep", type=Path, help="a new folder, for what tells why it failed")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    print(f"seed {options.seed}", flush=True)
    with (
        tempfile.TemporaryDirectory() as name,
        GROUNDS[options.on](Path(name)) as opened,
    ):
        ground = replace(opened, model=Path(name) / "remembers")
        save_model(remembering_model().model, ground.model)
        found = run(ground, options.count, options.detectors, options.minutes, options.seed)
        if options.keep is not None and not found.kept:
            keep(ground, options.keep)
    text = section(found, options.detectors)
    print(text)
    if options.minutes >= 10 and options.on == "one broker":
        write_section("measured/faults.md", "chaos.py", text)
    return int(not found.kept)


def contents_of(records: Iterable[Record]) -> Contents:
    """What results and states say of each snapshot; when and where each was made does not count."""
    found: Contents = {}
    for record in records:
        snapshot_id = dict(record.headers)["icd_snapshot_id"].decode()
        message = Message(record.key or b"", record.value or b"", record.headers)
        found.setdefault((record.topic, snapshot_id), []).append(fingerprint(message))
    return found


def undisturbed(snapshots: Iterable[Snapshot], model: VersionedModel, group: str) -> Contents:
    """What one detector publishes that nothing happens to: its results, and its states."""
    with memory_broker() as broker:
        settings = KafkaSettings(bootstrap_servers=broker.bootstrap_servers)
        create_topics(settings)
        with Publisher(settings) as publisher:
            for snapshot in snapshots:
                publisher.send(outgoing(snapshot, SNAPSHOTS))
            sent = publisher.sent
        _detect(settings, model, group, sent)
        found: list[Record] = []
        for topic in (COMMUNITIES, MEMORY):
            with open_reader(settings, topic, until="end") as there:
                found.extend(there)
    return contents_of(found)


def _detect(settings: KafkaSettings, model: VersionedModel, group: str, count: int) -> None:
    """Run a detector in this process, until it has done that many snapshots."""
    with_memory = DetectSettings(memory="auto", group=group, threads=1)
    detector = Detector(lambda: model, with_memory, memories=Memories.open(settings, group))
    runner = Runner(detector, DeadLetterLimit())
    until = StopAfter(count)
    run_consumer(settings, SNAPSHOTS, group, runner, until.stop, watchers=[until])


if __name__ == "__main__":
    sys.exit(main())
