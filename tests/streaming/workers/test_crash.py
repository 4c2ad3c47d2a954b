"""A detector that is killed in the middle of its work loses nothing and doubles nothing.

On the embedded broker, which shows aborted records, for who subscribes; tests/faults has Kafka.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stream_icd.core.child_process import start_child
from stream_icd.core.snapshot import Snapshot
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.topics import COMMUNITIES, SNAPSHOTS, create_topics
from stream_icd.registry.model import VersionedModel, save_model
from stream_icd.streaming.subscribers.subscribe import subscribe
from tests.testbed.brokers import QUICK, Broker
from tests.testbed.streams import publish

N_SNAPSHOTS = 60
N_LATE = 10  # sent after the kill: work for the second, however much the first had done by then


@pytest.fixture
def model_folder(model: VersionedModel, tmp_path: Path) -> Path:
    save_model(model.model, tmp_path / "model")
    return tmp_path / "model"


def start_detector(broker: Broker, graph: str, model: Path, log: Path) -> subprocess.Popen[bytes]:
    options = ("--model", str(model), "--graph", graph, "--group", graph, "--batch", "4")
    address = ("--bootstrap-servers", broker.bootstrap_servers)
    command = (
        sys.executable,
        "-m",
        "stream_icd.commands.cli",
        "consume",
        "detect",
        *options,
        *address,
    )
    quick = {f"STREAM_ICD_{k.upper()}": str(v) for k, v in QUICK[broker.name].items()}
    return start_child(command, log, env=os.environ | quick)


def test_kill_9_of_a_detector(
    embedded: Broker,
    topic_name: str,
    tmp_path: Path,
    model_folder: Path,
    snapshot: Callable[..., Snapshot],
    outgoing: Callable[[Snapshot, str], OutgoingRecord],
) -> None:
    graph = topic_name  # a graph of this test's own in the live topics
    create_topics(embedded.settings())
    messages = [outgoing(snapshot(i, graph), SNAPSHOTS) for i in range(N_SNAPSHOTS)]
    publish(embedded, messages[:-N_LATE])
    results = subscribe(
        graph, start="beginning", limit=N_SNAPSHOTS, settings=embedded.settings(), topic=COMMUNITIES
    )
    first = start_detector(embedded, graph, model_folder, tmp_path / "first.log")
    try:
        seen = [next(results).snapshot_id for _ in range(N_SNAPSHOTS // 4)]
    finally:
        first.kill()
        first.wait()
    publish(embedded, messages[-N_LATE:])
    second = start_detector(embedded, graph, model_folder, tmp_path / "second.log")
    try:
        seen += [result.snapshot_id for result in results]
    finally:
        second.terminate()
        status = second.wait(30)
    assert seen == [f"{graph}/{i}" for i in range(N_SNAPSHOTS)]
    assert status == 0, (tmp_path / "second.log").read_text()
