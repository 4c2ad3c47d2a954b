"""Read archives into memory, once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import structlog

from stream_icd.errors import BadInput
from stream_icd.history.archive import Selection, read_message, windows
from stream_icd.store.store import Store
from stream_icd.view.all_series import AllSeries, News
from stream_icd.wire.communities import decode_communities, decode_labels
from stream_icd.wire.limits import Limits


@dataclass(frozen=True, slots=True)
class Archived:
    """An archive to read.

    Attributes:
        origin: its name on the page.
        graph: only this graph; None for all.
        first, last: windows that begin at `first` or later, and before `last`.
    """

    store: Store
    origin: str
    graph: str | None = None
    first: datetime | None = None
    last: datetime | None = None

    def read(
        self, seen: AllSeries, publish: Callable[[News], None], stop: Callable[[], bool]
    ) -> int:
        """Add all results, in time order, and their known communities; return how many there were.

        Raises:
            HistoryDamaged, StoreUnreachable: the archive cannot be read.
        """
        limits, count = Limits(), 0
        selection = Selection("labels", self.graph, None, self.first, self.last)
        for noted in windows(self.store, selection):
            message = read_message(self.store, noted)
            try:
                seen.know(decode_labels(message.key, message.value, message.headers, limits))
            except BadInput as error:
                self._complain(error)
        selection = Selection("communities", self.graph, None, self.first, self.last)
        for noted in windows(self.store, selection):
            if stop():
                break
            message = read_message(self.store, noted)
            try:
                found = decode_communities(message.key, message.value, message.headers, limits)
            except BadInput as error:
                self._complain(error)
                continue
            count += 1
            if (news := seen.add(found, self.origin)) is not None:
                publish(news)
        return count

    def _complain(self, error: BadInput) -> None:
        structlog.get_logger().warning(
            "not a message of this archive", archive=self.origin, reason=str(error)
        )
