"""The return type of the subscribe functions: an iterator for `for` and for `async for`."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from concurrent.futures import Future
from typing import Any, Self, TypeVar

from stream_icd.kafka.group.worker import Worker

Item = TypeVar("Item")
_END: Any = object()


class Subscription(Iterator[Item], AsyncIterator[Item]):
    """An iterator over new items, with `for` or with `async for`, but not both at a time.

    It connects when the first item is requested. If you leave the loop early, resources are freed
    when the subscription is closed or garbage-collected; a `with` block closes it at its end.
    `async for` waits in a thread: the event loop continues, and a cancelled wait (a timeout) loses
    no item.

    Args:
        open_items: yields the items, until `stop` is set.
    """

    def __init__(
        self, open_items: Callable[[threading.Event], Generator[Item, None, None]]
    ) -> None:
        self._stop = threading.Event()
        self._items = open_items(self._stop)
        self._worker: Worker | None = None
        self._awaited: Future[Item] | None = None

    def __next__(self) -> Item:
        try:
            return next(self._items)
        except ValueError:
            if self._stop.is_set():  # another thread is closing it
                raise StopIteration from None
            raise

    async def __anext__(self) -> Item:
        self._worker = self._worker or Worker("subscription")
        self._awaited = self._awaited or self._worker.submit(next, self._items, _END)
        item = await asyncio.shield(asyncio.wrap_future(self._awaited))
        self._awaited = None
        if item is _END:
            self.close()
            raise StopAsyncIteration
        return item

    def close(self) -> None:
        """Close the subscription: pending requests get no item, and the connection is closed."""
        self._stop.set()
        if self._worker is not None:
            self._worker.submit(self._end)
            self._worker.close()
            self._worker = None
        else:
            self._end()

    def _end(self) -> None:
        with contextlib.suppress(ValueError):  # the generator is running; `stop` ends it
            self._items.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()
