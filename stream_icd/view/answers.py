"""Answers to questions: computed once for all tabs that ask the same, a few at a time."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from stream_icd.errors import Overloaded
from stream_icd.view.queries import Parameters, Queries

AT_A_TIME = 2
MOST_WAITING = 64
KEPT_BYTES = 32 * 2**20

Key = tuple[str, tuple[tuple[str, str], ...], tuple[int, ...]]


class Answers:
    """Answers of `Queries` as gzip-compressed JSON, remembered until what was seen changes."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries
        self._pool = ThreadPoolExecutor(AT_A_TIME, "view")
        self._running: dict[Key, asyncio.Future[bytes]] = {}
        self._kept: OrderedDict[Key, bytes] = OrderedDict()
        self._bytes = 0
        self.questions: dict[str, Callable[[Parameters], dict[str, Any]]] = {
            "overview": queries.overview,
            "flow": queries.flow,
            "life": queries.life,
            "events": queries.events,
            "map": queries.map,
            "members": queries.members,
            "places": queries.places,
            "nodes": queries.nodes,
            "node": queries.node,
            "compare": queries.compare,
        }

    async def answer(self, question: str, asked: Parameters) -> bytes:
        """Return an answer; a question that is being answered is not asked a second time.

        Raises:
            Overloaded: too many other questions wait.
            StreamIcdError: there is no answer; see `Queries`.
        """
        version = () if question == "overview" else self._queries.version(asked)
        key = question, tuple(sorted(asked.items())), version
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        if key not in self._running:
            if len(self._running) >= MOST_WAITING:
                raise Overloaded("too many questions wait for an answer: try again")
            loop = asyncio.get_running_loop()
            compute = self.questions[question]
            running = loop.run_in_executor(self._pool, lambda: _encoded(compute(asked)))
            running.add_done_callback(lambda done: self._done(key, done))
            self._running[key] = running
        return await asyncio.shield(self._running[key])

    def close(self) -> None:
        """Stop computing."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _done(self, key: Key, done: asyncio.Future[bytes]) -> None:
        self._running.pop(key, None)
        if done.cancelled() or done.exception() is not None or key[0] == "overview":
            return
        self._kept[key] = done.result()
        self._bytes += len(done.result())
        while self._bytes > KEPT_BYTES:
            self._bytes -= len(self._kept.popitem(last=False)[1])


def _encoded(answer: dict[str, Any]) -> bytes:
    text = json.dumps(answer, separators=(",", ":"), allow_nan=False).encode()
    return gzip.compress(text, 3, mtime=0)
