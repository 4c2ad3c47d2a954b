"""The page of one process, and what stands before every answer: who may ask, safe headers."""

from __future__ import annotations

import json
import secrets
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl

from stream_icd.view.data.all_series import News
from stream_icd.view.panels.life import life_row
from stream_icd.view.panels.queries import Queries
from stream_icd.view.web.access import COOKIE, HEADERS, Access, asked_by_this_page
from stream_icd.view.web.answers import Answers
from stream_icd.view.web.fan_out import FanOut

MOST_QUERY = 8192
"""Bytes of a query string."""
HEALTH = "/healthz"
"""Tells anybody, without a token and under any name, that the server answers: for probes."""

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
