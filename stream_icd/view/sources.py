"""What a page reads from: topics for ever, or archives once; behind one contract."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime

import structlog

from stream_icd.errors import StreamIcdError
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.messages.reader import MessageReader
from stream_icd.store.store import Store
from stream_icd.view.all_series import AllSeries, News
from stream_icd.view.archived import Archived
from stream_icd.view.live import Live, Topics
from stream_icd.view.snapshots import ArchivedSnapshots, KeptSnapshots, TopicSnapshots

Publish = Callable[[News], None]


@dataclass(frozen=True, slots=True)
class Sources:
    """Where a page reads from.

    Attributes:
        reading: reads for the duration of its block, and publishes each new window.
        snapshots: reads the graphs of windows.
        troubles: what is wrong with reading, by topic or archive.
        lag: snapshots that wait for their results; None if that is not known.
    """

    reading: Callable[[Publish], AbstractContextManager[None]]
    snapshots: KeptSnapshots
    troubles: Callable[[], Mapping[str, str]]
    lag: Callable[[], int | None]


def topic_sources(
    settings: KafkaSettings,
    topics: Topics,
    seen: AllSeries,
    graph: str | None = None,
    since: datetime | None = None,
) -> Sources:
    """Read topics, for as long as the page is served."""
    reader = MessageReader()
    live = Live(settings, topics, seen, reader, graph, "beginning" if since is None else since)
    snapshots = TopicSnapshots(settings, topics.snapshots, reader)

    @contextmanager
    def reading(publish: Publish) -> Iterator[None]:
        live.begin(publish)
        try:
            yield
        finally:
            live.end()

    return Sources(
        reading, KeptSnapshots(lambda _: snapshots), live.troubles, lambda: live.lag.waiting
    )


def archive_sources(
    stores: Sequence[Store],
    seen: AllSeries,
    graph: str | None = None,
    since: datetime | None = None,
) -> Sources:
    """Read archives once; the page is served while they are read."""
    archives = {
        name: Archived(store, name, graph, since)
        for name, store in zip(names_of(stores), stores, strict=True)
    }
    troubles: dict[str, str] = {}
    stop = threading.Event()

    def read(publish: Publish) -> None:
        for name, archive in archives.items():
            try:
                count = archive.read(seen, publish, stop.is_set)
                structlog.get_logger().info("archive read", archive=name, results=count)
            except StreamIcdError as error:
                troubles[name] = str(error)
                structlog.get_logger().warning("cannot read", archive=name, reason=str(error))

    @contextmanager
    def reading(publish: Publish) -> Iterator[None]:
        thread = threading.Thread(target=read, args=(publish,), name="view archives", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    kept = KeptSnapshots(lambda name: ArchivedSnapshots(archives[name.origin].store))
    return Sources(reading, kept, lambda: dict(troubles), lambda: None)


def names_of(stores: Sequence[Store]) -> list[str]:
    """Return a short name for each archive: its last folder, or its place if two share that."""
    short = [store.place.rstrip("/").rpartition("/")[2] or store.place for store in stores]
    return [
        name if short.count(name) == 1 else store.place
        for name, store in zip(short, stores, strict=True)
    ]
