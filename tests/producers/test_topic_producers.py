"""Producers that follow a topic, of events or of changes: no window is lost or doubled."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from producers.events import Events
from producers.taxi import Taxi
from stream_icd.commands.programs import windowed
from stream_icd.commands.programs.producer import ProducerRun
from stream_icd.commands.programs.windowed import read_topic_rows
from stream_icd.core.errors import BadRow, BadSettings, TopicMissing
from stream_icd.core.headers import Headers
from stream_icd.core.snapshot import Window, snapshot_from_pairs
from stream_icd.kafka.in_process.broker import memory_broker
from stream_icd.kafka.messages.publish import SentBefore, publish_source
from stream_icd.kafka.messages.records import outgoing
from stream_icd.kafka.port import ExistingTopic, TopicSpec
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.topics import SNAPSHOTS, create_topics
from stream_icd.sources.source import RawRows
from stream_icd.sources.windows import Quiet
from stream_icd.wire.snapshots import encode_snapshot
from tests.producers.sent import pressing_ctrl_c, produce, sent
from tests.sources.reading import weighted
from tests.sources.test_changes import add, reference, remove
from tests.testbed.brokers import Broker, wait_until
from tests.testbed.starting import Program, start_forked
from tests.testbed.streams import as_read, publish

pytestmark = pytest.mark.brokers("memory")


@pytest.fixture
def topic(broker: Broker, make_topic: Callable[..., str]) -> str:
    """A topic of events with two partitions, all of this project's topics beside it."""
    create_topics(broker.settings())
    return make_topic(partitions=2)


def send(broker: Broker, topic: str, events: Sequence[tuple[int, int, int]]) -> None:
    """Send events (minute, src, dst), recorded at the moment at which they happened."""
    records = []
    for minute, src, dst in events:
        value = json.dumps({"t": 60 * minute, "src": src, "dst": dst}).encode()
        at = 60_000 * minute
        records.append(OutgoingRecord(topic, value, partition=src % 2, timestamp_ms=at))
    publish(broker, records)


def follow(broker: Broker, topic: str, *options: str, status: int = 0) -> str:
    return produce(broker, "events", "--topic", topic, "--graph", topic, *options, status=status)


def read(
    broker: Broker, topic: str, stop: threading.Event | None = None, **options: object
) -> Iterator[RawRows | Quiet]:
    """The rows of a topic with the column t, as `read_topic_rows` reads them."""
    named = {"columns": ["t"], "on_bad_row": pytest.fail, "stop": stop or threading.Event()}
    return read_topic_rows(broker.settings(), topic, **(named | options))  # type: ignore[arg-type]


EVENTS = [(minute, minute % 5, (minute * 3 + 1) % 7) for minute in range(60)]


def test_a_followed_topic_gives_windows_as_they_close_and_a_restart_the_rest(
    broker: Broker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    publish(broker, [OutgoingRecord(topic, b"no event", partition=0, timestamp_ms=1)])
    send(broker, topic, EVENTS[:35])

    with pressing_ctrl_c(lambda: len(sent(broker, topic)) == 3):
        assert '"bad_rows": 1' in follow(broker, topic, "--window", "10m", status=130)
    # Half of the fourth window is there: it must be neither sent now nor lost later.
    assert len(sent(broker, topic)) == 3

    send(broker, topic, EVENTS[35:])
    to_the_end = ("--until", "end", "--flush")
    log = follow(broker, topic, "--window", "10m", *to_the_end)
    assert '"bad_rows": 0' in log  # it began to read after that one
    found = sent(broker, topic)
    assert [s.window.start.minute for s in found] == [0, 10, 20, 30, 40, 50]
    edges = [
        {frozenset((src, dst)) for _, src, dst in EVENTS[i : i + 10] if src != dst}
        for i in range(0, 60, 10)
    ]
    assert [s.n_edges for s in found] == [len(some) for some in edges]

    longer_ago_than_the_year_1 = ("--lateness", "3000000d", *to_the_end)
    log = follow(broker, topic, *longer_ago_than_the_year_1)
    assert '"bad_rows": 1, "earlier_windows": 1, ' in log  # it read everything again


RULES = {
    "tumbling": (Events, {"window": "10m"}),
    "overlapping": (Events, {"window": "10m", "hop": "4m", "lateness": "2m"}),
    "sessions": (Events, {"session": "3m"}),
    "ticks": (Taxi, {"tick": "10m", "stale": "15m", "nearest": 2}),
}


@pytest.mark.parametrize("rule", RULES)
def test_runs_to_the_end_together_send_each_window_once_and_whole(
    rule: str, broker: Broker, make_topic: Callable[..., str]
) -> None:
    """As a job that runs each hour: rows of the last window come between two runs."""
    topic, whole = make_topic(partitions=2), make_topic(partitions=2)
    minutes = [minute for minute in range(60) if minute % 20 < 14]  # with gaps between sessions
    records = []
    for minute in minutes:
        row = {"t": 60 * minute, "src": minute % 5, "dst": (minute * 3 + 1) % 7}
        fix = {"taxi": minute % 5, "lat": 39.9 + minute / 1000, "lon": 116.4}
        value, at = json.dumps(row | fix).encode(), 60_000 * minute
        records.append(OutgoingRecord(topic, value, partition=minute % 2, timestamp_ms=at))
    make, options = RULES[rule]

    def run_to_the_end(graph: str, **more: object) -> Counter[str]:
        producer = make(topic=graph, graph=graph, until="end", **options, **more)  # type: ignore[arg-type]
        run = ProducerRun(broker.settings(), producer, threading.Event())
        source = producer.open(run)
        with Publisher(broker.settings()) as publisher:
            publish_source(source, publisher, sent_before=run.sent_before)
        assert not run.left_out["late_rows"]
        return run.left_out

    for first in range(0, len(records), 9):
        publish(broker, records[first : first + 9])
        assert run_to_the_end(topic)["open_rows"]
    assert sent(broker, topic)
    n_before = len(sent(broker, topic))
    run_to_the_end(topic)
    assert len(sent(broker, topic)) == n_before
    assert not run_to_the_end(topic, flush=True)["open_rows"]

    publish(broker, [replace(record, topic=whole) for record in records])
    run_to_the_end(whole, flush=True)
    expected = [(s.window, s.content) for s in sent(broker, whole)]
    assert [(s.window, s.content) for s in sent(broker, topic)] == expected
    assert len(expected) > n_before


def test_at_the_end_a_partition_is_quiet_by_the_timestamps_of_its_records(
    broker: Broker, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(partitions=3)
    stamps = [(0, 100), (1, 60), (0, 120)]  # and nothing in partition 2
    for partition, at_s in stamps:
        record = OutgoingRecord(topic, b'{"t": 1}', partition=partition, timestamp_ms=1000 * at_s)
        publish(broker, [record])
    for quiet_after_s, expected in ((60.0, {1, 2}), (61.0, {2})):
        *_, last = read(broker, topic, until="end", quiet_after_s=quiet_after_s)
        assert last == Quiet(frozenset(expected))


def test_late_events_are_counted_and_kept_once(
    broker: Broker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # All of one partition: minute 3 comes when minute 25 has passed the end of its window.
    send(broker, topic, [(1, 0, 2), (25, 2, 4), (3, 4, 6), (26, 0, 6)])
    arguments = ("--window", "10m", "--until", "end")
    log = follow(broker, topic, *arguments)
    assert '"late_rows": 1' in log
    assert "windows wait for partitions without a row" in log
    assert not sent(broker, topic)
    follow(broker, topic, *arguments, "--again", "--quiet-after", "1m")
    assert len(sent(broker, topic)) == 1
    kept = (tmp_path / f"{topic}.late.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in kept] == [
        {"at": f"{topic}[0]:2", "time": "1970-01-01T00:03:00+00:00", "src": 4, "dst": 6}
    ]


def test_records_that_are_no_events_are_reported_with_their_place(
    broker: Broker, topic: str
) -> None:
    values = [b"no json", b"[1]", b'{"t": 1}', None, b'{"t": true, "src": 1, "dst": 2}']
    good = b'{"t": 1, "src": 1, "dst": 2, "more": {}}'
    publish(broker, [OutgoingRecord(topic, v, key=b"k", partition=1) for v in [*values, good]])
    bad: list[BadRow] = []
    columns = ["t", "src", "dst"]
    batches = read(broker, topic, columns=columns, on_bad_row=bad.append, until="end")
    rows = [batch for batch in batches if not isinstance(batch, Quiet)]
    assert [row for batch in rows for row in batch.rows.to_pylist()] == [
        {"t": "1", "src": "1", "dst": "2"}
    ]
    assert [str(error).split(": ")[0] for error in bad] == [f"{topic}[1]:{i}" for i in range(5)]


def test_partitions_that_are_added_are_waited_for_and_said_to_be_quiet(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = Record("t", 2, 0, 0, None, b'{"t": 1}')
    arrived: list[list[Record]] = [[], [row], []]
    monkeypatch.setattr(windowed, "describe_topic", lambda *_: ExistingTopic("t", 1, None))
    monkeypatch.setattr(windowed, "_batches", lambda *_: arrived)
    times = iter([0.0, 10.0, 20.0, 30.0])
    found = read(broker, "t", quiet_after_s=10.0, monotonic=lambda: next(times))
    said = [one.streams if isinstance(one, Quiet) else one.stream for one in found]
    assert said == [{0}, 2, {0, 1, 2}]


def test_what_cannot_be_followed_is_refused_at_once(broker: Broker, topic_name: str) -> None:
    with pytest.raises(TopicMissing, match="create"):
        list(read(broker, topic_name))
    for more in ({"topic": "t"}, {"path": Path("rows.csv")}):
        with pytest.raises(BadSettings, match="--flush .* --topic and --until end"):
            Events(flush=True, **more)  # type: ignore[arg-type]


def test_what_is_no_snapshot_says_nothing_of_what_was_sent(broker: Broker, topic: str) -> None:
    start = datetime(2026, 1, 31, tzinfo=UTC)
    window = Window(start, start + timedelta(hours=12))
    good = snapshot_from_pairs([1], [2], graph="graph", id="i", window=window, source="s")
    headers = encode_snapshot(good).headers
    times = {b"naive": b"2026-01-31T12:00:00", b"far": b"9999-12-31T23:59:59-23:59"}
    wrong = {b"hash": {"icd_content": b"\xff"}}
    wrong |= {key: {"icd_window_end": time} for key, time in times.items()}
    records: list[tuple[bytes | None, Headers]] = [
        (b"graph", headers),
        (b"other", headers[:2]),
        (b"\xff", headers),
        *((key, tuple((dict(headers) | changed).items())) for key, changed in wrong.items()),
        (None, ()),
    ]
    publish(broker, [OutgoingRecord(topic, b"", key, headers) for key, headers in records])
    stopped = threading.Event()
    stopped.set()
    assert SentBefore.read(broker.settings(), topic, stop=stopped).names == {}
    found = SentBefore.read(broker.settings(), topic)
    assert found.names == {"graph": {("s", "i"): good.content}}
    assert found.ends == {"graph": window.end}

    # A window that ends in 9999 does not end its graph's producer.
    found = SentBefore(now=start)
    for end in (start, datetime(9999, 12, 31, tzinfo=UTC)):
        far = snapshot_from_pairs([1], [2], graph="g", id=f"g/{end}", window=Window(start, end))
        for record in as_read([outgoing("t", encode_snapshot(far))]):
            found.add(record)
    assert found.ends == {"g": start}
    assert len(found.names["g"]) == 2


T0 = 1_600_000_020


def send_changes(broker: Broker, topic: str, rows: Sequence[dict[str, object]]) -> None:
    """Send changes; those of one edge go to one partition."""
    records = []
    for row in rows:
        partition = sum(map(ord, f"{row['src']}{row['dst']}")) % 2
        records.append(OutgoingRecord(topic, json.dumps(row).encode(), partition=partition))
    publish(broker, records)


def row(op: str, minute: float, src: str, dst: str, **more: object) -> dict[str, object]:
    return {"op": op, "src": src, "dst": dst, "t": T0 + 60 * minute, **more}


def follow_changes(
    broker: Broker, topic: str, *options: str, graph: str | None = None, status: int = 0
) -> str:
    where = ("--topic", topic, "--graph", graph or topic, "--until", "end")
    return produce(broker, "changes", *where, *options, status=status)


FIRST = [
    row("add", 0.5, "a", "b", weight=2),
    row("add", 0.7, "b", "c"),
    row("add", 1.2, "c", "d"),
    row("remove", 1.4, "b", "a"),
]
SECOND = [row("add", 2.1, "a", "c"), row("put", 3, "a", "z"), row("remove", 0.1, "c", "d")]


def test_a_restart_continues_with_the_graph_of_the_last_snapshot(
    broker: Broker, topic: str
) -> None:
    send_changes(broker, topic, FIRST)
    follow_changes(broker, topic)
    assert [weighted(snapshot) for snapshot in sent(broker, topic)] == [
        {("a", "b"): 2.0, ("b", "c"): 1.0},
        {("b", "c"): 1.0, ("c", "d"): 1.0},
    ]
    send_changes(broker, topic, SECOND)
    assert "op 'put' is neither add nor remove" in follow_changes(broker, topic)
    *_, last = sent(broker, topic)
    assert weighted(last) == {("a", "c"): 1.0, ("b", "c"): 1.0}
    assert last.nodes.to_pylist() == ["a", "b", "c", "d"]
    n = len(sent(broker, topic))
    follow_changes(broker, topic)
    assert len(sent(broker, topic)) == n


def test_what_cannot_be_continued_is_refused(broker: Broker, topic: str, topic_name: str) -> None:
    other = f"{topic_name}.other"
    create_topics(broker.settings(), [TopicSpec(other, partitions=49)])
    assert "has 49 partitions; the limit is 48" in follow_changes(broker, other, status=78)
    send_changes(broker, topic, FIRST)
    follow_changes(broker, topic)
    create_topics(broker.settings(), [TopicSpec(f"{other}.2")])
    refused = follow_changes(broker, f"{other}.2", graph=topic, status=78)
    assert "give this graph another --graph" in refused


def test_changes_that_retention_removed_are_missed() -> None:
    with memory_broker() as of_its_own:
        broker, topic = Broker("memory", of_its_own.bootstrap_servers), "edges"
        create_topics(broker.settings(), [TopicSpec(topic, partitions=2)])
        send_changes(broker, topic, FIRST)
        of_its_own.remove_before(topic, 1, 1)
        refused = follow_changes(broker, topic, status=78)
        assert "retention removed the first changes of edges[1]" in refused
        assert "--anew" in refused
        follow_changes(broker, topic, "--anew")
        n = len(sent(broker, topic))
        assert n > 0
        send_changes(broker, topic, [row("add", 8, "a", "c")])
        follow_changes(broker, topic)  # the last snapshot holds the rest
        assert len(sent(broker, topic)) > n


def start(broker: Broker, topic: str, log: Path) -> Program:
    options = ("--every", "1s", "--quiet-after", "300ms", "--only-changed")
    where = ("--topic", topic, "--graph", topic, "-b", broker.bootstrap_servers)
    return start_forked(("produce", "changes", *where, *options), log)


@pytest.mark.brokers("embedded")
def test_kill_9_loses_and_doubles_no_change(broker: Broker, topic: str, tmp_path: Path) -> None:
    chance = random.Random(7)
    changes, rows = [], []
    for place in range(60):
        src, dst = sorted(chance.sample("abcdefgh", 2))
        change = chance.choice((add, add, remove))
        changes.append(replace(change(0, src, dst), place=place))
        rows.append({"op": change.__name__, "src": src, "dst": dst, "t": time.time()})
    producer = start(broker, topic, tmp_path / "killed.log")
    send_changes(broker, topic, rows[:30])
    wait_until(lambda: sent(broker, topic))
    producer.kill()
    producer.wait()
    send_changes(broker, topic, rows[30:])
    expected, names = reference(changes)
    producer = start(broker, topic, tmp_path / "last.log")
    settings = broker.settings()

    def is_there() -> bool:
        last = SentBefore.read(settings).last_of(topic, settings, SNAPSHOTS)
        return last is not None and weighted(last) == expected

    wait_until(is_there)
    producer.terminate()
    assert producer.wait(30) == 130, (tmp_path / "last.log").read_text()
    snapshots = sent(broker, topic)
    assert set(snapshots[-1].nodes.to_pylist()) == names
    assert len({snapshot.id for snapshot in snapshots}) == len(snapshots)
    ends = [snapshot.window.end for snapshot in snapshots]
    assert ends == sorted(ends)
