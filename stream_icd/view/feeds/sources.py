"""What a page reads from: topics, or archives that may grow; behind one contract."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime

import structlog

from stream_icd.errors import StreamIcdError
from stream_icd.kafka.connect import connect
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.messages.reader import MessageReader
from stream_icd.store.store import Store
from stream_icd.view.data.all_series import AllSeries, Publish
from stream_icd.view.data.snapshots import KeptSnapshots, read_from_archive, read_from_topic
from stream_icd.view.feeds.archived import Archived
from stream_icd.view.feeds.live import Live, Topics

LOOK_EVERY_S = 5.0
LOOK_SHARE = 0.05
"""Looking again at archives takes at most this fraction of the time."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Where a page reads from.

    Attributes:
        snapshots: reads the graphs of windows.
        reading: reads for the duration of its block, and publishes each new window.
        troubles: what is wrong with reading, by topic or archive.
        lag: snapshots that wait for their results; None if that is not known.
        archive: whether these are archives, where nothing is live.
        caught_up: whether all that was there at first was read.
    """

    snapshots: KeptSnapshots
    reading: Callable[[Publish], AbstractContextManager[None]] = lambda _: nullcontext()
    troubles: Callable[[], Mapping[str, str]] = dict
    lag: Callable[[], int | None] = lambda: None
    archive: bool = False
    caught_up: Callable[[], bool] = lambda: True


def topic_sources(
    settings: KafkaSettings,
    topics: Topics,
    seen: AllSeries,
    graph: str | None = None,
    since: datetime | None = None,
) -> Sources:
    """Read topics, for as long as the page is served.

    Raises:
        BrokerUnavailable: no broker answers now; one that goes away later is waited for.
    """
    with connect(settings).admin():
        pass
    reader = MessageReader()
    live = Live(settings, topics, seen, reader, graph, "beginning" if since is None else since)
    return Sources(
        KeptSnapshots(lambda _, one: read_from_topic(settings, topics.snapshots, reader, one)),
        live.reading,
        live.troubles,
        lag=lambda: live.lag.waiting,
        caught_up=live.caught_up,
    )


def archive_sources(
    stores: Sequence[Store],
    seen: AllSeries,
    graph: str | None = None,
    since: datetime | None = None,
) -> Sources:
    """Read archives, and every few seconds what was added; the page is served meanwhile."""
    archives = {
        name: Archived(store, name, graph, since)
        for name, store in zip(names_of(stores), stores, strict=True)
    }
    troubles: dict[str, str] = {}
    stop = threading.Event()
    log = structlog.get_logger()

    def read(publish: Publish) -> None:
        while not stop.is_set():
            seconds = 0.0
            for name, archive in archives.items():
                again, began = archive.was_read, time.monotonic()
                try:
                    count = archive.read(seen, publish, stop.is_set)
                except StreamIcdError as error:
                    if troubles.get(name) != str(error):
                        log.warning("cannot read", archive=name, reason=str(error))
                    troubles[name] = str(error)
                    continue
                troubles.pop(name, None)
                if again:
                    seconds += time.monotonic() - began
                else:
                    log.info("archive read", archive=name, results=count)
            stop.wait(max(LOOK_EVERY_S, seconds / LOOK_SHARE))

    @contextmanager
    def reading(publish: Publish) -> Iterator[None]:
        thread = threading.Thread(target=read, args=(publish,), name="view archives", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    return Sources(
        KeptSnapshots(lambda name, one: read_from_archive(archives[name.origin].store, one)),
        reading,
        lambda: dict(troubles),
        archive=True,
        caught_up=lambda: all(one.was_read for one in archives.values()),
    )


def names_of(stores: Sequence[Store]) -> list[str]:
    """Return a short name for each archive: its last folder, or its place if two share that."""
    short = [store.place.rstrip("/").rpartition("/")[2] or store.place for store in stores]
    return [
        name if short.count(name) == 1 else store.place
        for name, store in zip(short, stores, strict=True)
    ]
