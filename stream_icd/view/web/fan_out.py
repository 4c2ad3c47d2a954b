"""One reader, many tabs: each tab has a short queue, and one that falls behind is dropped."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from stream_icd.view.data.series import SeriesName

MOST_TABS = 200
MOST_WAITING = 256
"""Messages that may wait for a tab: more than ten seconds of 20 windows a second."""


@dataclass(slots=True, eq=False)
class Tab:
    """A connected tab: the series that it shows, and the messages to send; None ends it."""

    wanted: SeriesName
    queue: asyncio.Queue[bytes | None] = field(
        default_factory=lambda: asyncio.Queue(MOST_WAITING + 1)
    )
    dropped: bool = False

    def drop(self) -> None:
        """Forget what waits, and end the connection."""
        self.dropped = True
        while not self.queue.empty():
            self.queue.get_nowait()
        self.queue.put_nowait(None)


class FanOut:
    """Gives messages to all tabs; used in one event loop, except `publish`.

    Attributes:
        n_dropped: tabs that fell behind so far.
    """

    def __init__(self) -> None:
        self._tabs: set[Tab] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.n_dropped = 0

    def start(self) -> None:
        """Deliver in the running event loop from now on."""
        self._loop = asyncio.get_running_loop()

    def __len__(self) -> int:
        return len(self._tabs)

    @property
    def is_full(self) -> bool:
        """Whether no further tab can connect."""
        return len(self._tabs) >= MOST_TABS

    async def messages(self, wanted: SeriesName) -> AsyncIterator[bytes]:
        """Connect a tab and yield its messages, until it falls behind or is disconnected."""
        tab = Tab(wanted)
        self._tabs.add(tab)
        try:
            while (message := await tab.queue.get()) is not None:
                yield message
        finally:
            self._tabs.discard(tab)

    def publish(self, name: SeriesName, message: bytes) -> None:
        """Give a message to the tabs that show this series; from any thread, never waits."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.deliver, name, message)

    def deliver(self, name: SeriesName, message: bytes) -> None:
        """Give a message to the tabs that show this series; a tab with a full queue is dropped."""
        for tab in self._tabs:
            if tab.dropped or tab.wanted != name:
                continue
            if tab.queue.qsize() >= MOST_WAITING:
                self.n_dropped += 1
                tab.drop()
            else:
                tab.queue.put_nowait(message)

    def close(self) -> None:
        """End all connections."""
        for tab in self._tabs:
            tab.drop()
