"""The page of one process, read-only: files, answers to questions, news as server-sent events."""

from __future__ import annotations

import gzip
import json
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import parse_qsl, quote, unquote

from sse_starlette.sse import EventSourceResponse
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stream_icd.core.errors import Action, Overloaded, StreamIcdError
from stream_icd.core.printable import printable, shortened
from stream_icd.interfaces.view.data.all_series import News
from stream_icd.interfaces.view.panels.life import life_row
from stream_icd.interfaces.view.panels.queries import BadQuestion, NothingSeen, Queries
from stream_icd.interfaces.view.web.access import HEADERS, HEALTH, Access, asked_by_this_page
from stream_icd.interfaces.view.web.page_files import page_files
from stream_icd.interfaces.view.web.tabs import MOST_TABS, SERIES, Answers, FanOut, check_known

_PING_S = 15
_MOST_QUERY = 8192
"""Bytes of a query string."""
_STATUS = {Action.RETRY: 503, Action.SLOW_DOWN: 503, Action.DEAD_LETTER: 422, Action.STOP: 409}


class View:
    """The page of one process: queries to answer, and tabs to notify."""

    def __init__(self, queries: Queries, access: Access) -> None:
        self.queries = queries
        self.answers = Answers(queries)
        self.fan_out = FanOut()
        self._access = access
        self._instance = secrets.token_hex(8)  # differs from that before a restart

    def publish(self, news: News) -> None:
        """Notify the tabs that show this series of a new or changed window; from any thread."""
        self.fan_out.publish(news.name, _event("window", life_row(news.window)))

    def app(self) -> ASGIApp:
        """Return the ASGI application."""
        routes = [
            Route("/api/stream", self._stream, methods=["GET"]),
            Route("/api/{question}", self._answer, methods=["GET"]),
            Route("/{path:path}", _file, methods=["GET"]),
        ]
        refusals = {StreamIcdError: _refused}
        app = Starlette(routes=routes, exception_handlers=refusals, lifespan=self._running)
        return _guarded(app, self._access)

    async def _answer(self, request: Request) -> Response:
        question = request.path_params["question"]
        content = await self.answers.answer(question, _asked(request))
        return _as_asked(request, content, "application/json", {"Cache-Control": "no-store"})

    async def _stream(self, request: Request) -> Response:
        asked = _asked(request)
        check_known(asked, SERIES)
        wanted = self.queries.name(asked)
        if self.fan_out.is_full:
            raise Overloaded(f"{MOST_TABS} tabs are open: close some")

        async def messages() -> AsyncIterator[bytes]:
            yield _event("hello", {"instance": self._instance})
            async for message in self.fan_out.messages(wanted):
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


def _guarded(app: ASGIApp, access: Access) -> ASGIApp:
    """Return the application behind its rule of access, with the headers of every response."""

    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        request = Request(scope)
        answer = _answer_of_guard(request, access)
        headers = dict(HEADERS)
        if answer is None and access.token and request.query_params.get("token"):
            headers["Set-Cookie"] = (
                f"{access.cookie}={quote(access.token, safe='')}; HttpOnly; SameSite=Strict; Path=/"
            )

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(headers)
            await send(message)

        await (answer or app)(scope, receive, send_safely)

    return guard


def _answer_of_guard(request: Request, access: Access) -> ASGIApp | None:
    """Return the answer to a request that the application does not get."""
    path, headers = request.scope["path"], request.headers
    if path == HEALTH:
        return PlainTextResponse("ok\n")
    if not access.allows_host(headers.get("host", "")):
        return PlainTextResponse("this server does not answer to that name\n", 421)
    if not asked_by_this_page(path, headers):
        return PlainTextResponse("this server does not answer to pages of other sites\n", 403)
    shown = request.query_params.get("token", ""), unquote(request.cookies.get(access.cookie, ""))
    if not access.allows(*shown):
        return PlainTextResponse("open the address with the token that was printed\n", 403)
    return None


async def _file(request: Request) -> Response:
    file = page_files().get(request.path_params["path"])
    if file is None:
        return PlainTextResponse("there is no such file\n", 404)
    headers = {"ETag": file.tag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == file.tag:
        return Response(status_code=304, headers=headers)
    return _as_asked(request, file.compressed, file.kind, headers)


def _event(kind: str, content: object) -> bytes:
    """Return a server-sent event whose data is JSON."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    return f"event: {kind}\ndata: {text}\n\n".encode()


def _as_asked(request: Request, compressed: bytes, kind: str, headers: dict[str, str]) -> Response:
    """Return what is kept with gzip, decompressed for those who cannot read that."""
    headers["Vary"] = "Accept-Encoding"
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return Response(gzip.decompress(compressed), headers=headers, media_type=kind)
    headers["Content-Encoding"] = "gzip"
    return Response(compressed, headers=headers, media_type=kind)


def _asked(request: Request) -> dict[str, str]:
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
    """Say what is wrong, with the status of such errors."""
    assert isinstance(error, StreamIcdError)
    status = _STATUS[error.action]
    if isinstance(error, BadQuestion):
        status = 400
    elif isinstance(error, NothingSeen):
        status = 404
    body = json.dumps({"error": printable(shortened(str(error), 1000))})
    headers = {"Cache-Control": "no-store", **({"Retry-After": "1"} if status == 503 else {})}
    return Response(body, status, headers=headers, media_type="application/json")
