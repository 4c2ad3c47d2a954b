"""Merging small files loses nothing and doubles nothing, whenever it is stopped."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from stream_icd.core.store.store import Store, open_store
from stream_icd.core.store.whole_file import is_aside
from stream_icd.history import archive as merging
from stream_icd.history.archive import Archive, Selection, compact, read_message, windows
from stream_icd.history.files import ArchivedWindow, is_compacted, read_footer
from stream_icd.wire.message import Message
from stream_icd.wire.snapshots import encode_snapshot
from tests.history.conftest import make_snapshot

TOMORROW = date(2026, 1, 2)


class Killed(BaseException):
    """As `kill -9`: nothing that is written in the program runs after it."""


@pytest.fixture
def day() -> list[Message]:
    """The snapshots of one day, some of them weighted, some with ids of another type."""
    of_ints = [make_snapshot(i, weighted=i % 2 == 0) for i in range(6)]
    return [encode_snapshot(one) for one in [*of_ints, make_snapshot(6, kind=str)]]


def archived(store: Store) -> list[Message]:
    return [read_message(store, noted) for noted in windows(store, Selection())]


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
    assert list(compact(store, date(2026, 1, 1))) == []  # the day is not over
    (dry,) = compact(store, TOMORROW, dry_run=True)
    assert len(store.files()) == len(day)
    (done,) = compact(store, TOMORROW)
    assert dry == done
    assert (done.windows, done.files_before, done.files_after) == (7, 7, 2)
    assert len(store.files()) == 2
    assert archived(store) == day
    assert n_rows(store) == rows
    assert list(compact(store, TOMORROW)) == []


def test_what_comes_after_a_merge_is_merged_in_and_nothing_is_archived_twice(
    disk: Store, day: list[Message]
) -> None:
    fill(disk, day[:4])
    noted = list(windows(disk, Selection()))
    list(compact(disk, TOMORROW))
    assert [read_message(disk, window) for window in noted] == day[:4]  # a reader was overtaken
    before = disk.files()
    assert not Archive(disk).add("snapshots", day[3])
    assert disk.files() == before
    fill(disk, [*day[4:], encode_snapshot(make_snapshot(1, weighted=True))])
    (done,) = compact(disk, TOMORROW)
    assert (done.windows, done.files_before, done.files_after) == (7, 5, 2)  # one is corrected
    assert archived(disk)[2:] == day[2:]


@pytest.mark.parametrize(("limit", "of"), [("_MOST_ROWS", "rows"), ("_MOST_BYTES", "n_bytes")])
def test_files_do_not_grow_without_end(
    disk: Store, day: list[Message], limit: str, of: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(disk, day)
    of_two = 2 * max(getattr(noted, of) for noted in windows(disk, Selection()))
    monkeypatch.setattr(f"stream_icd.history.archive.{limit}", of_two)
    (done,) = compact(disk, TOMORROW)
    assert done.files_after == 4  # three of two windows, and the other ids
    assert archived(disk) == day


def test_what_an_archive_knows_of_merged_files_is_forgotten(
    disk: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive, now = Archive(disk), [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    for hour in (0, 30, 60, 31):
        archive.add("snapshots", encode_snapshot(make_snapshot(hour)))
        now[0] += 40
    assert [day.day.day for day in archive._merged] == [3, 2]


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
            if left[0] == 0 and when == "before":
                raise Killed
            do(*arguments)
            if left[0] == 0:
                raise Killed

        return call

    with monkeypatch.context() as patch:
        for name in ("put", "delete"):
            patch.setattr(Store, name, dies(getattr(Store, name)))
        with pytest.raises(Killed):
            list(compact(store, TOMORROW))
    assert archived(store) == day  # nothing is lost, and nothing is double
    list(compact(open_store(store.uri), TOMORROW))
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
    list(compact(store, TOMORROW))
    assert any(path.endswith(".part") for path in store.files())  # somebody may be at it now
    list(compact(store, date(9999, 1, 1)))
    assert len(store.files()) == 2


def test_a_reader_goes_on_while_merged_files_are_deleted_one_by_one(
    disk: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages, merged = [encode_snapshot(make_snapshot(i)) for i in range(20)], list[str]()
    fill(disk, messages)
    with monkeypatch.context() as patch:
        patch.setattr(Store, "delete", lambda _, path: merged.append(path))
        list(compact(disk, TOMORROW))
    merged.sort()

    def slow(of: Store, path: str) -> list[ArchivedWindow]:
        if merged:
            disk.delete(merged.pop(0))
        return read_footer(of, path)

    monkeypatch.setattr("stream_icd.history.archive.read_footer", slow)
    assert archived(disk) == messages


def test_an_archive_that_is_overtaken_by_a_second_merge_goes_on(
    disk: Store, day: list[Message], monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(disk, day[:3])
    list(compact(disk, TOMORROW))
    fill(disk, day[3:])
    overtaken_by = list[int]()

    def overtaken(of: Store, path: str) -> list[ArchivedWindow]:
        if is_compacted(path):
            monkeypatch.undo()
            overtaken_by.extend(done.windows for done in compact(disk, TOMORROW))
        return read_footer(of, path)

    monkeypatch.setattr("stream_icd.history.archive.read_footer", overtaken)
    assert not Archive(disk).add("snapshots", day[0])
    assert overtaken_by == [7]


def test_a_revision_that_is_sent_again_during_a_merge_is_the_newest(
    disk: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (
        encode_snapshot(make_snapshot(0, weighted=weighted)) for weighted in (False, True)
    )
    for time, message in enumerate(
        (first, second, encode_snapshot(make_snapshot(1, weighted=True)))
    ):
        Archive(disk).add("snapshots", message, (time, time))
    merge = merging._merge

    def meanwhile(*arguments: Any) -> None:
        merge(*arguments)
        Archive(disk).add("snapshots", first, (9, 9))

    monkeypatch.setattr(merging, "_merge", meanwhile)
    list(compact(disk, TOMORROW))
    assert archived(disk)[0] == first
    monkeypatch.undo()
    list(compact(disk, TOMORROW))
    assert archived(disk)[0] == first
    assert len(disk.files()) == 1
