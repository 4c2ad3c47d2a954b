"""An archive that grows while the page is open: what is added is seen, once, and cheaply."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from stream_icd.core.communities import Labels
from stream_icd.core.errors import StoreUnreachable
from stream_icd.core.store.store import Store, open_store
from stream_icd.history import archive
from stream_icd.history.archive import Archive
from stream_icd.history.compaction import compact_archive
from stream_icd.interfaces.view.data.all_series import AllSeries, News
from stream_icd.interfaces.view.feeds import archives
from stream_icd.interfaces.view.feeds.archives import Archives
from stream_icd.wire.communities import encode_communities, encode_labels
from tests.testbed.brokers import wait_until
from tests.testbed.windows import HOUR, START, window

HALVES = [0, 0, 0, 1, 1, 1]


class Page:
    """What a page knows of an archive, and the files that it opened."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen, self.news = AllSeries(), list[News]()
        (self.archive,) = Archives.of([store], self.seen).archives.values()
        self.to = Archive(store)
        self.opened: list[str] = []
        read_footer = archive.read_footer  # type: ignore[attr-defined]

        def noting(store: Store, path: str) -> object:
            self.opened.append(path)
            return read_footer(store, path)

        monkeypatch.setattr(archive, "read_footer", noting)

    def add(self, *hours: int, revision: str = "", received: int = 0) -> None:
        for hour in hours:
            message = encode_communities(window(hour, HALVES, revision=revision))
            self.to.add("communities", message, (received, 0))

    def look(self) -> int:
        return self.archive.read(self.seen, self.news.append, lambda: False)

    def hours(self) -> list[str]:
        (summary,) = self.seen.summaries()
        return [w.result.snapshot_id for w in self.seen.windows(summary.name, 100)]


@pytest.fixture
def page(disk: Store, monkeypatch: pytest.MonkeyPatch) -> Page:
    return Page(disk, monkeypatch)


def test_what_is_added_is_seen_once_and_only_new_files_are_opened(page: Page) -> None:
    page.add(0, 1, 30)
    assert page.look() == 3
    assert page.look() == 0
    page.add(31, 60)
    page.opened.clear()
    assert page.look() == 2
    assert page.look() == 0
    assert len(page.opened) == 2
    assert len(list(compact_archive(page.archive.archive.store, date(2026, 2, 1)))) > 0
    page.add(61)
    assert page.look() == 1, "files that are merged are not seen twice"
    assert page.hours() == ["g/0", "g/1", "g/30", "g/31", "g/60", "g/61"]
    assert page.seen.summaries()[0].late == 0


def test_days_that_are_over_are_not_listed_again(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = (datetime(1, 1, 1, tzinfo=UTC) - START) // HOUR  # as of an unset time
    page.add(first, *range(0, 240, 24))
    assert page.look() == 11
    assert page.look() == 0
    listed, files = list[str](), Store.files

    def noting(store: Store, folder: str = "") -> list[str]:
        listed.append(folder)
        return files(store, folder)

    monkeypatch.setattr(Store, "files", noting)
    page.look()
    assert [folder[-10:] for folder in listed] == ["2026-01-09", "2026-01-10"]


def test_a_correction_replaces_the_newest_window_and_older_revisions_do_not(page: Page) -> None:
    page.add(0)
    page.add(1, revision="old", received=5)
    page.add(1, revision="new", received=9)
    assert page.look() == 2
    assert page.look() == 0
    page.add(1, revision="newer", received=10)
    assert page.look() == 1
    (summary,) = page.seen.summaries()
    assert summary.newest is not None
    assert (summary.newest.result.revision, summary.newest.number) == ("newer", 1)


def fail_at(monkeypatch: pytest.MonkeyPatch, *reads: int) -> None:
    """The store does not answer these reads of messages."""
    read_message, n_reads = Archive.read_message, count()

    def failing(*asked: Any) -> object:
        if next(n_reads) in reads:
            raise StoreUnreachable("the store does not answer")
        return read_message(*asked)

    monkeypatch.setattr(Archive, "read_message", failing)


@pytest.mark.parametrize(
    ("before", "added", "failing", "merged"),
    [
        ([0], [1, 2, 3], (1,), False),
        ([0], [1, 2, 3], (1,), True),
        ([], [0, 30, 60, 90, 120], (3, 4), False),
    ],
)
def test_what_a_store_failed_to_give_is_read_at_the_next_look(
    before: list[int],
    added: list[int],
    failing: tuple[int, ...],
    merged: bool,
    page: Page,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    page.add(*before)
    assert page.archive.archive.store.is_there() == bool(before)
    if before:
        page.look()
    page.add(*added)
    if merged:
        list(compact_archive(page.archive.archive.store, date(2026, 2, 1)))
    fail_at(monkeypatch, *failing)
    for _ in failing:
        with pytest.raises(StoreUnreachable):
            page.look()
    assert page.look() == 2
    assert page.look() == 0
    assert page.hours() == [f"g/{hour}" for hour in (*before, *added)]
    assert page.seen.summaries()[0].late == 0


def test_known_communities_that_come_later_are_noted(page: Page) -> None:
    page.add(0)
    page.look()
    found = window(0, HALVES)
    labels = Labels("g", "g/0", found.window, found.nodes, found.labels, source="s")
    page.to.add("labels", encode_labels(labels))
    page.look()
    assert page.news[-1].window.nmi == 1
    page.to.add("labels", encode_labels(replace(labels, snapshot_id="g/1")))
    page.look()  # of a window that is not there
    assert len(page.news) == 2


def test_a_page_of_an_archive_waits_for_it_grows_and_says_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "_LOOK_EVERY_S", 0.02)
    disk = open_store(str(tmp_path / "later"))
    to, seen, news = Archive(disk), AllSeries(), list[News]()
    page = Archives.of([disk], seen)
    with page.reading(news.append):
        wait_until(lambda: "there is no archive at" in "".join(page.troubles().values()))
        assert not page.caught_up()
        for hour in (0, 1):
            to.add("communities", encode_communities(window(hour, HALVES)))
            wait_until(lambda expected=hour + 1: len(news) == expected)
            assert page.caught_up()
        folder = to.store.files("communities")[0].rpartition("/")[0]
        (Path(disk.root) / folder / "w-bad.parquet").write_bytes(b"no parquet")
        wait_until(lambda: "w-bad.parquet" in "".join(page.troubles().values()))
        disk.delete(f"{folder}/w-bad.parquet")
        wait_until(lambda: not page.troubles())
