"""A TCP proxy that can fail on demand: it passes connections on, or holds or breaks them."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from typing import Self

HOST = "127.0.0.1"
CHUNK = 1 << 16
PATIENCE_S = 60.0


class Proxy:
    """Forwards connections to `front` on to `back`; a context manager. Ports are on loopback."""

    def __init__(self, front: int, back: int) -> None:
        self._front, self._back = front, back
        self._loop = asyncio.new_event_loop()
        self._flows = asyncio.Event()
        self._links: set[asyncio.Task[None]] = set()
        self._lost: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._loop.call_soon_threadsafe(self._flows.set)
        self._listen()
        return self

    def __exit__(self, *_: object) -> None:
        self._hang_up()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @contextlib.contextmanager
    def refusing(self) -> Iterator[None]:
        """Connections are reset, and new ones refused: as when a firewall says no."""
        self._hang_up()
        yield
        self._listen()

    @contextlib.contextmanager
    def holding(self) -> Iterator[None]:
        """Nothing comes through and no end is notified; afterwards, what was held up arrives."""
        self._loop.call_soon_threadsafe(self._flows.clear)
        yield
        self._loop.call_soon_threadsafe(self._flows.set)

    @contextlib.contextmanager
    def losing(self) -> Iterator[None]:
        """As `holding`, but the connections there are stay half open: they never carry anything
        again, as after a router forgot them. New ones work once the block ends."""
        self._loop.call_soon_threadsafe(self._flows.clear)
        yield
        self._loop.call_soon_threadsafe(lambda: self._lost.update(self._links))
        self._loop.call_soon_threadsafe(self._flows.set)

    def _listen(self) -> None:
        opening = asyncio.start_server(self._link, HOST, self._front)
        self._server = asyncio.run_coroutine_threadsafe(opening, self._loop).result(PATIENCE_S)

    def _hang_up(self) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(PATIENCE_S)

    async def _close(self) -> None:
        self._server.close()
        for link in self._links:
            link.cancel()
        await asyncio.gather(*self._links, return_exceptions=True)

    async def _link(self, near: asyncio.StreamReader, to_near: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._links.add(task)
        try:
            await self._flows.wait()
            far, to_far = await asyncio.open_connection(HOST, self._back)
            try:
                there, back = self._carry(near, to_far, task), self._carry(far, to_near, task)
                async with asyncio.TaskGroup() as both:
                    both.create_task(there)
                    both.create_task(back)
            finally:
                to_far.transport.abort()
        except (OSError, ExceptionGroup, asyncio.CancelledError):
            pass  # either side hung up, or we did
        finally:
            self._links.discard(task)
            self._lost.discard(task)
            to_near.transport.abort()

    async def _carry(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, link: asyncio.Task[None]
    ) -> None:
        while chunk := await source.read(CHUNK):
            await self._flows.wait()
            if link not in self._lost:
                sink.write(chunk)
                await sink.drain()
        raise ConnectionResetError("one side hung up")
