"""Read archives into memory, and look again for what was archived since."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from functools import partial
from itertools import groupby, takewhile
from operator import attrgetter

import structlog

from stream_icd.core.errors import BadInput, StreamIcdError
from stream_icd.core.printable import printable
from stream_icd.core.snapshot import Snapshot
from stream_icd.core.store.store import Store
from stream_icd.history.archive import Archive, Selection, newest
from stream_icd.history.files import ArchivedDay, ArchivedWindow, FileKind, Received, is_compacted
from stream_icd.interfaces.view.data.all_series import AllSeries, Publish
from stream_icd.interfaces.view.data.series import SeenWindow, SeriesName
from stream_icd.interfaces.view.feeds.sources import NoGraph, Sources
from stream_icd.kafka.messages.claims import Content, Decode
from stream_icd.kafka.waiting import in_background
from stream_icd.wire.communities import decode_communities, decode_labels
from stream_icd.wire.limits import Limits

_LOOK_EVERY_S = 5.0
_LOOK_SHARE = 0.05  # looking again at archives takes at most this fraction of the time
_ONE_DAY = timedelta(days=1)


@dataclass(slots=True)
class Archives(Sources):
    """Archives, and every few seconds what was added to them; the page is served meanwhile."""

    archives: dict[str, _Archived]  # by their names on the page
    seen: AllSeries
    _troubles: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        stores: Sequence[Store],
        seen: AllSeries,
        chosen: Selection = Selection(),
        model: str | None = None,
    ) -> Archives:
        """Return archives by a short name: the last folder, or the place if two share that."""
        folders = Counter(store.name for store in stores)
        archives = {}
        for store in stores:
            name = store.name if store.name and folders[store.name] == 1 else store.place
            archives[name] = _Archived(Archive(store), name, chosen, model)
        return cls(archives, seen)

    def reading(self, publish: Publish) -> AbstractContextManager[object]:
        stop = threading.Event()
        return in_background(partial(self._read_again, publish, stop), "view archives", stop)

    def troubles(self) -> dict[str, str]:
        return dict(self._troubles)

    def caught_up(self) -> bool:
        return all(archive.was_read for archive in self.archives.values())

    def _read_again(self, publish: Publish, stop: threading.Event) -> None:
        log = structlog.get_logger()
        while not stop.is_set():
            seconds = 0.0
            for name, archive in self.archives.items():
                is_first, began = not archive.was_read, time.monotonic()
                try:
                    count = archive.read(self.seen, publish, stop.is_set)
                except StreamIcdError as error:
                    if self._troubles.get(name) != str(error):
                        log.warning("cannot read", archive=name, reason=str(error))
                    self._troubles[name] = str(error)
                    continue
                self._troubles.pop(name, None)
                if is_first:  # however long it took, the next look need not wait for it
                    log.info("archive read", archive=name, results=count)
                else:
                    seconds += time.monotonic() - began
            stop.wait(max(_LOOK_EVERY_S, seconds / _LOOK_SHARE))

    def read_snapshot(self, name: SeriesName, window: SeenWindow) -> Snapshot:
        archive, start = self.archives[name.origin].archive, window.result.window.start
        for archived in archive.windows(Selection(graph=window.result.graph, start=start)):
            if archived.identity.snapshot_id == window.result.snapshot_id:
                return archive.read_snapshot(archived)
            if archived.window.start > start:  # windows come in time order
                break
        snapshot = printable(window.result.snapshot_id)
        raise NoGraph(
            f"the archive holds the communities of {snapshot}, not the snapshot itself: give one "
            "with both, as `stream-icd consume archive` writes"
        )


@dataclass(slots=True)
class _Day:
    """What was read of one day: files, and the newest revision of each message."""

    paths: set[str] = field(default_factory=set)
    received: dict[tuple[str, str], Received] = field(default_factory=dict)

    def is_new(self, window: ArchivedWindow) -> bool:
        before = self.received.get(window.identity.name)
        return before is None or before < window.received


@dataclass(slots=True)
class _Archived:
    """An archive to read: all of it, or what is chosen (its kind is not used), of one model."""

    archive: Archive
    origin: str  # its name on the page
    chosen: Selection = field(default_factory=Selection)
    model: str | None = None  # with its version or without
    models: dict[str, None] = field(default_factory=dict)  # of all results, by their first one
    was_read: bool = False  # whether all that was there at first was read
    _days: dict[tuple[FileKind, str], dict[date, _Day]] = field(default_factory=dict)

    def read(self, seen: AllSeries, publish: Publish, stop: Callable[[], bool]) -> int:
        """Add all results, in time order, and known communities; return how many results.

        Later reads add what was archived since, or what a read that failed did not reach: in the
        last two days of each graph, and in later ones. They open only files that are new.

        Raises:
            SourceNotFound: there is no archive yet.
            HistoryDamaged, StoreUnreachable: the archive cannot be read.
        """
        if not self.was_read and not self.archive.store.is_there():
            raise self.archive.nothing_selected(Selection("communities"))
        # Labels first: a result whose labels are there is drawn once, with its agreement.
        for truth in self._decoded(self._new("labels"), decode_labels):
            for changed in seen.know(truth):
                publish(changed)
        count = 0
        until_stop = takewhile(lambda _: not stop(), self._new("communities"))
        for result in self._decoded(until_stop, decode_communities):
            self.models[result.model] = None
            if self.model not in (None, result.model, result.model.rpartition("@")[0]):
                continue
            count += 1
            if (news := seen.add(result, self.origin)) is not None:
                publish(news)
        self.was_read = True
        return count

    def _new(self, kind: FileKind) -> Iterator[ArchivedWindow]:
        """Yield the windows that are new, in time order, newest revisions only."""
        chosen = replace(self.chosen, kind=kind)
        for _, of_day in groupby(self.archive.partitions(chosen), key=attrgetter("day")):
            unread = [window for partition in of_day for window in self._unread(partition, chosen)]
            yield from newest(sorted(unread, key=attrgetter("order")))

    def _decoded(
        self, archived: Iterable[ArchivedWindow], decode: Decode[Content]
    ) -> Iterator[Content]:
        """Yield what messages hold; log those that are none of this kind."""
        limits, log = Limits(), structlog.get_logger()
        for window in archived:
            message = self.archive.read_message(window)
            # Only now: a message that the store failed to give is read at the next look. But before
            # it is decoded: one that cannot be decoded is not read again and again.
            self._note(window)
            try:
                content = decode(message.key, message.value, message.headers, limits)
            except BadInput as error:
                log.warning("not a message of this archive", archive=self.origin, reason=str(error))
            else:
                yield content

    def _note(self, window: ArchivedWindow) -> None:
        """Remember what was read of the last two days of each graph."""
        days = self._days.setdefault((window.partition.kind, window.partition.graph), {})
        day = days.setdefault(window.partition.day, _Day())
        if not is_compacted(window.path):  # which holds more windows, that may be unread
            day.paths.add(window.path)
        day.received[window.identity.name] = window.received
        for past in [past for past in days if max(days) - past > _ONE_DAY]:
            del days[past]

    def _unread(self, partition: ArchivedDay, chosen: Selection) -> list[ArchivedWindow]:
        """Return what is new in a day. A file counts as read when nothing of it is new any more."""
        days = self._days.setdefault((partition.kind, partition.graph), {})
        if days and max(days) - partition.day > _ONE_DAY:
            return []
        day = days.get(partition.day, _Day())
        archived = self.archive.read_partition(partition, of=lambda path: path not in day.paths)
        new = [window for window in archived if chosen.holds(window) and day.is_new(window)]
        # Not of those with new windows: `_note` counts these, after they were read.
        day.paths |= {window.path for window in archived} - {window.path for window in new}
        return new
