"""`stream-icd produce changes`: from a topic of additions and removals to snapshots."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from stream_icd.kafka.in_process.broker import memory_broker
from stream_icd.kafka.messages.publish import SentBefore
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.topics import SNAPSHOTS, create_topics
from tests.producers.sent import sent
from tests.run_here import run_here
from tests.sources.reading import weighted
from tests.sources.test_changes import add, reference, remove
from tests.testbed.brokers import Broker, wait_until
from tests.testbed.starting import Program, start_forked
from tests.testbed.streams import publish

T0 = 1_600_000_020


@pytest.fixture
def topic(broker: Broker, topic_name: str) -> str:
    create_topics(broker.settings())
    create_topics(broker.settings(), [TopicSpec(topic_name, partitions=2)])
    return topic_name


def send(broker: Broker, topic: str, rows: Sequence[dict[str, object]]) -> None:
    """Send changes; those of one edge go to one partition."""
    records = []
    for row in rows:
        partition = sum(map(ord, f"{row['src']}{row['dst']}")) % 2
        records.append(OutgoingRecord(topic, json.dumps(row).encode(), partition=partition))
    publish(broker, records)


def row(op: str, minute: float, src: str, dst: str, **more: object) -> dict[str, object]:
    return {"op": op, "src": src, "dst": dst, "t": T0 + 60 * minute, **more}


def produce(
    broker: Broker, topic: str, *options: str, graph: str | None = None, status: int = 0
) -> str:
    """The log of the producer, which must end with this status."""
    where = ("--topic", topic, "--graph", graph or topic, "-b", broker.bootstrap_servers)
    done = run_here("produce", "changes", *where, "--until", "end", *options)
    assert done.returncode == status, done.stderr
    return done.stderr


FIRST = [
    row("add", 0.5, "a", "b", weight=2),
    row("add", 0.7, "b", "c"),
    row("add", 1.2, "c", "d"),
    row("remove", 1.4, "b", "a"),
]
SECOND = [row("add", 2.1, "a", "c"), row("put", 3, "a", "z"), row("remove", 0.1, "c", "d")]


@pytest.mark.brokers("memory")
def test_a_restart_continues_with_the_graph_of_the_last_snapshot(
    broker: Broker, topic: str
) -> None:
    send(broker, topic, FIRST)
    produce(broker, topic)
    assert [weighted(snapshot) for snapshot in sent(broker, topic)] == [
        {("a", "b"): 2.0, ("b", "c"): 1.0},
        {("b", "c"): 1.0, ("c", "d"): 1.0},
    ]
    send(broker, topic, SECOND)
    assert "op 'put' is neither add nor remove" in produce(broker, topic)
    *_, last = sent(broker, topic)
    assert weighted(last) == {("a", "c"): 1.0, ("b", "c"): 1.0}
    assert last.nodes.to_pylist() == ["a", "b", "c", "d"]
    n = len(sent(broker, topic))
    produce(broker, topic)
    assert len(sent(broker, topic)) == n


@pytest.mark.brokers("memory")
def test_what_cannot_be_continued_is_refused(broker: Broker, topic: str, topic_name: str) -> None:
    other = f"{topic_name}.other"
    create_topics(broker.settings(), [TopicSpec(other, partitions=49)])
    assert "has 49 partitions; the limit is 48" in produce(broker, other, status=78)
    send(broker, topic, FIRST)
    produce(broker, topic)
    create_topics(broker.settings(), [TopicSpec(f"{other}.2")])
    refused = produce(broker, f"{other}.2", graph=topic, status=78)
    assert "give this graph another --graph" in refused


def test_changes_that_retention_removed_are_missed() -> None:
    with memory_broker() as of_its_own:
        broker, topic = Broker("memory", of_its_own.bootstrap_servers), "edges"
        create_topics(broker.settings(), [TopicSpec(topic, partitions=2)])
        send(broker, topic, FIRST)
        of_its_own.remove_before(topic, 1, 1)
        refused = produce(broker, topic, status=78)
        assert "retention removed the first changes of edges[1]" in refused
        assert "--anew" in refused
        produce(broker, topic, "--anew")
        n = len(sent(broker, topic))
        assert n > 0
        send(broker, topic, [row("add", 8, "a", "c")])
        produce(broker, topic)  # the last snapshot holds the rest
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
    send(broker, topic, rows[:30])
    wait_until(lambda: sent(broker, topic))
    producer.kill()
    producer.wait()
    send(broker, topic, rows[30:])
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
