"""One reader, many tabs: each tab has a short queue, and one that falls behind is dropped."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from stream_icd.view.data.series import SeriesName

MOST_TABS = 200
MOST_WAITING = 256
"""Messages that may wait for a tab: more than ten seconds of 20 windows a second."""

Tab = asyncio.Queue[bytes | None]
"""Messages to send to a connected tab; None ends the connection."""


class FanOut:
    """Gives messages to all tabs; used in one event loop, except `publish`.

    Attributes:
        n_dropped: tabs that fell behind so far.
    """

    def __init__(self) -> None:
        self._tabs: dict[Tab, SeriesName] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self.n_dropped = 0

    def start(self) -> None:
        """Deliver in the running event loop from now on."""
        self._loop = asyncio.get_running_loop()

    def __len__(self) -> int:
        return len(self._tabs)

    @property
    def is_full(self) -> bool:
        return len(self) >= MOST_TABS

    async def messages(self, wanted: SeriesName) -> AsyncIterator[bytes]:
        """Connect a tab and yield its messages, until it falls behind or is disconnected."""
        tab = Tab(MOST_WAITING + 1)
        self._tabs[tab] = wanted
        try:
            while (message := await tab.get()) is not None:
                yield message
        finally:
            self._tabs.pop(tab, None)

    def publish(self, name: SeriesName, message: bytes) -> None:
        """Give a message to the tabs that show this series; from any thread, never waits."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.deliver, name, message)

    def deliver(self, name: SeriesName, message: bytes) -> None:
        """Give a message to the tabs that show this series; a tab with a full queue is dropped."""
        for tab in [tab for tab, wanted in self._tabs.items() if wanted == name]:
            if tab.qsize() < MOST_WAITING:
                tab.put_nowait(message)
            else:
                self.n_dropped += 1
                self._drop(tab)

    def close(self) -> None:
        """End all connections."""
        for tab in list(self._tabs):
            self._drop(tab)

    def _drop(self, tab: Tab) -> None:
        """Forget what waits for a tab, and end its connection."""
        del self._tabs[tab]
        while not tab.empty():
            tab.get_nowait()
        tab.put_nowait(None)
