"""What goes into the archive comes out the same, once, and anybody's Parquet reader reads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import product
from pathlib import Path
from unittest.mock import MagicMock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from stream_icd.core.communities import Labels
from stream_icd.core.errors import (
    BadSettings,
    HistoryDamaged,
    StoreUnreachable,
)
from stream_icd.core.store.store import Store, open_store
from stream_icd.history import files
from stream_icd.history.archive import Archive, Selection
from stream_icd.history.archiver import Archiver
from stream_icd.history.compaction import compact_archive
from stream_icd.history.export import export
from stream_icd.history.files import FileKind
from stream_icd.kafka.messages.claims import MessageReader
from stream_icd.kafka.messages.records import Processed
from stream_icd.kafka.record import Record
from stream_icd.methods.memory.detect import detect_remembering
from stream_icd.methods.memory.encoding import encode_memory
from stream_icd.methods.memory.memory import Memory
from stream_icd.registry.find import open_model
from stream_icd.wire.arrow_stream import write_table
from stream_icd.wire.communities import SUMMARY, encode_communities, encode_labels
from stream_icd.wire.events import encode_events
from stream_icd.wire.limits import Limits
from stream_icd.wire.message import Message
from stream_icd.wire.snapshots import encode_snapshot
from stream_icd.wire.states import MemoryState, encode_state
from tests.history.conftest import (
    add_snapshots,
    archived,
    make_communities,
    make_events,
    make_snapshot,
)
from tests.streaming.workers.tracked import stream, unbroken


def contents(store: Store) -> dict[str, bytes]:
    return {path: store.open(path).read() for path in store.files()}


def ids(store: Store, selection: Selection = Selection()) -> list[str]:
    return [noted.identity.snapshot_id for noted in Archive(store).windows(selection)]


@pytest.mark.parametrize(("kind", "weighted"), [(int, True), (str, False)])
def test_a_snapshot_comes_out_as_the_same_message_however_often_it_comes(
    store: Store, tmp_path: Path, kind: type, weighted: bool
) -> None:
    sent = make_snapshot(0, weighted=weighted, kind=kind)
    plain = encode_snapshot(sent)  # headers of others may have any bytes
    message = replace(plain, headers=(*plain.headers, ("traceparent", b"\x00\xff\xfe")))
    archive, other = Archive(store), open_store((tmp_path / "other").as_uri())
    # The third one after a restart.
    added = [place.add("snapshots", message) for place in (archive, archive, Archive(store))]
    assert added == [True, False, False]
    assert archived(store) == [message]
    assert list(map(archive.read_snapshot, archive.windows())) == [sent]
    assert Archive(other).add("snapshots", message)
    assert contents(other) == contents(store)
    assert len(store.files()) == 1


def results() -> dict[FileKind, list[Message]]:
    """Messages of each other kind, in the order of windows; also a memory without nodes."""
    one = make_communities(make_snapshot(0))
    of_another = make_communities(make_snapshot(0), "m@2")
    labels = Labels(one.graph, one.snapshot_id, one.window, one.nodes, one.labels, "urn:teacher")
    tracked = unbroken(stream("g", 12))
    assert {"died", "split", "merged"} <= {e.kind for one in tracked for e in one.events}
    memory = detect_remembering(make_snapshot(0), open_model("default").model).memory
    # The second one is as `detect-anew` makes it.
    memories = {"later": memory, one.snapshot_id: Memory.forgotten(memory.next_id)}
    states = [
        MemoryState("g", one.graph, of, one.window, "m@1", "r1", "0:0", encode_memory(memory))
        for of, memory in memories.items()
    ]
    return {
        "communities": [encode_communities(one), encode_communities(of_another)],
        "labels": [encode_labels(labels)],
        "events": list(map(encode_events, tracked)),
        "memory": [encode_state(state, by_graph=True) for state in states],
    }


def test_results_come_out_as_the_same_messages(disk: Store) -> None:
    sent = results()
    for kind, messages in sent.items():
        assert all(Archive(disk).add(kind, message) for message in messages)
        assert not any(Archive(disk).add(kind, message) for message in messages)
    for _ in range(2):
        for kind, messages in sent.items():
            assert archived(disk, Selection(kind)) == messages
        list(compact_archive(disk, date(2100, 1, 1)))
    assert ids(disk, Selection("communities", model="m@2")) == ["test/0"]


def test_communities_have_one_schema_whatever_version_wrote_them(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = make_communities(make_snapshot(0))
    n_nodes, k = one.n_nodes, one.n_communities
    seconds = np.where(np.arange(n_nodes) == 1, 900, -1)
    newest = replace(
        one,
        community_ids=np.arange(k) + 40,
        replaced=np.empty((0, 2), np.int64),
        probabilities=np.full(n_nodes, 0.75, np.float32),
        second_ids=seconds,
        second_probabilities=np.where(seconds < 0, 0, 0.25).astype(np.float32),
        horizon=4.5,
        predicted_bits=-0.25,
    )
    plain = encode_communities(replace(newest, snapshot_id="earlier"))
    table = pa.ipc.open_stream(plain.value).read_all().select(["node", "community"])
    earlier = replace(plain, value=write_table(table))
    with monkeypatch.context() as before:
        of_memory = ("horizon", "horizon_for", "predicted_bits")
        columns = {name: type for name, type in SUMMARY.items() if name not in of_memory}
        before.setattr(files, "SUMMARY", columns)
        Archive(store).add("communities", earlier)
    sent = [earlier, *map(encode_communities, (newest, make_communities(make_snapshot(1))))]
    for message in sent:
        Archive(store).add("communities", message)
    noted = list(Archive(store).windows(Selection("communities")))
    assert ["horizon" in window.schema for window in noted] == [False, True, True]
    list(compact_archive(store, date(2100, 1, 1)))
    assert archived(store, Selection("communities")) == sent
    communities = Archive(store).windows(Selection("communities"))
    rows = list(map(Archive(store).read_window, communities))
    assert len({row.schema for row in rows}) == 1
    old, new, without = rows
    assert [row["community_id"].null_count for row in (old, new)] == [0, 0]
    assert new["second_id"].to_pylist() == [900 if i == 1 else None for i in range(n_nodes)]
    assert new["probability"].to_pylist() == [0.75] * n_nodes
    assert old["probability"].null_count == n_nodes
    for name, value in (("horizon", 4.5), ("predicted_bits", -0.25)):
        assert [set(row[name].to_pylist()) for row in (old, new)] == [{value}, {value}]
        assert without[name].null_count == without.num_rows


def test_of_events_those_of_tracked_windows_are_archived(disk: Store) -> None:
    """A window that was tracked must not be replaced by a message that says that it was late."""
    tracked, archiver = make_events(make_snapshot(0)), Archiver(Archive(disk), "events")
    message = encode_events(tracked)
    nothing = {"nodes": tracked.nodes[:0], "communities": tracked.communities[:0], "events": ()}
    late = encode_events(replace(tracked, revision="r2", late=True, **nothing))
    for offset, (headers, value, event) in enumerate(
        (
            (message.headers, message.value, "archived"),
            (message.headers, None, "nothing to archive"),
            (late.headers, late.value, "not archived: the window was late"),
            (message.headers, message.value, "archived before"),
            (message.headers, b"garbage", "archive"),
        )
    ):
        record = Record("events", 0, offset, 1000 + offset, message.key, value, headers)
        done = archiver.process(record)
        assert event == (done.event if isinstance(done, Processed) else done.stage)
    assert archived(disk, Selection("events")) == [message]
    # As `detect-anew` does if the memory cannot be read.
    deleted = Archiver(Archive(disk), "memory").process(Record("m", 0, 0, 0, b"k", None, ()))
    assert isinstance(deleted, Processed)


def test_windows_are_selected_by_time_and_graph_and_come_in_order(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    hours, names = (2, 11, 25, 30), ("a b/c=d%é", "test")
    add_snapshots(store, (make_snapshot(i, name) for i in (30, 2, 11, 25) for name in names))
    assert ids(store) == [f"{name}/{i}" for i in hours for name in names]
    start = datetime(2026, 1, 1, 11, tzinfo=UTC)
    chosen = Selection(graph="test", start=start, end=start + timedelta(hours=14))
    assert ids(store, chosen) == ["test/11"]
    assert ids(store, Selection(graph="another")) == []
    # In an object store, each look into a folder is a request.
    with monkeypatch.context() as patch:
        folders = MagicMock(wraps=store.folders)
        patch.setattr(Store, "folders", folders)
        assert ids(store, Selection(graph=names[0])) == [f"{names[0]}/{i}" for i in hours]
    folders.assert_called_once_with("snapshots/graph=a%20b%2Fc%3Dd%25%C3%A9")


def test_places_are_kept_and_one_export_holds_graphs_with_and_without(
    disk: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, *_ = sent = [make_snapshot(0), make_snapshot(1, graph="taxi", placed=True)]
    with monkeypatch.context() as before:
        before.setitem(files._OPTIONAL, "snapshots", {"weight": pa.float64()})
        add_snapshots(disk, [old])
    add_snapshots(disk, sent)
    found = list(Archive(disk).windows())
    assert ["x" in window.schema for window in found] == [False, True]
    assert [Archive(disk).read_snapshot(window) for window in found] == sent
    assert archived(disk) == list(map(encode_snapshot, sent))
    n_rows = sum(snapshot.n_edges + 1 for snapshot in sent)
    assert export(disk, Selection(), tmp_path / "rows.parquet") == n_rows


def test_it_works_on_file_systems_that_have_folders_and_are_no_disk() -> None:
    store = Store(fs._MockFileSystem(), "bucket/history", "mock://bucket/history")
    added = [Archive(store).add("snapshots", encode_snapshot(make_snapshot(i))) for i in (0, 1, 0)]
    assert added == [True, True, False]
    found = [Archive(store).read_snapshot(window) for window in Archive(store).windows()]
    assert found == [make_snapshot(0), make_snapshot(1)]


def test_a_store_that_nobody_knows_or_that_does_not_answer_is_said() -> None:
    with pytest.raises(BadSettings, match="names no bucket: give s3://bucket/folder"):
        open_store("s3://")
    timeout = OSError("curlCode: 28, Timeout was reached")
    unreachable = MagicMock(get_file_info=MagicMock(side_effect=timeout))
    with pytest.raises(StoreUnreachable, match="s3://bucket: curlCode: 28"):
        ids(Store(unreachable, "bucket", "s3://bucket"))


def test_a_reader_with_a_wider_limit_archives_what_it_takes(disk: Store) -> None:
    sent = encode_snapshot(replace(make_snapshot(0), id="i" * 2000))
    record = Record("t", 0, 0, 0, sent.key, sent.value, sent.headers)
    wide = MessageReader(limits=Limits(name_bytes=4096))
    assert isinstance(Archiver(Archive(disk), "snapshots", wide).process(record), Processed)
    assert ids(disk) == ["i" * 2000]


def test_folders_of_others_are_passed_over_and_files_of_others_are_named(disk: Store) -> None:
    longest = make_snapshot(0, graph="é" * 33 + "gg")  # that there can be
    Archive(disk).add("snapshots", encode_snapshot(longest))
    for folder in ("graph=test/date=20260101", "graph=%74est/date=2026-01-01", "test/2026-01-01"):
        (Path(disk.root) / "snapshots" / folder).mkdir(parents=True)
    (noted,) = Archive(disk).windows(Selection(revisions="all"))
    assert Archive(disk).read_snapshot(noted) == longest
    disk.put(f"{noted.partition.folder}/foreign.parquet", pa.py_buffer(b"PAR1 no"))
    with pytest.raises(HistoryDamaged, match="foreign.parquet"):
        ids(disk)


@pytest.mark.parametrize(
    ("merged", "graph", "hour"),
    [(False, "test", 1), (False, "test", 30), (False, "other", 0), (True, "test", 30)],
)
def test_a_file_in_the_place_of_another_is_named(
    merged: bool, graph: str, hour: int, disk: Store
) -> None:
    """Else a window would be missing without a word, and another be there twice."""
    hours = product(("test", "other"), (0, 1, 30, 31))
    add_snapshots(disk, (make_snapshot(i, graph=name) for name, i in hours))
    if merged:
        list(compact_archive(disk, date(2027, 1, 1)))
    paths = {noted.identity.snapshot_id: noted.path for noted in Archive(disk).windows()}
    replaced = paths["test/0"]
    disk.put(replaced, pa.py_buffer(contents(disk)[paths[f"{graph}/{hour}"]]))
    with pytest.raises(HistoryDamaged, match=f"{replaced} holds other windows than its name says"):
        ids(disk)


@pytest.mark.parametrize("merged", [False, True])
def test_no_changed_bit_changes_what_is_read(merged: bool, disk: Store) -> None:
    add_snapshots(disk, map(make_snapshot, range(2)))
    if merged:
        list(compact_archive(disk, date(2027, 1, 1)))
    path = disk.files()[0]
    content = disk.open(path).read()
    whole, n_damaged = archived(disk), 0
    for at in range(4, len(content), 61):
        changed = bytearray(content)
        changed[at] ^= 1 << at % 8
        disk.put(path, pa.py_buffer(bytes(changed)))
        try:
            assert archived(disk) == whole
        except HistoryDamaged:
            n_damaged += 1
    assert n_damaged > 20
    disk.put(path, pa.py_buffer(content))
    noted = next(Archive(disk).windows())  # a bit in the number of rows would leave out the last
    with pytest.raises(HistoryDamaged, match=r"cannot be read: it has \d+ rows in place of"):
        Archive(disk).read_message(replace(noted, rows=noted.rows + 1))


def test_files_without_checksums_are_read(disk: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program may write none."""
    writer = pq.ParquetWriter
    without = {"write_page_checksum": False}
    with monkeypatch.context() as other:
        other.setattr(pq, "ParquetWriter", lambda *args, **kw: writer(*args, **kw | without))
        other.setattr(files, "_FOOTER_CRC", b"another")
        add_snapshots(disk, [make_snapshot(0)])
    assert archived(disk) == [encode_snapshot(make_snapshot(0))]


def does_not_answer(_file: pa.NativeFile) -> pa.NativeFile:
    raise OSError("AWS Error NETWORK_CONNECTION")


def lacks_memory(_file: pa.NativeFile) -> pa.NativeFile:
    raise pa.ArrowMemoryError("malloc of size 1 failed")


def is_replaced(file: pa.NativeFile) -> pa.NativeFile:
    """An object store gives the end of the new file where the old one ended."""
    return pa.BufferReader(file.read()[:-9])


@pytest.mark.parametrize(
    ("fault", "n_times", "error"),
    [
        (does_not_answer, 1, None),
        (is_replaced, 1, None),
        (does_not_answer, 99, StoreUnreachable),
        (lacks_memory, 99, MemoryError),
    ],
)
def test_neither_a_store_in_trouble_nor_lack_of_memory_makes_a_file_a_damaged_one(
    fault: Callable[[pa.NativeFile], pa.NativeFile],
    n_times: int,
    error: type[Exception] | None,
    disk: Store,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add_snapshots(disk, [make_snapshot(0)])
    (noted,) = Archive(disk).windows()
    opened, left = Store.open, [0]

    def faulty(store: Store, path: str) -> pa.NativeFile:
        left[0] -= 1
        file = opened(store, path)
        return file if left[0] < 0 else fault(file)

    monkeypatch.setattr(Store, "open", faulty)
    for read in (lambda: ids(disk), lambda: [Archive(disk).read_snapshot(noted).id]):
        left[0] = n_times
        if error is not None:
            with pytest.raises(error, match=r"NETWORK_CONNECTION|malloc of size 1"):
                read()
        else:
            assert read() == [noted.identity.snapshot_id]


def test_an_archive_that_vanishes_is_no_damaged_one(tmp_path: Path, disk: Store) -> None:
    add_snapshots(disk, map(make_snapshot, range(2)))
    first, second = Archive(disk).windows()
    disk.delete(first.path)
    with pytest.raises(HistoryDamaged, match="no longer exists"):
        Archive(disk).read_window(first)
    Path(disk.root).rename(tmp_path / "away")
    with pytest.raises(StoreUnreachable, match="as if its disk were unmounted"):
        Archive(disk).read_window(second)
