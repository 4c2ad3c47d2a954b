"""`stream-icd produce changes`: from a topic of additions and removals to snapshots."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from stream_icd.core.child_process import start_child
from stream_icd.kafka.in_process.broker import memory_broker
from stream_icd.kafka.messages.publish import SentBefore
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.topics import SNAPSHOTS, create_topics
from tests.producers.sent import sent
from tests.run_here import Done, run_here
from tests.sources.reading import weighted
from tests.sources.test_changes import add, reference, remove
from tests.testbed.brokers import Broker, wait_until
from tests.testbed.streams import publish

T0 = 1_600_000_020


@pytest.fixture
def topic(broker: Broker, topic_name: str) -> str:
    create_topics(broker.settings())
    create_topics(broker.settings(), [TopicSpec(topic_name, partitions=2)])
    return topic_name


def send(broker: Broker, topic: str, rows: Sequence[dict[str, object]]) -> None:
    """Send changes; those of one edge go to one partition."""
    publish(
        broker,
        [
            OutgoingRecord(
                topic,
                json.dumps(row).encode(),
                partition=sum(map(ord, f"{row.get('src')}{row.get('dst')}")) % 2,
            )
            for row in rows
        ],
    )


def row(op: str, minute: float, src: str, dst: str, **more: object) -> dict[str, object]:
    return {"op": op, "src": src, "dst": dst, "t": T0 + 60 * minute, **more}


def produce(broker: Broker, topic: str, *options: str) -> Done:
    where = ("--topic", topic, "--graph", topic, "-b", broker.bootstrap_servers)
    return run_here("produce", "changes", *where, "--until", "end", *options)


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
    assert produce(broker, topic).returncode == 0
    assert [weighted(one) for one in sent(broker, topic)] == [
        {("a", "b"): 2.0, ("b", "c"): 1.0},
        {("b", "c"): 1.0, ("c", "d"): 1.0},
    ]
    send(broker, topic, SECOND)
    done = produce(broker, topic)
    assert done.returncode == 0
    assert "op 'put' is neither add nor remove" in done.stderr
    *_, last = sent(broker, topic)
    assert weighted(last) == {("a", "c"): 1.0, ("b", "c"): 1.0}
    assert last.nodes.to_pylist() == ["a", "b", "c", "d"]
    n = len(sent(broker, topic))
    assert produce(broker, topic).returncode == 0
    assert len(sent(broker, topic)) == n


@pytest.mark.brokers("memory")
def test_what_cannot_be_continued_is_refused(broker: Broker, topic: str, topic_name: str) -> None:
    other = f"{topic_name}.other"
    create_topics(broker.settings(), [TopicSpec(other, partitions=49)])
    done = produce(broker, other)
    assert done.returncode == 78
    assert "has 49 partitions; the limit is 48" in done.stderr
    send(broker, topic, FIRST)
    assert produce(broker, topic).returncode == 0
    create_topics(broker.settings(), [TopicSpec(f"{other}.2")])
    done = run_here("produce", "changes", "--topic", f"{other}.2", "--graph", topic, "--until",
                    "end", "-b", broker.bootstrap_servers)  # fmt: skip
    assert done.returncode == 78
    assert "give this graph another --graph" in done.stderr


def test_changes_that_retention_removed_are_missed() -> None:
    with memory_broker() as found:
        broker, topic = Broker("memory", found.bootstrap_servers), "edges"
        create_topics(broker.settings(), [TopicSpec(topic, partitions=2)])
        send(broker, topic, FIRST)
        found.remove_before(topic, 1, 1)
        done = produce(broker, topic)
        assert done.returncode == 78
        assert "retention removed the first changes of edges[1]" in done.stderr
        assert "--anew" in done.stderr
        assert produce(broker, topic, "--anew").returncode == 0
        n = len(sent(broker, topic))
        assert n > 0
        send(broker, topic, [row("add", 8, "a", "c")])
        assert produce(broker, topic).returncode == 0  # the last snapshot holds the rest
        assert len(sent(broker, topic)) > n


def start(broker: Broker, topic: str, log: Path) -> subprocess.Popen[bytes]:
    options = ("--every", "1s", "--quiet-after", "300ms", "--only-changed")
    where = ("--topic", topic, "--graph", topic, "-b", broker.bootstrap_servers)
    command = (sys.executable, "-m", "stream_icd.commands.cli", "produce", "changes")
    return start_child((*command, *where, *options), log)


@pytest.mark.brokers("embedded")
def test_kill_9_loses_and_doubles_no_change(broker: Broker, topic: str, tmp_path: Path) -> None:
    chance = random.Random(7)
    changes, rows = [], []
    for place in range(60):
        src, dst = sorted(chance.sample("abcdefgh", 2))
        op = chance.choice(("add", "add", "remove"))
        made = add if op == "add" else remove
        changes.append(replace(made(0, src, dst), place=place))
        rows.append({"op": op, "src": src, "dst": dst, "t": time.time()})
    producer = start(broker, topic, tmp_path / "killed.log")
    try:
        send(broker, topic, rows[:30])
        wait_until(lambda: sent(broker, topic))
    finally:
        producer.kill()
        producer.wait()
    send(broker, topic, rows[30:])
    expected, names = reference(changes)
    producer = start(broker, topic, tmp_path / "last.log")
    settings = broker.settings()

    def is_there() -> bool:
        last = SentBefore.read(settings).last_of(topic, settings, SNAPSHOTS)
        return last is not None and weighted(last) == expected

    try:
        wait_until(is_there)
    finally:
        producer.terminate()
        status = producer.wait(30)
    assert status == 130, (tmp_path / "last.log").read_text()
    found = sent(broker, topic)
    assert set(found[-1].nodes.to_pylist()) == names
    ids = [one.id for one in found]
    assert len(set(ids)) == len(ids)
    assert [one.window.end for one in found] == sorted(one.window.end for one in found)
