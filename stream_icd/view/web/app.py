"""The page's application, read-only: files, answers to questions, news as server-sent events."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import parse_qsl

from sse_starlette.sse import EventSourceResponse
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from stream_icd.errors import Action, StreamIcdError
from stream_icd.printable import printable, shortened
from stream_icd.view.panels.queries import BadQuestion, NothingSeen
from stream_icd.view.web.answers import SERIES, check_known
from stream_icd.view.web.fan_out import MOST_TABS
from stream_icd.view.web.page_files import page_files
from stream_icd.view.web.server import MOST_QUERY, Asgi, View, event, guarded

PING_S = 15
STATUS = {
    Action.RETRY: 503,
    Action.SLOW_DOWN: 503,
    Action.DEAD_LETTER: 422,
    Action.STOP: 409,
}


def make_app(view: View) -> Asgi:
    """Return the ASGI application."""
    page = _Page(view)
    routes = [
        Route("/api/stream", page.stream, methods=["GET"]),
        Route("/api/{question}", page.answer, methods=["GET"]),
        Route("/{path:path}", page.file, methods=["GET"]),
    ]
    return guarded(Starlette(routes=routes, lifespan=page.running), view.access)


@dataclass(frozen=True, slots=True)
class _Page:
    view: View

    async def file(self, request: Request) -> Response:
        found = page_files().get(request.path_params["path"])
        if found is None:
            return Response("there is no such file\n", 404, media_type="text/plain")
        headers = {"ETag": found.tag, "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == found.tag:
            return Response(status_code=304, headers=headers)
        return _as_asked(request, found.compressed, found.kind, headers)

    async def answer(self, request: Request) -> Response:
        question = request.path_params["question"]
        if question not in self.view.answers.questions:
            return _complaint(404, "there is no such question")
        try:
            asked = _asked(request.scope["query_string"])
            content = await self.view.answers.answer(question, asked)
        except StreamIcdError as error:
            return _complaint(_status(error), str(error))
        return _as_asked(request, content, "application/json", {"Cache-Control": "no-store"})

    async def stream(self, request: Request) -> Response:
        view = self.view
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

    @asynccontextmanager
    async def running(self, _: Starlette) -> AsyncIterator[None]:
        self.view.fan_out.start()
        try:
            yield
        finally:
            self.view.fan_out.close()
            self.view.answers.close()


def _as_asked(request: Request, compressed: bytes, kind: str, headers: dict[str, str]) -> Response:
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
