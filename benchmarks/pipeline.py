"""What the pipe adds to detection: seconds a snapshot, latency, and the codec's speed.

    python -m benchmarks.pipeline --data as733.parquet

Daily AS topologies (SNAP's AS-733, in any form that `stream-icd produce as` reads) wait in a topic
of Apache Kafka, and of the embedded broker; the detector's own loop and worker process work them
off, in turns with bare `detect_snapshot` on the same snapshots. Then one snapshot at a time: from
sending it to having its communities in a subscriber's hands. Then without a broker: what it costs
to have the work done in a worker process. Writes docs/measured/pipeline.md; the exit status is 1
when the pipe adds more than 15 % of detection and more than 5 ms a snapshot.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import logging
import os
import platform
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import kafka
import numpy as np
import psutil
import pyarrow as pa
import structlog

from stream_icd.datasets.as_topology import read_as_topology
from stream_icd.dead_letters.letters import DeadLetterLimit
from stream_icd.detection.record import RecordDetection
from stream_icd.detection.settings import DetectSettings
from stream_icd.detection.snapshot import detect_snapshot
from stream_icd.execution.engines import Engine, InProcess, PoolAtWork, ProcessPool
from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.delivery.batch_done import BatchDone
from stream_icd.kafka.delivery.handler import Handler
from stream_icd.kafka.port.topic import TopicSpec
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import create_topics
from stream_icd.messages.outcome import Outcome
from stream_icd.messages.outgoing import outgoing
from stream_icd.registry.shipped import VersionedModel, open_model
from stream_icd.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.wire.communities import decode_communities
from stream_icd.wire.snapshots import decode_snapshot, encode_snapshot
from stream_icd.workers.detect import Detector
from stream_icd.workers.runner import Runner
from testbed.brokers import OPENERS

PAGE = Path(__file__).parents[1] / "docs" / "measured" / "pipeline.md"
MODEL = "as"
BATCH = 8  # as `stream-icd consume detect` has it
ALLOWED_SHARE, ALLOWED_MS = 0.15, 5.0
SNAPSHOTS, COMMUNITIES = "backlog.snapshots", "backlog.communities"
ONE_SNAPSHOTS, ONE_COMMUNITIES = "one.snapshots", "one.communities"
TOPICS = [TopicSpec(name) for name in (SNAPSHOTS, COMMUNITIES, ONE_SNAPSHOTS, ONE_COMMUNITIES)]
# As in production on Apache Kafka; the embedded broker needs half a session to let a member in.
TIMEOUTS: dict[str, dict[str, float]] = {
    "kafka": {
        "session_timeout_s": 10.0,
        "heartbeat_interval_s": 0.5,
        "transaction_timeout_s": 15.0,
    },
    "embedded": {},
}

# Where the time goes. In the worker process: stages that results report.
STAGES = {"decode": ("decode",), "detect": ("features", "encode", "cluster")}
# In the detector: the functions that its loop calls, by their homes.
STEPS: dict[str, tuple[tuple[Any, str], ...]] = {
    "publish": ((Publisher, "send"), (Publisher, "flush")),
    "commit": (
        (kafka.KafkaProducer, "send_offsets_to_transaction"),
        (kafka.KafkaProducer, "commit_transaction"),
        (kafka.KafkaConsumer, "commit"),
    ),
}


@dataclass(frozen=True)
class Turn:
    """One time through the backlog, bare and piped; milliseconds a snapshot.

    The CPU time is the whole process's: it tells what the pipe takes on a machine that is busy.
    """

    bare: float
    piped: float
    bare_cpu: float
    piped_cpu: float
    steps: dict[str, float]

    @property
    def added(self) -> float:
        return self.piped - self.bare

    @property
    def allowed(self) -> float:
        return max(ALLOWED_MS, ALLOWED_SHARE * self.bare)


@dataclass(frozen=True)
class Latency:
    """Milliseconds of one snapshot at a time, `(n,)` each, on the same snapshots."""

    bare: np.ndarray
    piped: np.ndarray


@dataclass(frozen=True)
class Speed:
    """Milliseconds to encode and to decode; the table's bytes as they are, and on the wire."""

    encode: float
    decode: float
    raw: int
    wire: int

    @property
    def row(self) -> str:
        raw, wire = self.raw / 1e6, self.wire / 1e6
        speeds = [
            f"{raw / ms * 1000:.0f} / {wire / ms * 1000:.0f}" for ms in (self.encode, self.decode)
        ]
        sizes = f"{self.raw / 1024:.0f} | {self.wire / 1024:.0f}"
        return f"{sizes} | {self.encode:.2f} | {self.decode:.2f} | {' | '.join(speeds)}"


class Bench:
    """The snapshots, and what detects them."""

    def __init__(self, snapshots: Sequence[Snapshot], model: VersionedModel) -> None:
        self.snapshots = snapshots
        self._model = model

    def bare(self, snapshot: Snapshot) -> float:
        """Milliseconds of detection and nothing else."""
        started = time.perf_counter()
        detect_snapshot(snapshot, self._model, DetectSettings(threads=1))
        return 1000 * (time.perf_counter() - started)

    def work(self, topic: str) -> RecordDetection:
        """What a worker process does."""
        return RecordDetection(self._model, DetectSettings(topic=topic, threads=1))

    @contextmanager
    def worker_process(self, work: RecordDetection) -> Iterator[PoolAtWork[Record, Outcome]]:
        """One, warm, as `stream-icd consume detect` has it."""
        with ProcessPool(work, MODEL, 1).opened() as engine:
            engine.wait_until_warm(threading.Event())
            yield engine

    @contextmanager
    def detector(self, topic: str) -> Iterator[Runner]:
        """A detector and its worker process."""
        work = self.work(topic)
        with self.worker_process(work) as engine:
            detector = Detector(lambda: self._model, work.settings, engine)
            yield Runner(detector, DeadLetterLimit())


def stages(batch: BatchDone) -> Counter[str]:
    """Seconds in each of STAGES, as the results of a batch report."""
    seconds: Counter[str] = Counter()
    for one in batch.outgoing:
        said = dict(one.headers)
        for step, parts in STAGES.items():
            seconds[step] += sum(float(said[f"icd_ms_{part}"]) for part in parts) / 1000
    return seconds


def cpu_seconds() -> float:
    """Processor time of this process and its worker processes."""
    workers = psutil.Process().children()
    return time.process_time() + sum(float(sum(one.cpu_times()[:2])) for one in workers)


@contextmanager
def stopwatch() -> Iterator[Counter[str]]:
    """Seconds in each of STEPS, as they add up."""
    seconds: Counter[str] = Counter()

    def timed(step: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            started = time.perf_counter()
            try:
                return function(*arguments, **named)
            finally:
                seconds[step] += time.perf_counter() - started

        return call

    with ExitStack() as patches:
        for step, homes in STEPS.items():
            for home, name in homes:
                function = timed(step, getattr(home, name))
                patches.enter_context(mock.patch.object(home, name, function))
        yield seconds


def turn(bench: Bench, settings: KafkaSettings, number: int) -> Turn:
    """All snapshots bare, then all over the broker, by a group that reads them for the first time.

    The pipe's clock runs from its first committed batch to its last, so that what a start costs
    (joining, the first transaction) is not spread over a backlog; the steps likewise.
    """
    cpu_began = time.process_time()
    bare = [bench.bare(snapshot) for snapshot in bench.snapshots]
    bare_cpu = 1000 * (time.process_time() - cpu_began) / len(bare)
    stop, count, marks = threading.Event(), 0, []
    with stopwatch() as seconds, bench.detector(COMMUNITIES) as runner:

        def on_done(batch: BatchDone) -> None:
            nonlocal count
            count += len(batch.records)
            seconds.update(stages(batch))
            marks.append((count, time.perf_counter(), cpu_seconds(), seconds.copy()))
            if count >= len(bench.snapshots):
                stop.set()

        run_consumer(
            settings,
            SNAPSHOTS,
            f"turn-{number}",
            Handler(runner.handle, done=on_done, ahead=True),
            stop,
            max_records=BATCH,
        )
    (skipped, began, cpu_began, before), (_, ended, cpu_ended, after) = marks[0], marks[-1]
    per_snapshot = 1000 / (count - skipped)
    return Turn(
        statistics.mean(bare[skipped:]),
        per_snapshot * (ended - began),
        bare_cpu,
        per_snapshot * (cpu_ended - cpu_began),
        {step: per_snapshot * (after[step] - before[step]) for step in (*STAGES, *STEPS)},
    )


def one_at_a_time(bench: Bench, settings: KafkaSettings, count: int) -> Latency:
    """From sending a snapshot until a reader of committed records has decoded its communities."""
    stop = threading.Event()
    with bench.detector(ONE_COMMUNITIES) as runner:
        handler = Handler(runner.handle, ahead=True)

        def work() -> None:
            run_consumer(settings, ONE_SNAPSHOTS, "one-at-a-time", handler, stop, max_records=1)

        worker = threading.Thread(target=work)
        worker.start()
        try:
            return latency(bench, settings, count)
        finally:
            stop.set()
            worker.join()


def latency(bench: Bench, settings: KafkaSettings, count: int) -> Latency:
    """Send snapshots one by one to a detector that is at work."""
    times = []
    chosen = [bench.snapshots[i * len(bench.snapshots) // count] for i in (0, *range(count))]
    messages = [outgoing(ONE_SNAPSHOTS, encode_snapshot(one)) for one in chosen]
    with open_reader(settings, ONE_COMMUNITIES) as results, Publisher(settings) as publisher:
        for snapshot, message in zip(chosen, messages, strict=True):
            bare, started = bench.bare(snapshot), time.perf_counter()
            publisher.send(message)
            found = next(results)
            decode_communities(found.key, found.value, found.headers)
            times.append((bare, 1000 * (time.perf_counter() - started)))
    bare_ms, piped_ms = np.array(times[1:]).T  # the first one waited for the worker to join
    return Latency(bare_ms, piped_ms)


def once(engine: Engine[Record, Outcome], record: Record) -> None:
    """Detect one snapshot."""
    list(engine([record]))


def handed_over(bench: Bench, count: int) -> Latency:
    """Snapshots decoded, detected and encoded in this process, and in a worker process in turns."""
    work, times = bench.work(COMMUNITIES), []
    chosen = [bench.snapshots[i * len(bench.snapshots) // count] for i in range(count)]
    here = InProcess(work)
    with bench.worker_process(work) as there:
        for number, snapshot in enumerate(chosen):
            message = encode_snapshot(snapshot)
            record = Record("t", 0, number, 0, message.key, message.value, message.headers)
            times.append([best_ms(partial(once, engine, record)) for engine in (here, there)])
    return Latency(*np.array(times).T)


def codec(snapshots: Sequence[Snapshot]) -> Speed:
    """The mean over snapshots, the best of five of each."""
    rows = []
    for snapshot in snapshots:
        message = encode_snapshot(snapshot)
        assert decode_snapshot(message.key, message.value, message.headers) == snapshot
        rows.append(
            (
                best_ms(lambda s=snapshot: encode_snapshot(s)),
                best_ms(lambda m=message: decode_snapshot(m.key, m.value, m.headers)),
                pa.ipc.open_stream(message.value).read_all().nbytes,
                len(message.value),
            )
        )
    encode, decode, raw, wire = np.mean(rows, axis=0)
    return Speed(encode, decode, round(raw), round(wire))


def best_ms(function: Callable[[], object]) -> float:
    def once() -> float:
        started = time.perf_counter()
        function()
        return 1000 * (time.perf_counter() - started)

    return min(once() for _ in range(5))


def random_snapshot(n_nodes: int, n_edges: int) -> Snapshot:
    """Pairs without any structure and 8-byte ids: there is little to compress."""
    pairs = np.random.default_rng(0).integers(0, n_nodes, (2, n_edges))
    day = Window(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC))
    return snapshot_from_pairs(*pairs, graph="random", id="random/0", window=day)


@dataclass(frozen=True)
class Found:
    """What was measured on one broker."""

    turns: list[Turn]
    latency: Latency

    @property
    def typical(self) -> Turn:
        """The turn with the median overhead."""
        return sorted(self.turns, key=lambda turn: turn.added)[len(self.turns) // 2]

    @property
    def too_dear(self) -> bool:
        return self.typical.added > self.typical.allowed


def measure(broker: str, bench: Bench, turns: int, singles: int) -> Found:
    with OPENERS[broker]() as opened:
        settings = opened.settings(**TIMEOUTS[broker])
        create_topics(settings, TOPICS)
        with Publisher(settings) as publisher:
            for snapshot in bench.snapshots:
                publisher.send(outgoing(SNAPSHOTS, encode_snapshot(snapshot)))
        taken = []
        for number in range(turns):
            taken.append(turn(bench, settings, number))
            print(broker, taken[-1], flush=True)
        return Found(taken, one_at_a_time(bench, settings, singles))


def backlog_rows(name: str, found: Found) -> list[str]:
    one = found.typical
    steps = [f"{one.steps[step]:.2f}" for step in (*STAGES, *STEPS)]
    added = " ".join(f"{turn.added:.2f}" for turn in found.turns)
    return [
        f"{name} | {one.bare:.2f} | {one.piped:.2f} | {one.piped / one.bare:.3f} | "
        f"{one.added:.2f} | {one.allowed:.2f} | {added} | {one.bare_cpu:.2f} | {one.piped_cpu:.2f}",
        f"{name} | {' | '.join(steps)}",
    ]


def latency_row(name: str, one: Latency) -> str:
    added = one.piped - one.bare
    cells = [
        f"{np.percentile(times, q):.1f}" for times in (one.bare, one.piped, added) for q in (50, 95)
    ]
    return f"{name} | {' | '.join(cells)}"


def fence_row(one: Latency) -> str:
    added = one.piped - one.bare
    cells = (
        *(np.median(times) for times in (one.bare, one.piped, added)),
        np.percentile(added, 95),
    )
    return " | ".join(f"{cell:.2f}" for cell in cells)


def page(
    bench: Bench, found: dict[str, Found], speeds: dict[str, Speed], fence: Latency, singles: int
) -> str:
    """docs/measured/pipeline.md."""
    backlog = [backlog_rows(name, one) for name, one in found.items()]
    turns = len(next(iter(found.values())).turns)
    machine = (
        f"Python {platform.python_version()}, {os.cpu_count()} CPU cores shared with the broker"
    )
    return f"""# What the stream adds to detection

For those who plan capacity: how much time Kafka and the message format add to the detection itself.

Made by `python -m benchmarks.pipeline --data as733.parquet`: {len(bench.snapshots)} AS snapshots,
model `{MODEL}`, method bp on one thread, {machine}
(load average at the end {os.getloadavg()[0]:.1f}). Times are milliseconds per snapshot.

- *bare*: `detect_snapshot` alone, in the same process, on the same snapshots, decoded before.
- *piped*: the whole way through Kafka, as `stream-icd consume detect` does it.
- *added*: piped minus bare.

## With a backlog

The loop of `stream-icd consume detect` reads, decodes, detects, encodes, publishes and commits,
with {BATCH} snapshots per transaction: exactly-once on Apache Kafka, at-least-once on the
embedded broker. {turns} rounds over all snapshots alternate between bare and piped. The table
shows the round with the median overhead. The limit is {ALLOWED_SHARE:.0%} of detection or
{ALLOWED_MS:g} ms, whichever is higher.

broker | bare | piped | ratio | added | limit | added, each round | CPU, bare | CPU, piped
--- | --- | --- | --- | --- | --- | --- | --- | ---
{lines(row for row, _ in backlog)}

The stages. The worker process decodes and detects one batch while the detector publishes and
commits the previous one, so these overlap:

broker | {" | ".join((*STAGES, *STEPS))}
--- | {" | ".join("---" for _ in (*STAGES, *STEPS))}
{lines(row for _, row in backlog)}

## One snapshot at a time

{singles} snapshots, each sent after the result of the previous one was seen. *Piped* is the time
from `send` until a reader of committed records has decoded the communities; *added* is computed
for each snapshot.

broker | bare, median | 95 % | piped, median | 95 % | added, median | 95 %
--- | --- | --- | --- | --- | --- | ---
{lines(latency_row(name, one.latency) for name, one in found.items())}

## The worker process

What a worker process that is watched from outside adds
([security.md](../security.md#a-budget-for-each-snapshot)): {len(fence.bare)} snapshots are decoded,
detected and encoded in this process and in a worker process, without a broker, best of five each.

this process, median ms | worker process | added, median | 95 %
--- | --- | --- | ---
{fence_row(fence)}

## Encoding and decoding

`encode_snapshot` and `decode_snapshot`, best of five each, with checks and canonical form. *Raw*
is the table in memory, *wire* the message's value. Speeds are MB (10^6 bytes) per second of raw /
wire bytes.

snapshot | raw KiB | wire KiB | encode ms | decode ms | encode MB/s | decode MB/s
--- | --- | --- | --- | --- | --- | ---
{lines(f"{name} | {speed.row}" for name, speed in speeds.items())}
"""


def lines(rows: Iterable[str]) -> str:
    return "\n".join(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="AS-733, as produce as reads it")
    parser.add_argument("--broker", choices=[*OPENERS], action="append", help="default: both")
    parser.add_argument("--days", type=int, default=733)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--singles", type=int, default=200)
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    source = read_as_topology(options.data).snapshots
    snapshots = [one for one, _ in itertools.islice(source, options.days)]
    bench = Bench(snapshots, open_model(MODEL))
    bench.bare(snapshots[0])  # compiles, or loads what was compiled
    large = random_snapshot(10_000, 80_000)
    speeds = {
        f"AS, {len(snapshots)} days": codec(snapshots),
        f"random, {large.n_nodes:,} nodes, {large.n_edges:,} edges": codec([large]),
    }
    found = {
        name: measure(name, bench, options.turns, options.singles)
        for name in options.broker or reversed(OPENERS)
    }
    PAGE.write_text(
        page(bench, found, speeds, handed_over(bench, options.singles), options.singles),
        encoding="utf-8",
    )
    print(PAGE.read_text(encoding="utf-8"))
    return int(any(one.too_dear for one in found.values()))


if __name__ == "__main__":
    sys.exit(main())
