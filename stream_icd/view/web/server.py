"""The page's server: files, answers to questions, and news as server-sent events. Read-only."""

from __future__ import annotations

import gzip
import json
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl

from stream_icd.errors import Action, StreamIcdError
from stream_icd.extras import needs_extra
from stream_icd.printable import printable, shortened
from stream_icd.view.data.all_series import News
from stream_icd.view.panels.life import life_row
from stream_icd.view.panels.queries import BadQuestion, NothingSeen, Queries
from stream_icd.view.web.access import COOKIE, HEADERS, Access, asked_by_this_page
from stream_icd.view.web.answers import SERIES, Answers, check_known
from stream_icd.view.web.fan_out import MOST_TABS, FanOut
from stream_icd.view.web.page_files import page_files

MOST_QUERY = 8192
"""Bytes of a query string."""
PING_S = 15
HEALTH = "/healthz"
"""Tells anybody, without a token and under any name, that the server answers: for probes."""
STATUS = {
    Action.RETRY: 503,
    Action.SLOW_DOWN: 503,
    Action.DEAD_LETTER: 422,
    Action.STOP: 409,
}

Scope = Any
Asgi = Any


class View:
    """The page of one process: queries to answer, and tabs to notify.

    Attributes:
        instance: differs from that of the process before a restart.
    """

    def __init__(self, queries: Queries, access: Access) -> None:
        self.queries = queries
        self.answers = Answers(queries)
        self.access = access
        self.fan_out = FanOut()
        self.instance = secrets.token_hex(8)

    def publish(self, news: News) -> None:
        """Notify the tabs that show this series of a new or changed window; from any thread."""
        self.fan_out.publish(news.name, event("window", life_row(news.window)))


def event(kind: str, content: object) -> bytes:
    """Return a server-sent event whose data is JSON."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    return f"event: {kind}\ndata: {text}\n\n".encode()


def make_app(view: View) -> Asgi:
    """Return the ASGI application.

    Raises:
        MissingExtra: starlette is not installed; the message says how.
    """
    with needs_extra("view", "starlette"):
        from starlette.applications import Starlette
        from starlette.requests import Request
        from starlette.responses import Response
        from starlette.routing import Route
    with needs_extra("view", "sse_starlette"):
        from sse_starlette.sse import EventSourceResponse

    answers = view.answers

    async def page(request: Request) -> Response:
        found = page_files().get(request.path_params["path"])
        if found is None:
            return Response("there is no such file\n", 404, media_type="text/plain")
        headers = {"ETag": found.tag, "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == found.tag:
            return Response(status_code=304, headers=headers)
        return _as_asked(request, found.compressed, found.kind, headers)

    async def answer(request: Request) -> Response:
        question = request.path_params["question"]
        if question not in answers.questions:
            return _complaint(404, "there is no such question")
        try:
            asked = _asked(request.scope["query_string"])
            content = await answers.answer(question, asked)
        except StreamIcdError as error:
            return _complaint(_status(error), str(error))
        return _as_asked(request, content, "application/json", {"Cache-Control": "no-store"})

    async def stream(request: Request) -> Response:
        try:
            asked = _asked(request.scope["query_string"])
            check_known(asked, SERIES)
            wanted = view.queries.name(asked)
        except StreamIcdError as error:
            return _complaint(_status(error), str(error))
        if view.fan_out.is_full:
            return _complaint(503, f"{MOST_TABS} tabs are open: close some")

        async def messages() -> AsyncIterator[bytes]:
            yield event("hello", {"instance": view.instance})
            async for message in view.fan_out.messages(wanted):
                yield message
            yield event("behind", {})

        headers = {"Cache-Control": "no-store"}
        return EventSourceResponse(messages(), ping=PING_S, headers=headers)

    def _as_asked(
        request: Request, compressed: bytes, kind: str, headers: dict[str, str]
    ) -> Response:
        """Return what is kept with gzip, decompressed for those who cannot read that."""
        headers["Vary"] = "Accept-Encoding"
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return Response(gzip.decompress(compressed), headers=headers, media_type=kind)
        headers["Content-Encoding"] = "gzip"
        return Response(compressed, headers=headers, media_type=kind)

    def _complaint(status: int, message: str) -> Response:
        body = json.dumps({"error": printable(shortened(message, 1000))})
        headers = {"Cache-Control": "no-store", **({"Retry-After": "1"} if status == 503 else {})}
        return Response(body, status, headers=headers, media_type="application/json")

    @asynccontextmanager
    async def running(_: Starlette) -> AsyncIterator[None]:
        view.fan_out.start()
        try:
            yield
        finally:
            view.fan_out.close()
            answers.close()

    routes = [
        Route("/api/stream", stream, methods=["GET"]),
        Route("/api/{question}", answer, methods=["GET"]),
        Route("/{path:path}", page, methods=["GET"]),
    ]
    return guarded(Starlette(routes=routes, lifespan=running), view.access)


def guarded(app: Asgi, access: Access) -> Asgi:
    """Return the application behind its rule of access, with the headers of every response."""
    always = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
    keep = f"{COOKIE}={access.token}; HttpOnly; SameSite=Strict; Path=/".encode()

    async def guard(scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        given = {name: value.decode("latin-1") for name, value in scope["headers"]}
        shown = _shown_tokens(scope["query_string"], given.get(b"cookie", ""))
        site, mode = (given.get(name, "") for name in (b"sec-fetch-site", b"sec-fetch-mode"))
        accepted = access.token and shown[0] and scope["path"] != HEALTH
        added = [*always, (b"set-cookie", keep)] if accepted else always

        async def send_safely(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *added]
            await send(message)

        if scope["path"] == HEALTH:
            await _plain(send_safely, 200, "ok")
        elif not access.allows_host(given.get(b"host", "")):
            await _plain(send_safely, 421, "this server does not answer to that name")
        elif not asked_by_this_page(site, mode, scope["path"]):
            await _plain(send_safely, 403, "this server does not answer to pages of other sites")
        elif not access.allows(shown):
            added = always
            await _plain(send_safely, 403, "open the address with the token that was printed")
        else:
            await app(scope, receive, send_safely)

    return guard


async def _plain(send: Any, status: int, text: str) -> None:
    head = [(b"content-type", b"text/plain; charset=utf-8")]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": f"{text}\n".encode()})


def _shown_tokens(query: bytes, cookies: str) -> tuple[str, ...]:
    """Return the tokens that a request shows: in its address, and in the page's cookie."""
    in_address = dict(parse_qsl(query[:MOST_QUERY].decode("latin-1"))).get("token", "")
    try:
        kept = SimpleCookie(cookies).get(COOKIE)
    except CookieError:
        kept = None
    return in_address, "" if kept is None else kept.value


def _asked(query: bytes) -> dict[str, str]:
    """Return the parameters of a question.

    Raises:
        BadQuestion: they are too long, or not UTF-8.
    """
    if len(query) > MOST_QUERY:
        raise BadQuestion(f"the query has {len(query)} bytes; at most {MOST_QUERY} are read")
    try:
        pairs = parse_qsl(query.decode("ascii"), errors="strict", max_num_fields=40)
    except ValueError as error:
        raise BadQuestion("the query cannot be read") from error
    return {name: value for name, value in pairs if name != "token"}


def _status(error: StreamIcdError) -> int:
    if isinstance(error, BadQuestion):
        return 400
    return 404 if isinstance(error, NothingSeen) else STATUS[error.action]
