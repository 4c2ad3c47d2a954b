"""Read archives into memory, and look again for what was archived since."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from itertools import takewhile

import structlog

from stream_icd.errors import BadInput
from stream_icd.history.archive import (
    Selection,
    data_files,
    newest,
    partitions,
    read_message,
    windows,
)
from stream_icd.history.layout import Kind, Partition, Received
from stream_icd.history.parquet import ArchivedWindow, read_footer
from stream_icd.messages.claims import Content, Decode
from stream_icd.store.store import Store
from stream_icd.view.data.all_series import AllSeries, News
from stream_icd.wire.communities import decode_communities, decode_labels
from stream_icd.wire.limits import Limits

ONE_DAY = timedelta(days=1)

Publish = Callable[[News], None]
Stop = Callable[[], bool]


@dataclass(slots=True)
class _Day:
    """What was read of one day: files, and the newest revision of each message's name."""

    paths: set[str] = field(default_factory=set)
    received: dict[tuple[str, str], Received] = field(default_factory=dict)


@dataclass(slots=True)
class Archived:
    """An archive to read.

    Attributes:
        origin: its name on the page.
        graph: only this graph; None for all.
        first, last: windows that begin at `first` or later, and before `last`.
        model: only results of this model, given with its version or without; None: of all.
        models: the models of all results that were read, in the order of their first one.
    """

    store: Store
    origin: str
    graph: str | None = None
    first: datetime | None = None
    last: datetime | None = None
    model: str | None = None
    models: dict[str, None] = field(default_factory=dict)
    _days: dict[tuple[Kind, str], dict[date, _Day]] = field(default_factory=dict)

    def read(self, seen: AllSeries, publish: Publish, stop: Stop) -> int:
        """Add all results, in time order, and their known communities; return how many there were.

        Raises:
            HistoryDamaged, StoreUnreachable: the archive cannot be read.
        """
        self._know(windows(self.store, self._selection("labels")), seen, publish)
        return self._add(windows(self.store, self._selection("communities")), seen, publish, stop)

    def look_again(self, seen: AllSeries, publish: Publish, stop: Stop) -> int:
        """Add what was archived since: in the last two days of each graph, and in later ones.

        Opens only files that are new. Returns the number of results.

        Raises:
            HistoryDamaged, StoreUnreachable: the archive cannot be read.
        """
        self._know(self._later("labels"), seen, publish)
        return self._add(self._later("communities"), seen, publish, stop)

    def _selection(self, kind: Kind) -> Selection:
        return Selection(kind, self.graph, None, self.first, self.last)

    def _know(self, found: Iterable[ArchivedWindow], seen: AllSeries, publish: Publish) -> None:
        for truth in self._decoded(found, decode_labels):
            for news in seen.know(truth):
                publish(news)

    def _add(
        self, found: Iterable[ArchivedWindow], seen: AllSeries, publish: Publish, stop: Stop
    ) -> int:
        count = 0
        for result in self._decoded(takewhile(lambda _: not stop(), found), decode_communities):
            self.models[result.model] = None
            if self.model not in (None, result.model, result.model.rpartition("@")[0]):
                continue
            count += 1
            if (news := seen.add(result, self.origin)) is not None:
                publish(news)
        return count

    def _decoded(
        self, found: Iterable[ArchivedWindow], decode: Decode[Content]
    ) -> Iterator[Content]:
        """Yield what messages hold; log those that are none of this kind."""
        limits = Limits()
        for noted in found:
            message = read_message(self.store, noted)
            self._note(noted)
            try:
                content = decode(message.key, message.value, message.headers, limits)
            except BadInput as error:
                log = structlog.get_logger()
                log.warning("not a message of this archive", archive=self.origin, reason=str(error))
            else:
                yield content

    def _note(self, noted: ArchivedWindow) -> None:
        """Remember what was read of the last two days of each graph."""
        days = self._days.setdefault((noted.partition.kind, noted.partition.graph), {})
        one = days.setdefault(noted.partition.day, _Day())
        one.paths.add(noted.path)
        one.received[noted.identity.name] = noted.received
        for day in [day for day in days if day < max(days) - ONE_DAY]:
            del days[day]

    def _later(self, kind: Kind) -> list[ArchivedWindow]:
        """Return the windows that were archived since, in time order, newest revisions only."""
        chosen = self._selection(kind)
        found = [
            noted
            for partition in partitions(self.store, chosen)
            for noted in self._unread(partition)
            if chosen.holds(noted)
        ]
        return newest(sorted(found, key=lambda noted: noted.order))

    def _unread(self, partition: Partition) -> Iterator[ArchivedWindow]:
        days = self._days.setdefault((partition.kind, partition.graph), {})
        if days and partition.day < max(days) - ONE_DAY:
            return
        day = days.get(partition.day, _Day())
        for path in data_files(self.store, partition):
            if path in day.paths:
                continue
            try:
                found = read_footer(self.store, path)
            except FileNotFoundError:  # merged meanwhile: the merged file is found next time
                continue
            day.paths.add(path)
            for noted in found:
                before = day.received.get(noted.identity.name)
                if before is None or before < noted.received:
                    yield noted
