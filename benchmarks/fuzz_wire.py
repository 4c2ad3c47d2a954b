"""Throw broken messages at what reads each topic, and count how each one ends.

    python -m benchmarks.fuzz_wire --inputs 1000000 --topic snapshots --seed 1

Every input must end in what was sent or in an error of ours that says what is wrong with it.
Anything else is printed with its number, `--only NUMBER` repeats that one alone, and the exit
status is 1. So it is when an input takes more than a second of processor time, or when Arrow
allocates, or the process takes, more than the limits allow.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.progress import track

from benchmarks.shared.fuzz_inputs import broken
from stream_icd.commands.cli.dlq import _json_lines, _letter_lines, _table_lines
from stream_icd.core.communities import STAGES, Communities, Labels
from stream_icd.core.errors import BadInput, BadSnapshot
from stream_icd.core.events import CommunityEvent, CommunityEvents
from stream_icd.core.lineage import Figure, Gate
from stream_icd.core.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.kafka.messages.claims import ClaimSettings, MessageReader
from stream_icd.kafka.messages.publish import SentBefore
from stream_icd.kafka.messages.records import described, outgoing
from stream_icd.kafka.record import Record
from stream_icd.methods.bp.known import Known
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.memory.detect import Remembered, detect_remembering
from stream_icd.methods.memory.encoding import MEMORY_COLUMNS, decode_memory, encode_memory
from stream_icd.methods.memory.memory import Memory
from stream_icd.registry.find import open_model
from stream_icd.streaming.dead_letters.box import BadRecord
from stream_icd.streaming.dead_letters.letters import DeadLetter, Retried, dead_letter
from stream_icd.wire import communities as nodes_wire
from stream_icd.wire.alerts import Alert, decode_alert, encode_alert
from stream_icd.wire.announcements import Announcement, decode_announcement, encode_announcement
from stream_icd.wire.events import EVENT_COLUMNS, decode_events, encode_events
from stream_icd.wire.limits import Limits
from stream_icd.wire.message import Message
from stream_icd.wire.nodes import decode_known, encode_known
from stream_icd.wire.snapshots import SNAPSHOT_COLUMNS as EDGE_COLUMNS
from stream_icd.wire.snapshots import decode_snapshot, encode_snapshot
from stream_icd.wire.states import MemoryState, decode_state, encode_state
from tests.testbed.streams import as_claim

LIMITS = Limits(decoded_bytes=16 << 20, rows=1_000_000)
MOST_ALLOCATED = 8 * LIMITS.decoded_bytes
SLOW_S = 1.0
DAY = Window(datetime(1999, 4, 2, tzinfo=UTC), datetime(1999, 4, 3, tzinfo=UTC))


@dataclass(frozen=True, slots=True)
class Target:
    """What reads a topic, and valid records of it.

    Attributes:
        read: reads one record; may raise errors of bad input only.
        columns: of a valid table.
        alter: break valid memories, rather than make tables up.
    """

    valid: Sequence[Record]
    read: Callable[[Record], object]
    columns: Sequence[str]
    alter: bool = False


@dataclass(slots=True)
class Findings:
    """How inputs ended.

    Attributes:
        endings: how many ended in each way: `read`, or the name of an error of ours.
        escapes: numbers of the inputs that ended otherwise, and how.
        slowest: seconds by the clock, on a machine that may be busy, and number of the input.
    """

    endings: Counter[str] = field(default_factory=Counter)
    escapes: dict[int, str] = field(default_factory=dict)
    slowest: tuple[float, int] = (0.0, 0)


def fuzz(target: Target, seed: int, numbers: Iterable[int]) -> Findings:
    """Read the broken inputs with these numbers.

    Arrow and the system remember the most that was ever taken, so what the process took before does
    not count.
    """
    found = Findings()
    most_allocated = max(MOST_ALLOCATED, pa.default_memory_pool().max_memory())
    most_resident = _resident() + MOST_ALLOCATED
    for number in numbers:
        record = broken(target.valid, target.columns, seed, number, alter=target.alter)
        started = time.perf_counter()
        try:
            target.read(record)
            found.endings["read"] += 1
        except BadInput as error:
            found.endings[type(error).__name__] += 1
        except Exception as error:
            found.escapes[number] = f"{type(error).__name__}: {error!s:.200}"
        seconds = time.perf_counter() - started
        found.slowest = max(found.slowest, (seconds, number))
        if seconds > SLOW_S and (needed := _processor_s(target, record)) > SLOW_S:
            found.escapes[number] = f"took {needed:.1f} s"
        if pa.default_memory_pool().max_memory() > most_allocated:
            found.escapes[number] = f"Arrow allocated more than {most_allocated} bytes"
            break
        if (resident := _resident()) > most_resident:
            found.escapes[number] = f"the process took {resident >> 20} MiB"
            most_resident = resident + MOST_ALLOCATED
    return found


def _resident() -> int:
    """Bytes of the process in memory, at most until now."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _processor_s(target: Target, record: Record) -> float:
    """Processor time of reading the record once more: others make the clock's time longer."""
    started = time.process_time()
    with suppress(Exception):
        target.read(record)
    return time.process_time() - started


def targets(folder: str) -> Mapping[str, Target]:
    """By topic; claims are kept in the folder."""
    claims = ClaimSettings(uri=folder)
    by_topic = {
        "snapshots": (snapshots(), decode_snapshot, tuple(EDGE_COLUMNS)),
        "communities": ([communities()], nodes_wire.decode_communities, ("node", "community")),
        "labels": ([labels()], nodes_wire.decode_labels, ("node", "community")),
        "events": ([events(), late()], decode_events, tuple(EVENT_COLUMNS)),
        "alerts": ([alert()], decode_alert, ("event",)),
        "announcements": ([announcement()], decode_announcement, ("kind",)),
    }
    found = {
        name: Target(
            [record_of(name, message) for message in sent], partial(_read, decode, claims), columns
        )
        for name, (sent, decode, columns) in by_topic.items()
    }
    every = [record for target in found.values() for record in target.valid]
    claimed = [_claimed(record, claims) for record in every]
    letters = [_letter(record) for record in (*every, claimed[0])]
    everything = tuple(EDGE_COLUMNS)
    found["claims"] = Target(claimed, partial(_read, decode_snapshot, claims), everything)
    found["dead letters"] = Target(
        [*letters, _marker(letters[0])], partial(_read_letter, claims), everything
    )
    known = encode_known("g", "7", "east", DAY.end, "test")
    found["known nodes"] = Target([record_of("known", known)], _know, ("node",))
    sent = [record_of("memory", state) for state in states()]
    found["memory"] = Target(sent, _continue, tuple(MEMORY_COLUMNS), alter=True)
    return found


def _read(decode: Callable[..., object], claims: ClaimSettings, record: Record) -> None:
    described(record)
    SentBefore(limits=LIMITS).add(record)
    MessageReader(claims, LIMITS).decoded(record, decode)


def _read_letter(claims: ClaimSettings, record: Record) -> None:
    """As `stream-icd dlq list` and `dlq show` do."""
    Retried.marked(record)
    letter = DeadLetter.of(record)
    bad = [BadRecord([letter])]
    for _ in (*_table_lines(bad), *_json_lines(bad)):
        pass
    for _ in _letter_lines(letter, record, (), MessageReader(claims, LIMITS)):
        pass


def _know(record: Record) -> None:
    """As a detector with `--known topic` does: read what is known, and look for it in a window."""
    one = decode_known(record.key, record.value, record.headers, LIMITS)
    Known.from_labels({} if one.community is None else {one.node: one.community}, fixed=True).of(
        WINDOWS[-1].nodes
    )


def _continue(record: Record) -> None:
    """As a detector does: read the state, detect the next window with it, and write the next."""
    state = decode_state(record.key, record.value, record.headers, LIMITS)
    memory = decode_memory(state.value, LIMITS)
    found = detect_remembering(WINDOWS[-1], OF_MEMORY[memory.posterior.believed], memory)
    _check(found, memory)
    decode_memory(encode_memory(found.memory), LIMITS)


def _check(found: Remembered, memory: Memory) -> None:
    """A result can be published, and no new id was used before."""
    Communities(
        graph="g",
        snapshot_id="g/1",
        window=DAY,
        nodes=WINDOWS[-1].nodes,
        labels=found.communities,
        n_edges=9,
        model="m@1",
        modularity=0.5,
        ncut=1.0,
        milliseconds=dict.fromkeys(STAGES, 1.0),
        detected_at=DAY.end,
        community_ids=found.community_ids,
        replaced=found.replaced,
    )
    known = set(memory.community_ids.tolist())
    ids = found.community_ids.tolist()
    if any(node_id < memory.next_id and node_id not in known for node_id in ids):
        raise AssertionError("a community has an id that may have been used")


def record_of(topic: str, message: Message) -> Record:
    """The message as a broker holds it."""
    return Record(f"icd.{topic}.v1", 0, 7, 1_700_000_000_000, message.key, message.value,
                  message.headers)  # fmt: skip


def _claimed(record: Record, claims: ClaimSettings) -> Record:
    message = Message(record.key or b"", record.value or b"", record.headers)
    put = as_claim(outgoing(record.topic, message), claims)
    return Record(record.topic, 0, 7, 0, put.key, put.value, put.headers)


def _letter(record: Record) -> Record:
    put = dead_letter(record, "decode", BadSnapshot("header ce_id is missing or empty"))
    return Record(put.topic, 0, 3, 1_700_000_000_000, put.key, put.value, put.headers)


def _marker(letter: Record) -> Record:
    put = DeadLetter.of(letter).marker("icd.snapshots.v1", DAY.end)
    return Record(put.topic, 0, 4, 1_700_000_000_000, put.key, put.value, put.headers)


def snapshots() -> list[Message]:
    """Small snapshots of each shape that the contract has."""
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, 50, (2, 200))
    names = pa.array([f"host-{i}" for i in src]), pa.array([f"host-{i}" for i in dst])
    lonely = pa.array([*dst[:-5].tolist(), *[None] * 5])
    made = partial(snapshot_from_pairs, graph="g", window=DAY)
    return list(
        map(
            encode_snapshot,
            (
                made(src, dst, id="g/1"),
                made(src, dst, id="g/2", weights=rng.random(200) + 1),
                made(*names, id="g/3", n_communities=3),
                made(src, lonely, id="g/4"),
            ),
        )
    )


def communities() -> Message:
    """The communities of a snapshot, whose nodes have names."""
    return nodes_wire.encode_communities(
        Communities(
            graph="g",
            snapshot_id="g/1",
            window=DAY,
            nodes=pa.array([f"host-{i:03}" for i in range(50)]),
            labels=(np.arange(50) % 7).astype(np.int32),
            n_edges=9,
            model="m@1",
            modularity=0.5,
            ncut=1.0,
            milliseconds=dict.fromkeys(STAGES, 1.0),
            detected_at=DAY.end,
        )
    )


def labels() -> Message:
    """The known communities of a snapshot, whose nodes have numbers."""
    found = (np.arange(50) % 7).astype(np.int32)
    return nodes_wire.encode_labels(Labels("g", "g/1", DAY, pa.array(range(50)), found))


def alert() -> Message:
    """A merger that a rule asked for."""
    about = ("desk", "g", "g/1", DAY.start, DAY.end, "m@1")
    return encode_alert(Alert(*about, "merged", 0, 10, 9, 0, ("merged",), "0 joined 7", 31.4))


def announcement() -> Message:
    """A promotion, with the figures that decided."""
    figures = (Figure("NMI, %", 70.5, 71.5, 0.5, 1.5),)
    gate = Gate("a@1", "b@2", DAY.start, DAY.end, 10, passed=True, reason="x", figures=figures)
    return encode_announcement(
        Announcement("promoted", "g", "better", "x", DAY.end, "b@2", "b@2", 2, gate)
    )


def events() -> Message:
    """Events of each kind."""
    return encode_events(
        CommunityEvents(
            graph="g",
            snapshot_id="g/1",
            window=DAY,
            model="m@1",
            nodes=pa.array(range(30)),
            communities=np.arange(30) % 3,
            events=(
                CommunityEvent("merged", 0, 0, 10, 9, 0.5, parents=(0, 7)),
                CommunityEvent("split", 1, 1, 10, 20, 0.25, children=(1, 2)),
                CommunityEvent("born", 2, 2, 10, 0, parents=(1,)),
                CommunityEvent("died", 6, None, 0, 4),
            ),
            next_community=8,
            model_before="m@0",
        )
    )


def late() -> Message:
    """That a window came too late."""
    none = np.empty(0, np.int64)
    return encode_events(
        CommunityEvents("g", "g/0", DAY, "m@1", pa.array(none), none, (), 8, late=True)
    )


def _window(number: int) -> Snapshot:
    """Three communities of ten nodes with texts as ids; the edges of each window are others."""
    rng = np.random.default_rng(number)
    src, dst = np.triu_indices(30, 1)
    chance = np.where(src // 10 == dst // 10, 0.6, 0.05)
    drawn = rng.random(len(src)) < chance
    names = np.array([f"host-{i:02}" for i in range(30)])
    hour = timedelta(hours=number)
    window = Window(DAY.start + hour, DAY.start + hour + timedelta(hours=1))
    return snapshot_from_pairs(
        names[src[drawn]].tolist(), names[dst[drawn]].tolist(), graph="g", id="g/1", window=window
    )


WINDOWS = [_window(number) for number in range(4)]
OF_MEMORY = {
    believed: replace(open_model("default").model, bp=parameters)
    for believed, parameters in (
        (False, BpParameters(stay=0.9)),
        (True, BpParameters(resolution=2.0, mixing=0.3, stay=0.9)),
    )
}


def states() -> Iterator[Message]:
    """States of each kind after three windows: of modularity and beliefs."""
    for model in OF_MEMORY.values():
        memory: Memory | None = None
        for snapshot in WINDOWS[:-1]:
            memory = detect_remembering(snapshot, model, memory).memory
        assert memory is not None
        yield encode_state(
            MemoryState(
                "detect", "g", "g/0", memory.window, "m@1", "r", "0@0", encode_memory(memory),
                memory.next_id,
            )
        )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--topic", help="by default each, one after the other")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="read the input with this number alone")
    arguments = parser.parse_args()
    console = Console()
    numbers = range(arguments.inputs) if arguments.only is None else [arguments.only]
    escapes = 0
    with tempfile.TemporaryDirectory() as folder:
        for topic, target in targets(folder).items():
            if arguments.topic in (None, topic):
                found = fuzz(target, arguments.seed, track(numbers, topic, console=console))
                escapes += len(found.escapes)
                _report(console, topic, arguments.seed, found)
    console.print(f"peak memory {_resident() >> 20} MiB, of it Arrow "
                  f"{pa.default_memory_pool().max_memory() >> 20} MiB")  # fmt: skip
    return int(escapes > 0)


def _report(console: Console, topic: str, seed: int, findings: Findings) -> None:
    total = findings.endings.total() + len(findings.escapes)
    seconds, number = findings.slowest
    endings = ", ".join(f"{count:,} {name}" for name, count in findings.endings.most_common())
    console.print(f"{topic}: {total:,} inputs of seed {seed}: {endings}", soft_wrap=True)
    console.print(f"  slowest {1000 * seconds:.0f} ms (number {number}), "
                  f"{len(findings.escapes)} escapes")  # fmt: skip
    for number, how in list(findings.escapes.items())[:20]:
        console.print(f"  number {number}: {how}", markup=False, soft_wrap=True)


if __name__ == "__main__":
    raise SystemExit(main())
