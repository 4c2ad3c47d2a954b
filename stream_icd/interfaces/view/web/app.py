"""The page of one process, read-only: files, answers to questions, news as server-sent events.

Each question is computed once for all tabs that ask it. Each tab has a short queue of news, and one
that falls behind is dropped.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import secrets
import sys
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl

from sse_starlette.sse import EventSourceResponse
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from stream_icd.core.errors import Action, Overloaded, StreamIcdError
from stream_icd.core.printable import printable, shortened
from stream_icd.interfaces.view.data.all_series import News
from stream_icd.interfaces.view.data.kept import KeptValues
from stream_icd.interfaces.view.data.series import SeriesName
from stream_icd.interfaces.view.panels.life import life_row
from stream_icd.interfaces.view.panels.queries import BadQuestion, NothingSeen, Parameters, Queries
from stream_icd.interfaces.view.web.page_files import page_files

_PING_S = 15
_MOST_QUERY = 8192  # bytes of a query string
_STATUS = {Action.RETRY: 503, Action.SLOW_DOWN: 503, Action.DEAD_LETTER: 422, Action.STOP: 409}

_AT_A_TIME = 2  # answers from memory
_MOST_WAITING = 64
_KEPT_BYTES = 32 * 2**20
_ENTRY = 200  # bytes of an entry of `KeptValues`
_MOST_TABS = 200
_MOST_NEWS = 256  # messages that may wait for a tab: more than ten seconds of 20 windows a second

_Tab = asyncio.Queue[bytes | None]
"""Messages to send to a connected tab; None ends the connection."""

_Key = tuple[str, tuple[tuple[str, str], ...], tuple[int, ...]]

_SERIES = frozenset(SeriesName._fields)
_SPAN = _SERIES | {"last"}
_WINDOW = _SERIES | {"at"}
_EVENTS = {"kinds", "community", "limit", "lasting", "least_bits"}
_OTHER = {f"other_{name}" for name in _SERIES}

_Compute = Callable[[Queries, Parameters], dict[str, Any]]

_QUESTIONS: dict[str, tuple[_Compute, frozenset[str]]] = {
    "overview": (Queries.overview, _SERIES),
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


class View:
    """The page of one process: queries to answer, and tabs to notify."""

    def __init__(self, queries: Queries) -> None:
        self.queries = queries
        self.answers = _Answers(queries)
        self.fan_out = _FanOut()
        self._instance = secrets.token_hex(8)  # differs from that before a restart

    def publish(self, news: News) -> None:
        """Notify the tabs that show this series of a new or changed window; from any thread."""
        # Encoded here, in the thread of the reader: the event loop serves all tabs.
        self.fan_out.publish(news.name, _event("window", life_row(news.window)))

    def app(self) -> ASGIApp:
        """Return the ASGI application."""
        routes = [
            # Before the questions, whose pattern fits it, too.
            Route("/api/stream", self._stream, methods=["GET"]),
            Route("/api/{question}", self._answer, methods=["GET"]),
            Route("/{path:path}", _file, methods=["GET"]),
        ]
        refusals = {StreamIcdError: _refused}
        return Starlette(routes=routes, exception_handlers=refusals, lifespan=self._running)

    async def _answer(self, request: Request) -> Response:
        question = request.path_params["question"]
        content = await self.answers.answer(question, _query_of(request))
        return _accepted(request, content, "application/json", {"Cache-Control": "no-store"})

    async def _stream(self, request: Request) -> Response:
        query = _query_of(request)
        _check_names(query, _SERIES)
        series = self.queries.name(query)
        if self.fan_out.is_full:
            raise Overloaded(f"{_MOST_TABS} tabs are open: close some")

        async def messages() -> AsyncIterator[bytes]:
            yield _event("hello", {"instance": self._instance})  # from here on the page is live
            async for message in self.fan_out.messages(series):
                yield message
            yield _event("behind", {})

        headers = {"Cache-Control": "no-store"}
        return EventSourceResponse(messages(), ping=_PING_S, headers=headers)

    @asynccontextmanager
    async def _running(self, _: Starlette) -> AsyncIterator[None]:
        self.fan_out.start()
        try:
            yield
        finally:
            self.fan_out.close()
            self.answers.close()


async def _file(request: Request) -> Response:
    file = page_files().get(request.path_params["path"])
    if file is None:
        return PlainTextResponse("there is no such file\n", 404)
    headers = {"ETag": file.tag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == file.tag:
        return Response(status_code=304, headers=headers)
    return _accepted(request, file.compressed, file.kind, headers)


def _event(kind: str, content: object) -> bytes:
    # allow_nan: an error here, rather than in all browsers, which cannot parse NaN.
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    return f"event: {kind}\ndata: {text}\n\n".encode()


def _accepted(request: Request, compressed: bytes, kind: str, headers: dict[str, str]) -> Response:
    """Return what is kept with gzip, decompressed for those who cannot read that."""
    headers["Vary"] = "Accept-Encoding"
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return Response(gzip.decompress(compressed), headers=headers, media_type=kind)
    headers["Content-Encoding"] = "gzip"
    return Response(compressed, headers=headers, media_type=kind)


def _query_of(request: Request) -> dict[str, str]:
    """Return the parameters of a question, if they are not too long, and UTF-8."""
    query: bytes = request.scope["query_string"]
    if len(query) > _MOST_QUERY:
        raise BadQuestion(f"the query has {len(query)} bytes; at most {_MOST_QUERY} are read")
    try:
        pairs = parse_qsl(query.decode("ascii"), errors="strict", max_num_fields=40)
    except ValueError as error:
        raise BadQuestion("the query cannot be read") from error
    return {name: value for name, value in pairs if name != "token"}


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, StreamIcdError)
    status = _STATUS[error.action]
    if isinstance(error, BadQuestion):
        status = 400
    elif isinstance(error, NothingSeen):
        status = 404
    body = json.dumps({"error": printable(shortened(str(error), 1000))})
    headers = {"Cache-Control": "no-store", **({"Retry-After": "1"} if status == 503 else {})}
    return Response(body, status, headers=headers, media_type="application/json")


def _check_names(query: Parameters, parameters: frozenset[str]) -> None:
    """Refuse unknown parameters: each would be another question, computed and kept for itself."""
    if unknown := query.keys() - parameters:
        names = ", ".join(sorted(parameters)) or "none"
        raise BadQuestion(f"{min(unknown)!r:.40} is no parameter of this question; known: {names}")


class _Answers:
    """Answers of `Queries` as gzip-compressed JSON, remembered until what was seen changes."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries
        self._pool = ThreadPoolExecutor(_AT_A_TIME, "view")
        self._reading = ThreadPoolExecutor(1, "view graphs")
        self._running: dict[_Key, asyncio.Future[bytes]] = {}
        self._answers = KeptValues[_Key, bytes](_KEPT_BYTES)

    async def answer(self, question: str, query: Parameters) -> bytes:
        """Return an answer; a question that is being answered is not asked a second time.

        Raises:
            Overloaded: too many other questions wait.
            NothingSeen: there is no such question.
            StreamIcdError: there is no answer; see `Queries`.
        """
        if question not in _QUESTIONS:
            raise NothingSeen("there is no such question")
        compute, parameters = _QUESTIONS[question]
        _check_names(query, parameters)
        # Before the answer: with a later version, an older answer would be kept as if it were new.
        version = () if question == "overview" else self._queries.version(query)
        key = question, tuple(sorted(query.items())), version
        if (content := self._answers.get(key)) is not None:
            return content
        if key not in self._running:
            if len(self._running) >= _MOST_WAITING:
                raise Overloaded("too many questions wait for an answer: try again")
            loop = asyncio.get_running_loop()
            pool = self._reading if question in _OF_GRAPHS else self._pool
            running = loop.run_in_executor(pool, lambda: _encoded(compute(self._queries, query)))
            running.add_done_callback(lambda done: self._done(key, done))
            self._running[key] = running
        # A tab that goes away must not cancel what others wait for.
        return await asyncio.shield(self._running[key])

    def close(self) -> None:
        """Stop computing."""
        for pool in (self._pool, self._reading):
            pool.shutdown(wait=False, cancel_futures=True)

    def _done(self, key: _Key, done: asyncio.Future[bytes]) -> None:
        self._running.pop(key, None)  # in any case: a question that failed may be asked again
        # Each record may change an overview, and no version says so.
        if done.cancelled() or done.exception() is not None or key[0] == "overview":
            return
        self._answers.put(key, done.result(), _bytes_of(key, done.result()))


def _bytes_of(key: _Key, answer: bytes) -> int:
    """Return the bytes of memory of a kept answer with its key, whose names may be long."""
    question, pairs, version = key
    texts = sum(sys.getsizeof(pair) + sum(map(sys.getsizeof, pair)) for pair in pairs)
    return texts + sum(map(sys.getsizeof, (question, pairs, version, key, answer))) + _ENTRY


def _encoded(answer: dict[str, Any]) -> bytes:
    text = json.dumps(answer, separators=(",", ":"), allow_nan=False).encode()
    return gzip.compress(text, 3, mtime=0)


class _FanOut:
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
        return len(self) >= _MOST_TABS

    async def messages(self, series: SeriesName) -> AsyncIterator[bytes]:
        """Connect a tab and yield its messages, until it falls behind or is disconnected.

        There are none if others that asked at the same time took the last places.
        """
        if self.is_full:
            return
        tab = _Tab(_MOST_NEWS + 1)  # one more, so that None always has room
        self._tabs[tab] = series
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
        for tab in [tab for tab, series in self._tabs.items() if series == name]:
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
        del self._tabs[tab]
        # What waits is not sent: the tab asks for everything anew when it connects again.
        while not tab.empty():
            tab.get_nowait()
        tab.put_nowait(None)
