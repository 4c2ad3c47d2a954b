"""Snapshots that were sent before: repeated, corrected, or sent on as another graph."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from stream_icd.core.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.core.store.store import open_store
from stream_icd.history.archive import Archive, Selection
from stream_icd.kafka.messages.publish import SentBefore
from stream_icd.kafka.messages.records import outgoing
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.topics import LABELS, SNAPSHOTS, create_topics
from stream_icd.wire.communities import decode_labels
from stream_icd.wire.message import Message
from stream_icd.wire.snapshots import encode_snapshot
from tests.producers.sent import archived, decoded, produce, records, sent
from tests.testbed.brokers import Broker
from tests.testbed.streams import as_read, publish

pytestmark = pytest.mark.brokers("memory")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for day in (1, 2, 3):
        (tmp_path / f"2026-01-0{day}.csv").write_text(f"src,dst\n1,2\n{day},9\n")
    return tmp_path


def test_changed_content_is_said_and_sent_when_it_is_asked_for(
    broker: Broker, folder: Path, topic_name: str
) -> None:
    files = ("files", str(folder), "--graph", topic_name)
    produce(broker, *files)
    (folder / "2026-01-02.csv").write_text("dst,src\n9,2\n1,2\n2,1\n")  # the same graph
    assert "nothing was sent: all of these snapshots are in the topic already" in produce(
        broker, *files
    )
    (folder / "2026-01-02.csv").write_text("src,dst\n1,2\n2,8\n")
    assert "all of these snapshots" not in produce(broker, *files, status=78)
    (folder / "2026-01-04.csv").write_text("src,dst\n1,2\n")
    changed = produce(broker, *files, status=78)
    assert f"{topic_name}/2026-01-02.csv. Send them as corrections with --correct" in changed
    assert [snapshot.nodes.to_pylist() for snapshot in sent(broker, topic_name)][3:] == [[1, 2]]
    for expected in (5, 5):
        produce(broker, *files, "--correct")
        assert len(found := sent(broker, topic_name)) == expected
    assert found[-1].nodes.to_pylist() == [1, 2, 8]
    produce(broker, *files)


def test_no_two_messages_of_other_content_are_one_event_of_cloudevents(
    memory: Broker, folder: Path, topic_name: str
) -> None:
    """Its consumers may drop an event whose source and id they have seen."""
    files, day = ("files", str(folder), "--graph", topic_name), folder / "2026-01-02.csv"
    first = day.read_text()
    for text in (first, "src,dst\n1,2\n2,8\n", first, "src,dst\n1,2\n2,8\n"):
        day.write_text(text)
        for _ in range(2):  # the second one sends nothing
            produce(memory, *files, "--correct")
    found = [snapshot for snapshot in sent(memory, topic_name) if "01-02" in snapshot.id]
    assert len({snapshot.id for snapshot in found}) == 1  # readers know it by its id, as before
    source = found[0].source
    numbered = [f"{source}#correction={number}" for number in (1, 2, 3)]
    assert [snapshot.source for snapshot in found] == [source, *numbered]


def test_a_correction_is_numbered_after_those_of_others() -> None:
    def snapshot(end: int, source: str = "urn:me#part") -> Snapshot:
        day = Window(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC))
        return snapshot_from_pairs([1], [end], graph="g", id="g/1", window=day, source=source)

    before = SentBefore()
    first, corrected = snapshot(2), snapshot(4, "urn:me#part;correction=7")
    for record in as_read(outgoing("t", encode_snapshot(one)) for one in (first, corrected)):
        before.add(record)
    assert not before.is_changed(snapshot(4))
    assert before.numbered(snapshot(4)).source == "urn:me#part;correction=7"
    assert before.numbered(snapshot(5, "urn:me#part;correction=3")).source.endswith(";correction=8")


def test_windows_before_those_of_the_topic_are_said_to_be_late(
    memory: Broker, folder: Path, topic_name: str
) -> None:
    files, late = ("files", str(folder), "--graph", topic_name), "topic holds a later window"
    hidden = (folder / "2026-01-01.csv").rename(folder / "2026-01-01.csv.tmp")
    assert late not in produce(memory, *files)
    (folder / "2026-01-02.csv").write_text("src,dst\n1,2\n2,8\n")
    assert late not in produce(memory, *files, "--correct")
    hidden.rename(folder / "2026-01-01.csv")
    assert produce(memory, *files).count(late) == 1
    assert len(sent(memory, topic_name)) == 4


def nodes_sent(broker: Broker, graph: str) -> list[set[object]]:
    return [set(snapshot.nodes.to_pylist()) for snapshot in sent(broker, graph)]


def test_files_have_the_kind_of_ids_that_the_topic_has(
    broker: Broker, tmp_path: Path, topic_name: str
) -> None:
    files = ("files", str(tmp_path), "--graph", topic_name)
    (tmp_path / "2026-01-01.csv").write_text("src,dst\n1,2\nadmin,1\n")
    produce(broker, *files)
    (tmp_path / "2026-01-01.csv").rename(tmp_path / "2026-01-01.sent")
    (tmp_path / "2026-01-02.csv").write_text("src,dst\n1,2\n3,1\n")
    produce(broker, *files)
    (tmp_path / "2026-01-03.csv").write_text("src,dst\n1,3.0\n3,2.0\n")
    produce(broker, *files)
    assert nodes_sent(broker, topic_name) == [{"1", "2", "admin"}, *[{"1", "2", "3"}] * 2]
    produce(broker, *files, "--ids", "integer", "--correct")
    assert nodes_sent(broker, topic_name)[3:] == [{1, 2, 3}] * 2


def test_a_last_snapshot_that_cannot_be_read_is_said(
    memory: Broker, tmp_path: Path, topic_name: str
) -> None:
    (tmp_path / "2026-01-01.csv").write_text("src,dst\n1,2\n")
    files = ("files", str(tmp_path), "--graph", topic_name)
    produce(memory, *files)
    (record,) = records(memory, topic_name)
    publish(memory, [OutgoingRecord(SNAPSHOTS, b"no Arrow", record.key, record.headers)])
    (tmp_path / "2026-01-01.csv").rename(tmp_path / "2026-01-02.csv").write_text("src,dst\na,b\n")
    assert "the graph's last snapshot cannot be read" in produce(memory, *files)
    assert decoded(records(memory, topic_name)[-1]).nodes.to_pylist() == ["a", "b"]


def test_events_of_a_topic_keep_their_kind_of_ids_after_a_restart(
    memory: Broker, tmp_path: Path, topic_name: str
) -> None:
    """The producer goes on where the records begin that the next window may need."""
    create_topics(memory.settings(), [TopicSpec(topic_name)])
    events = ["events", "--topic", topic_name, "--graph", topic_name, "--until", "end"]
    events += ["--late-rows", str(tmp_path / "late.jsonl")]

    def send(*hourly: tuple[int, object, object]) -> None:
        for hour, src, dst in hourly:
            value = json.dumps({"t": 3600 * hour, "src": src, "dst": dst}).encode()
            at_ms = 3_600_000 * hour
            publish(memory, [OutgoingRecord(topic_name, value, timestamp_ms=at_ms)])

    send((1, 1, 2), (1, 2, 3.0), (2, 1, 3))
    produce(memory, *events)
    before = nodes_sent(memory, topic_name)
    assert before[0] == {1, 2, 3}
    send((3, "guest", 1), (3, 1, 2.0), (4, "guest", 2), (4, 2, 1), (5, 1, 2))
    assert "src 'guest' is not of type integer (--ids)" in produce(memory, *events)
    after = nodes_sent(memory, topic_name)[len(before) :]
    assert {1, 2} in after
    assert all(type(node) is int for nodes in after for node in nodes)


@pytest.fixture
def archive(tmp_path: Path, topic_name: str) -> Sequence[str]:
    """Arguments of a replay of two snapshots with labels, of a graph and of another one."""
    for graph in (topic_name, f"{topic_name}-b"):
        archived(tmp_path / "history", graph, 2)
    return "replay", str(tmp_path / "history"), "--graph", topic_name


def test_a_replay_of_what_is_there_says_so_and_can_be_another_graph_or_topic(
    memory: Broker, archive: Sequence[str], topic_name: str
) -> None:
    produce(memory, *archive)
    store = Archive(open_store(archive[1]))
    past = [store.read_message(noted) for noted in store.windows(Selection(graph=topic_name))]
    found = [Message(r.key or b"", r.value or b"", r.headers) for r in records(memory, topic_name)]
    assert found == past
    assert "--as-graph NAME sends them as another graph, --topic NAME" in produce(memory, *archive)
    renamed, other = f"{topic_name}-again", f"{topic_name}.elsewhere"
    produce(memory, *archive, "--as-graph", renamed)
    first, second = sent(memory, topic_name), sent(memory, renamed)
    assert [snapshot.content for snapshot in first] == [snapshot.content for snapshot in second]
    ids = [snapshot.id.replace(topic_name, renamed, 1) for snapshot in first]
    assert [snapshot.id for snapshot in second] == ids
    labels = [decode_labels(r.key, r.value, r.headers) for r in records(memory, renamed, LABELS)]
    assert [label.snapshot_id for label in labels] == ids
    for _ in range(2):
        produce(memory, *archive, "--topic", other)
    assert len(sent(memory, topic_name, other)) == len(sent(memory, topic_name)) == 2
    for arguments, reason in (
        ((*archive[:2], "--as-graph", renamed), "choose one with --graph"),
        ((*archive[:3], "nobody"), f"no snapshots of graph nobody; it holds {topic_name}"),
        ((*archive, "--topic", LABELS), f"{LABELS} holds other messages than {SNAPSHOTS}"),
    ):
        assert reason in produce(memory, *arguments, status=78)
