"""Snapshots that were sent before: repeated, corrected, or sent on as another graph."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from stream_icd.commands.cli.main import app
from stream_icd.core.errors import BadSettings, ContentChanged
from stream_icd.core.snapshot import Snapshot
from stream_icd.core.store.store import open_store
from stream_icd.history.archive import Archive
from stream_icd.kafka.messages.publish import read_sent_before
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.topics import LABELS, SNAPSHOTS
from stream_icd.sources.generated import independent_gn
from stream_icd.wire.communities import decode_labels, encode_labels
from stream_icd.wire.snapshots import decode_snapshot, encode_snapshot
from tests.testbed.brokers import Broker

pytestmark = pytest.mark.brokers("memory")


def produce(broker: Broker, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["produce", *arguments, "-b", broker.bootstrap_servers])


def sent(broker: Broker, graph: str, topic: str = SNAPSHOTS) -> list[Snapshot]:
    with open_reader(broker.settings(), topic, until="end") as records:
        ours = [record for record in records if record.key == graph.encode()]
    return [decode_snapshot(one.key, one.value, one.headers) for one in ours]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for day in (1, 2, 3):
        (tmp_path / f"2026-01-0{day}.csv").write_text(f"src,dst\n1,2\n{day},9\n")
    return tmp_path


def test_changed_content_is_said_and_sent_when_it_is_asked_for(
    broker: Broker, folder: Path, topic_name: str
) -> None:
    files = ("files", str(folder), "--graph", topic_name)
    assert produce(broker, *files).exit_code == 0
    (folder / "2026-01-02.csv").write_text("dst,src\n9,2\n1,2\n2,1\n")  # the same graph
    again = produce(broker, *files)
    assert again.exit_code == 0
    assert "nothing was sent: all of these snapshots are in the topic already" in again.output
    (folder / "2026-01-02.csv").write_text("src,dst\n1,2\n2,8\n")
    assert "all of these snapshots" not in produce(broker, *files).output
    (folder / "2026-01-04.csv").write_text("src,dst\n1,2\n")
    changed = produce(broker, *files)
    assert isinstance(changed.exception, ContentChanged)
    assert f"{topic_name}/2026-01-02.csv" in str(changed.exception)
    assert "--correct" in str(changed.exception)
    assert [snapshot.nodes.to_pylist() for snapshot in sent(broker, topic_name)][3:] == [[1, 2]]
    for expected in (5, 5):
        assert produce(broker, *files, "--correct").exit_code == 0
        assert len(found := sent(broker, topic_name)) == expected
    assert found[-1].nodes.to_pylist() == [1, 2, 8]
    assert produce(broker, *files).exit_code == 0


def test_windows_before_those_of_the_topic_are_said_to_be_late(
    memory: Broker, folder: Path, topic_name: str
) -> None:
    files, late = ("files", str(folder), "--graph", topic_name), "topic holds a later window"
    hidden = (folder / "2026-01-01.csv").rename(folder / "2026-01-01.csv.tmp")
    assert late not in produce(memory, *files).output
    (folder / "2026-01-02.csv").write_text("src,dst\n1,2\n2,8\n")
    assert late not in produce(memory, *files, "--correct").output
    hidden.rename(folder / "2026-01-01.csv")
    behind = produce(memory, *files)
    assert (behind.exit_code, behind.output.count(late)) == (0, 1)
    assert len(sent(memory, topic_name)) == 4


def test_asked_to_stop_a_producer_reads_no_more_of_the_topic(
    memory: Broker, folder: Path, topic_name: str
) -> None:
    assert produce(memory, "files", str(folder), "--graph", topic_name).exit_code == 0
    stop = threading.Event()
    assert len(read_sent_before(memory.settings(), stop=stop).names[topic_name]) == 3
    stop.set()
    assert read_sent_before(memory.settings(), stop=stop).names == {}


@pytest.fixture
def archive(tmp_path: Path, topic_name: str) -> Sequence[str]:
    """Arguments of a replay of two snapshots with labels, of a graph and of another one."""
    archive = Archive(open_store(str(tmp_path / "history")))
    for graph in (topic_name, f"{topic_name}-b"):
        source = independent_gn(0, 2, n_nodes=100, n_communities=5, graph=graph)
        for snapshot, labels in source.snapshots:
            assert labels is not None
            archive.add("snapshots", encode_snapshot(snapshot))
            archive.add("labels", encode_labels(labels))
    return "replay", str(tmp_path / "history"), "--graph", topic_name


def test_a_replay_of_what_is_there_says_so_and_can_be_another_graph(
    memory: Broker, archive: Sequence[str], topic_name: str
) -> None:
    assert produce(memory, *archive).exit_code == 0
    again = produce(memory, *archive)
    assert again.exit_code == 0
    assert "--as-graph NAME sends them as another graph, --topic NAME" in again.output
    renamed = f"{topic_name}-again"
    assert produce(memory, *archive, "--as-graph", renamed).exit_code == 0
    first, second = sent(memory, topic_name), sent(memory, renamed)
    assert len(first) == len(second) == 2
    assert [snapshot.content for snapshot in first] == [snapshot.content for snapshot in second]
    ids = [snapshot.id.replace(topic_name, renamed, 1) for snapshot in first]
    assert [snapshot.id for snapshot in second] == ids
    with open_reader(memory.settings(), LABELS, until="end") as records:
        labels = [decode_labels(r.key, r.value, r.headers) for r in records]
    assert [label.snapshot_id for label in labels if label.graph == renamed] == ids
    refused = produce(memory, *archive[:2], "--as-graph", renamed).exception
    assert isinstance(refused, BadSettings)
    assert "choose one with --graph" in str(refused)


def test_a_replay_into_another_topic(
    memory: Broker, archive: Sequence[str], topic_name: str
) -> None:
    other = f"{topic_name}.elsewhere"
    for _ in range(2):
        assert produce(memory, *archive, "--topic", other).exit_code == 0
    assert len(sent(memory, topic_name, other)) == 2
    assert sent(memory, topic_name) == []
    refused = produce(memory, *archive, "--topic", LABELS).exception
    assert isinstance(refused, BadSettings)
    assert f"{LABELS} holds other messages than {SNAPSHOTS}" in str(refused)
