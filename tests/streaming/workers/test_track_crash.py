"""A tracker that is killed in the middle of its work tells the same, and nothing twice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from stream_icd.core.child_process import start_child
from stream_icd.kafka.topics import COMMUNITIES, EVENTS, create_topics
from stream_icd.streaming.subscribers.subscribe import subscribe_events
from tests.streaming.workers.tracked import outgoing, same, stream, unbroken
from tests.testbed.brokers import Broker, timeouts
from tests.testbed.streams import held, publish

N_WINDOWS = 40
N_LATE = 10  # sent after the kill: work for the second, however much the first had done by then


def start_tracker(broker: Broker, graph: str, log: Path) -> subprocess.Popen[bytes]:
    options = ("--graph", graph, "--group", graph, "--batch", "4")
    address = ("--bootstrap-servers", broker.bootstrap_servers)
    command = (
        sys.executable,
        "-m",
        "stream_icd.commands.cli",
        "consume",
        "track",
        *options,
        *address,
    )
    return start_child(command, log)


def test_kill_9_of_a_tracker(
    broker: Broker, topic_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in timeouts(broker.settings()).items():
        monkeypatch.setenv(name, value)
    graph = topic_name  # a graph of this test's own in the live topics
    create_topics(broker.settings())
    hours = stream(graph, N_WINDOWS)
    messages = [outgoing(hour, COMMUNITIES) for hour in hours]
    publish(broker, messages[:-N_LATE])
    results = subscribe_events(
        graph, start="beginning", limit=N_WINDOWS, settings=broker.settings()
    )
    first = start_tracker(broker, graph, tmp_path / "first.log")
    try:
        received = [next(results) for _ in range(N_WINDOWS // 4)]
    finally:
        first.kill()
        first.wait()
    publish(broker, messages[-N_LATE:])
    second = start_tracker(broker, graph, tmp_path / "second.log")
    try:
        received += list(results)
    finally:
        second.terminate()
        status = second.wait(30)
    assert same(received, unbroken(hours))
    assert status == 0, (tmp_path / "second.log").read_text()
    if broker.name == "kafka":  # exactly once: no reader has anything to drop
        assert sum(record.key == graph.encode() for record in held(broker, EVENTS)) == N_WINDOWS
