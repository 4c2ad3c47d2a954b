"""What the worst known messages cost each worker.

    python -m benchmarks.worst_messages
    python -m benchmarks.worst_messages --only "new nodes"

Each case is a process of its own, warm before it starts. It prints the message's size, the
processor time and the growth of the process's memory for that message alone, and the size of the
state that a detector publishes with the result, and how many nodes it holds.
docs/measured/faults.md quotes the table. The file also runs in the versions from before these
faults were mended.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import process_time

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from rich.console import Console

from stream_icd.core.communities import STAGES, Communities
from stream_icd.core.errors import BadInput
from stream_icd.core.log import configure_logging
from stream_icd.core.snapshot import Window, snapshot_from_pairs
from stream_icd.core.store.store import open_store
from stream_icd.history.archive import Archive
from stream_icd.history.archiver import Archiver
from stream_icd.kafka.in_process.broker import memory_broker
from stream_icd.kafka.record import Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import create_topics
from stream_icd.methods.memory.encoding import decode_memory
from stream_icd.registry.find import open_model
from stream_icd.streaming.detection.record import RecordDetection
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.execution.work import Relay
from stream_icd.streaming.workers.step import Step
from stream_icd.streaming.workers.track import Tracker
from stream_icd.wire.arrow_stream import write_table
from stream_icd.wire.communities import encode_communities
from stream_icd.wire.message import Message
from stream_icd.wire.snapshots import encode_snapshot

DAY = timedelta(days=1)
START = datetime(2026, 1, 1, tzinfo=UTC)
Nodes = NDArray[np.int64]
Costs = dict[str, float]


def snapshot(number: int, src: Nodes, dst: Nodes, alone: Nodes) -> Record:
    """A window with these edges, and these nodes without edges."""
    ends = np.concatenate([dst, alone])
    message = encode_snapshot(
        snapshot_from_pairs(
            np.concatenate([src, alone]),
            pa.array(ends, mask=np.arange(len(ends)) >= len(dst)),
            graph="g",
            id=f"g/{number}",
            window=Window(START + number * DAY, START + (number + 1) * DAY),
        )
    )
    return _record("snapshots", number, message)


def _record(topic: str, number: int, message: Message) -> Record:
    return Record(topic, 0, number, 0, message.key, message.value, message.headers)


def small(number: int, n_new: int = 0) -> Record:
    """An ordinary window: 1,000 nodes in communities that stay.

    And nodes never seen before, each with an edge within its community of 20.
    """
    rng = np.random.default_rng(abs(number))
    src, dst = rng.integers(0, 1000, (2, 20_000))
    near = (src // 20 == dst // 20) | (rng.random(20_000) < 0.05)
    new = 1000 + n_new * number + np.arange(n_new)
    friends = new - new % 20 + rng.integers(0, 20, n_new)
    src, dst = (np.concatenate(ends) for ends in ((src[near], new), (dst[near], friends)))
    return snapshot(number, src, dst, np.empty(0, np.int64))


def late(_: int) -> Record:
    """An ordinary window from before all others."""
    return small(-1)


def few_edges(number: int) -> Record:
    """150 edges among 300,000 declared nodes."""
    src = np.arange(150)
    return snapshot(number, src, src + 150, np.arange(300, 300_000))


def one_edge(number: int) -> Record:
    """One edge among a million declared nodes."""
    src = np.zeros(1, np.int64)
    return snapshot(number, src, src + 1, np.arange(2, 1_000_000))


def star(number: int) -> Record:
    """A hub with 100,000 leaves."""
    leaves = np.arange(1, 100_001)
    return snapshot(number, 0 * leaves, leaves, np.empty(0, np.int64))


def new_nodes(number: int, count: int = 200_000) -> Record:
    """An ordinary window, and nodes that were never seen before."""
    return small(number, count)


def detected(
    last: Callable[[int], Record],
    before: Iterator[Record],
    model: str = "default",
    method: str = "bp",
) -> Costs:
    """The costs of a window after others, and its state."""
    settings = DetectSettings(memory="auto", method=method)  # type: ignore[arg-type]
    detect, relay = RecordDetection(open_model(model), settings), Relay()
    detect.warm_up()
    relays = (relay,) if method == "bp" else ()
    number = 0
    for record in before:
        detect(record, *relays)
        number += 1
    record = last(number)
    costs = measured(lambda: detect(record, *relays), record)
    remembered = decode_memory(relay.memory).n_nodes if relay.memory else 0
    return {**costs, "state": len(relay.memory or b""), "nodes": remembered}


def far_community() -> Costs:
    """The costs of reading a state in which a node has a community far above all others."""
    relay = Relay()
    RecordDetection(open_model("default"), DetectSettings(memory="auto"))(small(0), relay)
    table = pa.ipc.open_stream(relay.memory).read_all()
    at = next(at for at, name in enumerate(table.column_names) if name.endswith("community_0"))
    field, labels = table.schema.field(at), table.column(at).to_numpy().copy()
    labels[-1] = np.iinfo(labels.dtype).max
    state = write_table(table.set_column(at, field, pa.array(labels, field.type)))
    return measured(lambda: _refused(state), replace(small(0), value=state))


def _refused(state: bytes) -> None:
    with suppress(BadInput):
        decode_memory(state)


def handled(step: Step, records: list[Record]) -> Costs:
    """The costs of the last record."""
    for record in records[:-1]:
        step.begin([record])
        step.process(record)
    step.begin(records[-1:])
    return measured(lambda: step.process(records[-1]), records[-1])


def measured(work: Callable[[], object], record: Record) -> Costs:
    """Processor time and growth of memory of some work on a record."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = process_time()
    try:
        work()
    except MemoryError as error:  # as in the versions before
        sys.stderr.write(f"{error}\n")
    seconds = process_time() - started
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return {"bytes": len(record.value or b""), "seconds": seconds, "mebibytes": grown}


def result(number: int, count: int = 1_000_000) -> Record:
    """A result in which each of a million nodes is a community; every window has other ones."""
    message = encode_communities(
        Communities(
            graph="g",
            snapshot_id=f"g/{number}",
            window=Window(START + number * DAY, START + (number + 1) * DAY),
            nodes=pa.array(np.arange(count)),
            labels=np.random.default_rng(number).permutation(count).astype(np.int32),
            n_edges=1,
            model="m@1",
            modularity=0.5,
            ncut=1.0,
            milliseconds=dict.fromkeys(STAGES, 1.0),
            detected_at=START,
        )
    )
    return _record("communities", number, message)


def tracked() -> Costs:
    with memory_broker("worst") as broker:
        kafka = KafkaSettings(bootstrap_servers=broker.bootstrap_servers)
        create_topics(kafka)
        return handled(Tracker(kafka), [result(0), result(1)])


def archived() -> Costs:
    with tempfile.TemporaryDirectory() as folder:
        return handled(Archiver(Archive(open_store(folder)), "snapshots"), [small(0), one_edge(1)])


def poisoned(n_windows: int, count: int = 200_000) -> Iterator[Record]:
    return (new_nodes(number, count) for number in range(n_windows))


def after_a_large_one(n_small: int) -> Iterator[Record]:
    yield new_nodes(0, 1_000_000)
    yield from (small(number) for number in range(1, n_small + 1))


CASES: dict[str, Callable[[], Costs]] = {
    "detect: 150 edges among 300,000 nodes": lambda: detected(few_edges, iter([few_edges(0)])),
    "detect --method icd: one edge among a million nodes": lambda: detected(
        one_edge, iter(()), method="icd"
    ),
    "detect --model lfr: a star of 100,000 nodes": lambda: detected(star, iter([star(0)]), "lfr"),
    "detect: the 24th window with 200,000 new nodes": lambda: detected(new_nodes, poisoned(23)),
    "detect: an ordinary window after these 24": lambda: detected(small, poisoned(24)),
    "detect: an ordinary window after 10 with 1.2 million new nodes each": lambda: detected(
        small, poisoned(10, 1_200_000)
    ),
    "detect: a late ordinary window after these 10": lambda: detected(
        late, poisoned(10, 1_200_000)
    ),
    "detect: an ordinary window after one of a million nodes": lambda: detected(
        small, after_a_large_one(0)
    ),
    "detect: the 10th ordinary window after it": lambda: detected(small, after_a_large_one(9)),
    "detect: a state with a community 2^31 - 1": far_community,
    "track: a million nodes, each its own community": tracked,
    "archive: one edge among a million nodes": archived,
}


def main() -> None:
    """Parse the command line; print the table, or (internally) measure one case."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        configure_logging()
        sys.stdout.write(json.dumps(CASES[options.one]()))
        return
    console = Console(soft_wrap=True)
    console.print("worker and message | bytes | seconds | growth, MiB | state, bytes | its nodes")
    for name in CASES:
        if options.only in name:
            console.print(_row(name), markup=False)


def _row(name: str) -> str:
    command = [sys.executable, "-m", "benchmarks.worst_messages", "--one", name]
    folder = Path(__file__).parents[1]
    run = subprocess.run(command, capture_output=True, check=True, cwd=folder)
    costs = json.loads(run.stdout)
    state = f"{costs['state']:,} | {costs['nodes']:,}" if "state" in costs else " | "
    return (
        f"{name} | {costs['bytes']:,} | {costs['seconds']:.1f} | {costs['mebibytes']:.0f} | {state}"
    )


if __name__ == "__main__":
    main()
