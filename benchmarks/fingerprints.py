"""Whether a change of the code leaves each byte of results, memory and events as it was.

    python -m benchmarks.fingerprints --data as733.parquet --write build/fingerprints.txt
    ... change the code ...
    python -m benchmarks.fingerprints --data as733.parquet --check build/fingerprints.txt

Detects a few windows of each stream (drifting LFR, two such graphs in turns, and days of the
Internet if `--data` is given) by each method, with memory and without, with K given and not, two
graphs also in two processes, and tracks what was found. Prints a line for each case: SHA-256 of
all results, of all memories and of all events, shortened. Takes less than a minute.

Compare on one machine only: processors and libraries differ in the last bits of sums. `--check`
names each case that differs, and the exit status is 1 then.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Literal

from stream_icd.core.communities import Communities
from stream_icd.core.events import CommunityEvents
from stream_icd.core.snapshot import Snapshot
from stream_icd.kafka.messages.records import Outcome, Processed, outgoing
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.topics import SNAPSHOTS
from stream_icd.methods.model import Method
from stream_icd.methods.synthetic.lfr import LfrSettings
from stream_icd.methods.tracking.track import TrackSettings, remember, track
from stream_icd.registry.find import open_model
from stream_icd.registry.model import VersionedModel
from stream_icd.sources.datasets.as_topology import read_as_topology
from stream_icd.sources.generated import drifting_lfr
from stream_icd.streaming.detection.record import RecordDetection
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.execution.processes import in_processes
from stream_icd.streaming.execution.work import Engine, InProcess, Relay
from stream_icd.wire.communities import decode_communities
from stream_icd.wire.events import encode_events
from stream_icd.wire.message import Message
from stream_icd.wire.snapshots import encode_snapshot
from tests.testbed.fingerprint import fingerprint

MODEL = "lfr"
WINDOWS = 6
NODES = 600
K = 12
TWO_GRAPHS = "two graphs"
SHOWN = 16
"""Hexadecimal digits of a digest that are printed."""

Memory = Literal["auto", "off"]
METHODS: tuple[Method, ...] = ("bp", "icd")
MEMORY: tuple[Memory, ...] = ("auto", "off")


@dataclass(frozen=True)
class Case:
    """A stream, and how its communities are detected."""

    stream: str
    method: Method
    memory: Memory
    k_is_given: bool
    processes: int

    def __str__(self) -> str:
        k = "K given" if self.k_is_given else "K unknown"
        return f"{self.stream}, {self.method}, memory {self.memory}, {k}, {self.processes} at once"


def streams(as_days: Path | None) -> Iterator[tuple[str, list[Snapshot]]]:
    """Each stream by its name."""
    yield "LFR", lfr("lfr", seed=0)
    pairs = zip(lfr("a", seed=1), lfr("b", seed=2), strict=True)
    yield TWO_GRAPHS, [snapshot for pair in pairs for snapshot in pair]
    if as_days is not None:
        days = [snapshot for snapshot, _ in read_as_topology(as_days).snapshots]
        yield "AS", days[:WINDOWS]


def lfr(graph: str, seed: int) -> list[Snapshot]:
    settings = LfrSettings(n_nodes=NODES, mixing=0.4, max_degree=50, max_community=80)
    source = drifting_lfr(seed, WINDOWS, settings, churn=0.05, event_rate=0.3, graph=graph)
    return [snapshot for snapshot, _ in source.snapshots]


def records(snapshots: Iterable[Snapshot], *, k_is_given: bool) -> Iterator[Record]:
    """The snapshots as they are read from a topic."""
    for offset, snapshot in enumerate(snapshots):
        k = snapshot.n_communities or K
        said = replace(snapshot, n_communities=k if k_is_given else None)
        sent = outgoing(SNAPSHOTS, encode_snapshot(said))
        yield Record(sent.topic, 0, offset, 0, sent.key, sent.value, sent.headers)


@cache
def model() -> VersionedModel:
    """One for all cases: it makes the weights of its encoder once."""
    return open_model(MODEL)


def detected(case: Case, snapshots: Sequence[Snapshot]) -> list[Processed]:
    """The outcome of each snapshot."""
    settings = DetectSettings(
        memory=case.memory, method=case.method, memory_topic="memory", group="x", threads=1
    )
    work = RecordDetection(model(), settings)
    engine: Engine[Record, Outcome] = InProcess(work)
    if case.processes > 1:
        engine = in_processes(work, MODEL, case.processes)
    jobs = records(snapshots, k_is_given=case.k_is_given)
    outcomes = [outcome for _, outcome in engine(jobs, Relay.empty)]
    refused = [outcome for outcome in outcomes if not isinstance(outcome, Processed)]
    if refused:
        raise SystemExit(f"{case}: {refused[0]}")
    return [outcome for outcome in outcomes if isinstance(outcome, Processed)]


def tracked(results: Iterable[Communities]) -> Iterator[CommunityEvents]:
    """The events of each window, for each graph by itself."""
    recent: dict[str, tuple[CommunityEvents, ...]] = {}
    for communities in results:
        before = recent.get(communities.graph, ())
        events = track(before, communities, TrackSettings())
        recent[communities.graph] = tuple(remember(before, events, TrackSettings()))
        yield events


def digest(messages: Iterable[Message]) -> str:
    """One digest of all messages, in their order."""
    whole = hashlib.sha256("".join(map(fingerprint, messages)).encode())
    return whole.hexdigest()[:SHOWN]


def message_of(record: OutgoingRecord) -> Message:
    return Message(record.key or b"", record.value or b"", record.headers)


def line(case: Case, snapshots: Sequence[Snapshot]) -> str:
    """The digests of results, memory and events of a case."""
    outcomes = detected(case, snapshots)
    results = [message_of(outcome.outgoing[0]) for outcome in outcomes]
    memory = [message_of(outcome.state) for outcome in outcomes if outcome.state is not None]
    found = (decode_communities(one.key, one.value, one.headers) for one in results)
    events = [encode_events(one) for one in tracked(found)]
    digests = f"results {digest(results)} memory {digest(memory)} events {digest(events)}"
    return f"{case}: {digests}"


def lines(as_days: Path | None) -> Iterator[str]:
    """A line for each case; two processes are tried where two graphs hand on memory."""
    for name, snapshots in streams(as_days):
        for how in product(METHODS, MEMORY, (False, True)):
            yield line(Case(name, *how, processes=1), snapshots)
        if name == TWO_GRAPHS:
            for method in METHODS:
                yield line(Case(name, method, "auto", False, processes=2), snapshots)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="days of the Internet, as `produce as` reads")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--write", type=Path, help="keep the lines in this file")
    what.add_argument("--check", type=Path, help="compare with the lines of this file")
    options = parser.parse_args()
    before = None if options.check is None else options.check.read_text().splitlines()
    now = []
    for one in lines(options.data):
        now.append(one)
        print(one, flush=True)
    if options.write is not None:
        options.write.parent.mkdir(parents=True, exist_ok=True)
        options.write.write_text("\n".join(now) + "\n")
    if before is None:
        return 0
    differing = sorted(set(before) ^ set(now))
    print(*(f"differs: {one}" for one in differing), sep="\n", file=sys.stderr)
    print(f"{len(now)} cases, {'none differs' if not differing else 'some differ'}")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
