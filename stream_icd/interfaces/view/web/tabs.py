"""What the tabs get: answers, computed once for all that ask the same, and news.

Each tab has a short queue of news, and one that falls behind is dropped.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from stream_icd.core.errors import Overloaded
from stream_icd.interfaces.view.data.kept import KeptValues
from stream_icd.interfaces.view.data.series import SeriesName
from stream_icd.interfaces.view.panels.queries import BadQuestion, NothingSeen, Parameters, Queries

_AT_A_TIME = 2
"""Answers from memory."""

_MOST_WAITING = 64
_KEPT_BYTES = 32 * 2**20
_ENTRY = 200
"""Bytes of an entry of `KeptValues`."""

MOST_TABS = 200
_MOST_NEWS = 256
"""Messages that may wait for a tab: more than ten seconds of 20 windows a second."""

_Tab = asyncio.Queue[bytes | None]
"""Messages to send to a connected tab; None ends the connection."""

_Key = tuple[str, tuple[tuple[str, str], ...], tuple[int, ...]]

SERIES = frozenset(SeriesName._fields)
_SPAN = SERIES | {"last"}
_WINDOW = SERIES | {"at"}
_EVENTS = {"kinds", "community", "limit", "lasting", "least_bits"}
_OTHER = {f"other_{name}" for name in SERIES}

_Compute = Callable[[Queries, Parameters], dict[str, Any]]

_QUESTIONS: dict[str, tuple[_Compute, frozenset[str]]] = {
    "overview": (Queries.overview, SERIES),
    "flow": (Queries.flow, _SPAN | {"bands", "columns", "follow", "around", "above", "inside"}),
    "life": (Queries.life, _SPAN),
    "events": (Queries.events, _SPAN | _EVENTS),
    "map": (Queries.map, _WINDOW),
    "composition": (Queries.composition, _WINDOW | {"community"}),
    "members": (Queries.members, _WINDOW | {"community", "by"}),
    "legend": (Queries.legend, _WINDOW | {"by"}),
    "places": (Queries.places, _WINDOW | {"by"}),
    "nodes": (Queries.nodes, _WINDOW | {"beginning"}),
    "explain": (Queries.explain, _WINDOW | {"node"}),
    "explain_community": (Queries.explain_community, _WINDOW | {"community"}),
    "node": (Queries.node, _SPAN | {"node"}),
    "compare": (Queries.compare, _SPAN | _OTHER),
}
"""All that the page may ask: how it is answered, and the parameters that it has."""

_OF_GRAPHS = frozenset(("map", "members", "places", "explain", "explain_community"))
"""Questions that read graphs: a broker or a store that does not answer stops only these."""


def check_known(asked: Parameters, known: frozenset[str]) -> None:
    """Refuse unknown parameters: each would be another question, computed and kept for itself."""
    if unknown := asked.keys() - known:
        names = ", ".join(sorted(known)) or "none"
        raise BadQuestion(f"{min(unknown)!r:.40} is no parameter of this question; known: {names}")


class Answers:
    """Answers of `Queries` as gzip-compressed JSON, remembered until what was seen changes."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries
        self._pool = ThreadPoolExecutor(_AT_A_TIME, "view")
        self._reading = ThreadPoolExecutor(1, "view graphs")
        self._running: dict[_Key, asyncio.Future[bytes]] = {}
        self._kept = KeptValues[_Key, bytes](_KEPT_BYTES)

    async def answer(self, question: str, asked: Parameters) -> bytes:
        """Return an answer; a question that is being answered is not asked a second time.

        Raises:
            Overloaded: too many other questions wait.
            NothingSeen: there is no such question.
            StreamIcdError: there is no answer; see `Queries`.
        """
        if question not in _QUESTIONS:
            raise NothingSeen("there is no such question")
        compute, parameters = _QUESTIONS[question]
        check_known(asked, parameters)
        version = () if question == "overview" else self._queries.version(asked)
        key = question, tuple(sorted(asked.items())), version
        if (kept := self._kept.get(key)) is not None:
            return kept
        if key not in self._running:
            if len(self._running) >= _MOST_WAITING:
                raise Overloaded("too many questions wait for an answer: try again")
            loop = asyncio.get_running_loop()
            pool = self._reading if question in _OF_GRAPHS else self._pool
            running = loop.run_in_executor(pool, lambda: _encoded(compute(self._queries, asked)))
            running.add_done_callback(lambda done: self._done(key, done))
            self._running[key] = running
        return await asyncio.shield(self._running[key])

    def close(self) -> None:
        """Stop computing."""
        for pool in (self._pool, self._reading):
            pool.shutdown(wait=False, cancel_futures=True)

    def _done(self, key: _Key, done: asyncio.Future[bytes]) -> None:
        self._running.pop(key, None)
        if done.cancelled() or done.exception() is not None or key[0] == "overview":
            return
        self._kept.put(key, done.result(), _bytes_of(key, done.result()))


def _bytes_of(key: _Key, answer: bytes) -> int:
    """Return the bytes of memory of a kept answer with its key, whose names may be long."""
    question, asked, version = key
    texts = sum(sys.getsizeof(pair) + sum(map(sys.getsizeof, pair)) for pair in asked)
    return texts + sum(map(sys.getsizeof, (question, asked, version, key, answer))) + _ENTRY


def _encoded(answer: dict[str, Any]) -> bytes:
    text = json.dumps(answer, separators=(",", ":"), allow_nan=False).encode()
    return gzip.compress(text, 3, mtime=0)


class FanOut:
    """Gives messages to all tabs; used in one event loop, except `publish`."""

    def __init__(self) -> None:
        self._tabs: dict[_Tab, SeriesName] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self.n_dropped = 0  # tabs that fell behind so far

    def start(self) -> None:
        """Deliver in the running event loop from now on."""
        self._loop = asyncio.get_running_loop()

    def __len__(self) -> int:
        return len(self._tabs)

    @property
    def is_full(self) -> bool:
        return len(self) >= MOST_TABS

    async def messages(self, wanted: SeriesName) -> AsyncIterator[bytes]:
        """Connect a tab and yield its messages, until it falls behind or is disconnected.

        There are none if others that asked at the same time took the last places.
        """
        if self.is_full:
            return
        tab = _Tab(_MOST_NEWS + 1)
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
            if tab.qsize() < _MOST_NEWS:
                tab.put_nowait(message)
            else:
                self.n_dropped += 1
                self._drop(tab)

    def close_soon(self) -> None:
        """End all connections; from any thread or signal handler, never waits."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.close)

    def close(self) -> None:
        """End all connections."""
        for tab in list(self._tabs):
            self._drop(tab)

    def _drop(self, tab: _Tab) -> None:
        """Forget what waits for a tab, and end its connection."""
        del self._tabs[tab]
        while not tab.empty():
            tab.get_nowait()
        tab.put_nowait(None)
