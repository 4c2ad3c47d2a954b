"""What goes over the topics is in the archive, each once, whatever happens.

Also with revisions and in merged files: nothing is lost, and the newest is what people get.
"""

from __future__ import annotations

import errno
import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from stream_icd.core.communities import Labels
from stream_icd.core.errors import StoreUnwritable
from stream_icd.core.snapshot import Snapshot
from stream_icd.core.store.store import Store, open_store
from stream_icd.core.store.whole_file import is_aside
from stream_icd.history import archive as archiving
from stream_icd.history import compaction as merging
from stream_icd.history import files
from stream_icd.history.archive import Archive, Selection
from stream_icd.history.archiver import Archiver
from stream_icd.history.compaction import compact_archive
from stream_icd.history.export import export
from stream_icd.history.files import ArchivedWindow, FileKind, read_footer
from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.messages.records import Processed, outgoing
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.topics import SNAPSHOTS, create_topics, messages_topic
from stream_icd.streaming.dead_letters.letters import DeadLetterLimit
from stream_icd.streaming.workers.runner import Runner, run_together
from stream_icd.wire.communities import encode_communities, encode_labels
from stream_icd.wire.message import Message
from stream_icd.wire.snapshots import encode_snapshot
from tests.history.conftest import add_snapshots, archived, make_communities, make_snapshot, run
from tests.testbed.brokers import Broker, wait_until
from tests.testbed.object_store import new_folder
from tests.testbed.starting import kill_and_restart
from tests.testbed.streams import as_read, beside, held, publish

N_KILLED = 20
N_LATE = 5  # sent after the kill: work for the second, however much the first had done by then


@pytest.fixture
def topics(broker: Broker, topic_name: str) -> tuple[str, str]:
    specs = messages_topic(topic_name), messages_topic(f"{topic_name}.found")
    create_topics(broker.settings())
    create_topics(broker.settings(), [letter for s in specs for letter in s.with_dead_letters()])
    return specs[0].name, specs[1].name


@contextmanager
def at_work(broker: Broker, topics: tuple[str, str], store: Store) -> Iterator[list[BaseException]]:
    """An archive at work in the background; yields the errors that ended it."""
    kinds: tuple[FileKind, FileKind] = ("snapshots", "communities")
    consume = partial(run_consumer, broker.settings(), delivery="at-least-once")

    def work(stop: threading.Event) -> None:
        loops = {}
        for topic, kind in zip(topics, kinds, strict=True):
            runner = Runner(Archiver(Archive(store), kind), DeadLetterLimit())
            loops[topic] = partial(consume, topic, f"archive-{topic}", runner, stop)
        run_together(loops, stop)

    with beside(work) as errors:
        yield errors


def sent_to(topic: str, messages: list[Message]) -> list[OutgoingRecord]:
    return [outgoing(topic, message) for message in messages]


@pytest.mark.brokers("memory")
def test_each_message_is_kept_once_and_bad_ones_are_dead_lettered(
    broker: Broker, topics: tuple[str, str], store: Store
) -> None:
    sent = [encode_snapshot(make_snapshot(i)) for i in range(5)]
    found = [encode_communities(make_communities(make_snapshot(i))) for i in range(5)]
    bad = Message(sent[0].key, b"garbage", sent[0].headers)
    publish(broker, sent_to(topics[0], [*sent[:3], bad, *sent]))
    publish(broker, sent_to(topics[1], [*found, *found]))
    both = Selection("snapshots"), Selection("communities")
    with at_work(broker, topics, store) as errors:
        wait_until(
            lambda: errors or [len(archived(store, selection)) for selection in both] == [5, 5]
        )
        wait_until(lambda: errors or held(broker, f"{topics[0]}.dlq"))
    assert errors == []
    (dead,) = held(broker, f"{topics[0]}.dlq")
    assert dead.value == b"garbage"
    assert dict(dead.headers)["icd_dlq_stage"] == b"archive"
    assert [archived(store, selection) for selection in both] == [sent, found]
    assert len(store.files()) == 10


@pytest.mark.brokers("kafka")  # whose own clock decides
def test_the_correction_that_came_last_counts_whatever_the_clock_of_its_producer(
    broker: Broker, topics: tuple[str, str], disk: Store
) -> None:
    sent = [encode_snapshot(make_snapshot(0)), encode_snapshot(make_snapshot(0, weighted=True))]
    now_ms = round(1000 * time.time())
    late = zip(sent_to(topics[0], sent), (now_ms, now_ms - 600_000), strict=True)
    publish(broker, [replace(record, timestamp_ms=at_ms) for record, at_ms in late])
    both = Selection(revisions="all")
    with at_work(broker, topics, disk) as errors:
        wait_until(lambda: errors or len(archived(disk, both)) == 2)
    assert errors == []
    assert archived(disk, both) == sent
    assert archived(disk) == sent[1:]


@pytest.mark.brokers("memory")
def test_a_second_place_with_the_same_group_is_logged(
    broker: Broker, topics: tuple[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in "ab":
        with at_work(broker, topics, open_store(str(tmp_path / name))) as errors:
            pass
        assert errors == []
    assert f"in {tmp_path}/a before" in caplog.text
    assert "another --group" in caplog.text


@pytest.mark.brokers("memory")
def test_a_full_disk_stops_it_and_with_room_again_nothing_is_missing(
    broker: Broker, topics: tuple[str, str], disk: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = [encode_snapshot(make_snapshot(i)) for i in range(3)]
    publish(broker, sent_to(topics[0], sent))
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", MagicMock(side_effect=full))
        with at_work(broker, topics, disk) as errors:
            wait_until(lambda: errors)
    assert isinstance(errors[0], StoreUnwritable)
    assert re.search("No space left on device.*start again", str(errors[0]))
    assert disk.files() == []
    with at_work(broker, topics, disk):
        wait_until(lambda: len(archived(disk)) == 3)
    assert archived(disk) == sent


@pytest.mark.brokers("kafka")
def test_kill_9_of_an_archive(broker: Broker, topic_name: str, tmp_path: Path, s3: str) -> None:
    store, early = open_store(new_folder(s3)), dict[str, bytes]()
    create_topics(broker.settings())
    # A graph of this test's own in the live topics.
    sent = [encode_snapshot(make_snapshot(i, topic_name)) for i in range(N_KILLED)]

    def began() -> None:
        wait_until(lambda: len(archived(store)) >= 5)
        early.update(
            (noted.path, store.open(noted.path).read()) for noted in Archive(store).windows()
        )

    def ended() -> None:
        wait_until(lambda: len(archived(store)) == N_KILLED)

    options, records = (store.uri, "--kind", "snapshots"), sent_to(SNAPSHOTS, sent)
    kill_and_restart(
        broker, topic_name, tmp_path, records, N_LATE, "archive", options, began, ended
    )
    assert archived(store) == sent
    assert all(store.open(path).read() == content for path, content in early.items())
    assert len([path for path in store.files() if path.endswith(".parquet")]) == N_KILLED


TOMORROW = date(2026, 1, 2)


class Killed(BaseException):
    """As `kill -9`: nothing that is written in the program runs after it."""


@pytest.fixture
def day() -> list[Message]:
    """The snapshots of one day, some of them weighted, some with ids of another type."""
    of_ints = [make_snapshot(i, weighted=i % 2 == 0) for i in range(6)]
    return [encode_snapshot(one) for one in [*of_ints, make_snapshot(6, kind=str)]]


def n_rows(store: Store) -> int:
    """As a reader of plain Parquet sees it."""
    files = [path for path in store.files("snapshots") if not is_aside(path)]
    where = {"filesystem": store.filesystem}
    return sum(ds.dataset(f"{store.root}/{path}", **where).count_rows() for path in files)


def fill(store: Store, messages: list[Message]) -> None:
    for message in messages:
        Archive(store).add("snapshots", message)


def test_a_closed_day_becomes_a_file_for_each_type_of_ids(store: Store, day: list[Message]) -> None:
    fill(store, day)
    rows = n_rows(store)
    assert list(compact_archive(store, date(2026, 1, 1))) == []  # the day is not over
    (dry,) = compact_archive(store, TOMORROW, dry_run=True)
    assert len(store.files()) == len(day)
    (done,) = compact_archive(store, TOMORROW)
    assert dry == done
    assert (done.windows, done.files_before, done.files_after) == (7, 7, 2)
    assert len(store.files()) == 2
    assert archived(store) == day
    assert n_rows(store) == rows
    assert list(compact_archive(store, TOMORROW)) == []


def test_what_comes_after_a_merge_is_merged_in_and_nothing_is_archived_twice(
    disk: Store, day: list[Message]
) -> None:
    fill(disk, day[:4])
    noted = list(Archive(disk).windows())
    list(compact_archive(disk, TOMORROW))
    overtaken = [Archive(disk).read_message(window) for window in noted]  # of a reader
    assert overtaken == day[:4]
    before = disk.files()
    assert not Archive(disk).add("snapshots", day[3])
    assert disk.files() == before
    fill(disk, [*day[4:], encode_snapshot(make_snapshot(1, weighted=True))])
    (done,) = compact_archive(disk, TOMORROW)
    assert (done.windows, done.files_before, done.files_after) == (7, 5, 2)  # one is corrected
    assert archived(disk)[2:] == day[2:]


@pytest.mark.parametrize(("limit", "of"), [("_MOST_ROWS", "rows"), ("_MOST_BYTES", "n_bytes")])
def test_files_do_not_grow_without_end(
    disk: Store, day: list[Message], limit: str, of: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(disk, day)
    of_two = 2 * max(getattr(noted, of) for noted in Archive(disk).windows())
    monkeypatch.setattr(f"stream_icd.history.compaction.{limit}", of_two)
    (done,) = compact_archive(disk, TOMORROW)
    assert done.files_after == 4  # three of two windows, and the other ids
    assert archived(disk) == day


# After a call, all is as it is before the next one. In an object store, a call costs much more.
@pytest.mark.parametrize(
    ("store", "n_calls", "when"),
    [
        *(("disk", n, "before") for n in (1, 2, 3, 4, 9)),
        ("disk", 9, "after"),
        ("s3", 3, "before"),  # the first file is deleted
    ],
    indirect=["store"],
)
def test_killed_anywhere_it_goes_on(
    store: Store, day: list[Message], n_calls: int, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store, day)
    rows, left = n_rows(store), [n_calls]

    def dies(do: Callable[..., None]) -> Callable[..., None]:
        def call(*arguments: object) -> None:
            left[0] -= 1
            if left[0] > 0 or when == "after":
                do(*arguments)
            if left[0] == 0:
                raise Killed

        return call

    with monkeypatch.context() as patch:
        for name in ("put", "delete"):
            patch.setattr(Store, name, dies(getattr(Store, name)))
        with pytest.raises(Killed):
            list(compact_archive(store, TOMORROW))
    assert archived(store) == day  # nothing is lost, and nothing is double
    list(compact_archive(open_store(store.uri), TOMORROW))
    assert archived(store) == day
    assert n_rows(store) == rows
    assert len(store.files()) == 2


def test_what_a_killed_writer_left_is_removed_when_its_day_is_over(
    store: Store, day: list[Message]
) -> None:
    fill(store, day)
    folder = store.files()[0].rpartition("/")[0]
    store.put(f"{folder}/_0123.part", pa.py_buffer(b"half of it"))
    assert archived(store) == day
    list(compact_archive(store, TOMORROW))
    assert any(path.endswith(".part") for path in store.files())  # somebody may be at it now
    list(compact_archive(store, date(9999, 1, 1)))
    assert len(store.files()) == 2


def test_a_reader_goes_on_while_merged_files_are_deleted_one_by_one(
    disk: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshots, merged = list(map(make_snapshot, range(20))), list[str]()
    add_snapshots(disk, snapshots)
    with monkeypatch.context() as patch:
        patch.setattr(Store, "delete", lambda _, path: merged.append(path))
        list(compact_archive(disk, TOMORROW))
    merged.sort()

    def slow(of: Store, path: str) -> list[ArchivedWindow]:
        if merged:
            disk.delete(merged.pop(0))
        return read_footer(of, path)

    monkeypatch.setattr(archiving, "read_footer", slow)
    assert archived(disk) == list(map(encode_snapshot, snapshots))


def test_a_revision_that_is_sent_again_during_a_merge_is_the_newest(
    disk: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = [FIRST, SECOND, encode_snapshot(make_snapshot(1))]
    for at, message in enumerate(sent):
        Archive(disk).add("snapshots", message, (at, at))
    merge = merging._merge

    def meanwhile(*arguments: Any) -> None:
        merge(*arguments)
        Archive(disk).add("snapshots", FIRST, (9, 9))

    with monkeypatch.context() as patch:
        patch.setattr(merging, "_merge", meanwhile)
        list(compact_archive(disk, TOMORROW))
    assert archived(disk)[0] == FIRST
    list(compact_archive(disk, TOMORROW))
    assert archived(disk)[0] == FIRST
    assert len(disk.files()) == 1


ONE = make_snapshot(0)
TWO = replace(ONE, edges=ONE.edges[:, 1:])
"""The correction of `ONE`."""
FIRST, SECOND = encode_snapshot(ONE), encode_snapshot(TWO)


def archive(store: Store, kind: FileKind, messages: list[Message]) -> list[str]:
    step = Archiver(Archive(store), kind)
    outcomes = map(step.process, as_read(sent_to("t", messages), first=1))
    return [outcome.event for outcome in outcomes if isinstance(outcome, Processed)]


def contents(store: Store, **selection: Any) -> list[str]:
    noted = Archive(store).windows(Selection(**selection))
    return [Archive(store).read_snapshot(window).content for window in noted]


def test_a_correction_is_kept_beside_what_it_corrects(disk: Store) -> None:
    sent = [FIRST, SECOND, FIRST]
    assert archive(disk, "snapshots", sent) == ["archived", "archived", "archived before"]
    assert contents(disk) == [ONE.content]  # the correction was taken back
    assert contents(disk, revisions="all") == [TWO.content, ONE.content]
    archive(disk, "snapshots", [*sent, SECOND])  # a producer was restarted
    assert contents(disk) == [TWO.content]
    assert contents(disk, revisions="all") == [ONE.content, TWO.content]


@pytest.mark.parametrize(("again", "newest"), [(FIRST, ONE), (SECOND, TWO)])
def test_merging_keeps_revisions_and_which_is_the_newest(
    store: Store, again: Message, newest: Snapshot
) -> None:
    later = make_snapshot(1)
    sent = [FIRST, SECOND, encode_snapshot(later)]
    archive(store, "snapshots", sent)
    list(compact_archive(store, date(2030, 1, 1)))
    assert contents(store, revisions="all") == [ONE.content, TWO.content, later.content]
    archive(store, "snapshots", [*sent, again])
    list(compact_archive(store, date(2030, 1, 1)))
    assert len(store.files()) == 1
    assert contents(store) == [newest.content, later.content]


def without_hash(message: Message) -> Message:
    headers = (header for header in message.headers if header[0] != "icd_content")
    return replace(message, headers=tuple(headers))


def test_a_snapshot_without_a_hash_gets_one(disk: Store) -> None:
    """A producer in another language need not hash."""
    archive(disk, "snapshots", list(map(without_hash, (FIRST, SECOND))))
    (noted,) = Archive(disk).windows()
    assert Archive(disk).read_snapshot(noted) == TWO
    assert dict(noted.headers) == dict(SECOND.headers)


def test_results_and_labels_have_revisions_too(disk: Store) -> None:
    one = make_communities(ONE)
    found = [replace(one, revision=revision, seed=3) for revision in ("", "a", "b")]
    archive(disk, "communities", list(map(encode_communities, found)))
    named = one.graph, one.snapshot_id, one.window, one.nodes
    known = [Labels(*named, labels) for labels in (one.labels, np.zeros_like(one.labels))]
    archive(disk, "labels", list(map(encode_labels, known)))
    (communities,) = Archive(disk).windows(Selection("communities"))
    assert communities.identity.revision == "b"
    (labels,) = Archive(disk).windows(Selection("labels"))
    _, second = Archive(disk).windows(Selection("labels", revisions="all"))
    assert second.identity == labels.identity


def test_people_see_that_there_are_revisions(disk: Store, tmp_path: Path) -> None:
    later = make_snapshot(1)
    archive(disk, "snapshots", [FIRST, SECOND, encode_snapshot(later)])

    heading, row = run("history", "list", disk.root).stdout.splitlines()
    assert heading.split()[-5:-2] == ["windows", "revisions", "rows"]
    assert row.split()[-5:-3] == ["2", "3"]
    lines = run("history", "list", disk.root, "--windows").stdout.splitlines()
    assert [line.split("\t")[-2:] for line in lines] == [
        [ONE.content[:12], "superseded"],
        [TWO.content[:12], "newest"],
        [later.content[:12], "newest"],
    ]
    shown = run("history", "show", disk.root, ONE.id).stdout.replace("}\n{", "},{")
    assert [each["newest"] for each in json.loads(f"[{shown}]")] == [False, True]
    out = tmp_path / "rows.parquet"
    assert export(disk, Selection(), out) < export(disk, Selection(revisions="all"), out)
    assert len(set(pq.read_table(out)["revision"].to_pylist())) == 3


def test_files_of_the_first_layout_are_read_and_are_the_oldest(
    disk: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have no revision and no time in their footers."""
    whole = files._to_json

    def first_layout(noted: ArchivedWindow) -> dict[str, object]:
        return {k: v for k, v in whole(noted).items() if k not in ("revision", "received")}

    with monkeypatch.context() as patch:
        patch.setattr(files, "_to_json", first_layout)
        Archive(disk).add("snapshots", without_hash(FIRST))
    assert contents(disk) == [ONE.content]
    archive(disk, "snapshots", [SECOND])
    assert contents(disk) == [TWO.content]
    assert len(contents(disk, revisions="all")) == 2
