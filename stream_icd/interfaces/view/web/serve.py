"""Serve the page: who may open it, what a browser may do, and a limited number of connections."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import math
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from types import FrameType
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import h11
import uvicorn
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from stream_icd.core.errors import BadSettings
from stream_icd.interfaces.view.web.app import View

HEALTH = "/healthz"
"""Tells anybody, without a token and under any name, that the server answers: for probes."""

_HEADERS: Mapping[str, str] = {
    # Everything comes from this server; no inline script or style, no frame, no form.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

_STOP_S = 2
_MOST_CONNECTIONS = 1000
_IDLE_S = 20.0
"""Time without a request, or without taking what was sent, after which a connection ends."""


@dataclass(frozen=True, slots=True)
class Access:
    """The rule of access.

    A page of another site can resolve its own name to 127.0.0.1 (DNS rebinding); the browser then
    says that name. So without a token, a request must address one of `hosts`.
    """

    hosts: frozenset[str] | None  # None: any
    token: str | None = None  # what a request must show; None: nothing

    @property
    def cookie(self) -> str:
        """The name of the cookie that holds the token.

        A browser shows its cookies to all ports of a machine, so each token has a name of its own.
        """
        return f"stream_icd_view_{hashlib.sha256((self.token or '').encode()).hexdigest()[:12]}"

    @classmethod
    def at(cls, host: str, token: str | None = None, *, no_token: bool = False) -> Access:
        """Return the rule for a server that listens at this address; other machines need a token.

        Args:
            token: None: a new one where one is needed.
            no_token: ask nobody for a token; requests must address this machine as `localhost`.

        Raises:
            BadSettings: there is a token that is not asked for.
        """
        if no_token and token is not None:
            raise BadSettings("give either --token or --no-token")
        if token == "":
            raise BadSettings("the token is empty: leave it out for a new one, or give --no-token")
        if no_token or (token is None and _is_loopback(host)):
            return cls(frozenset({"localhost", "127.0.0.1", "::1", host}))
        return cls(None, token or secrets.token_urlsafe(16))

    def allows_host(self, header: str) -> bool:
        """Whether a request with this Host header is for us."""
        if self.hosts is None:
            return True
        try:
            return (urlsplit(f"//{header}").hostname or "") in self.hosts
        except ValueError:
            return False

    def allows(self, text: str) -> bool:
        """Whether this is the token; in constant time, which tells nobody how much of it fits."""
        return self.token is None or hmac.compare_digest(text.encode(), self.token.encode())


class PageServer(uvicorn.Server):
    """The server of a page, listening from its birth; a signal ends it without an error in the log.

    Streams of news never end by themselves, and uvicorn logs those that are cut off.

    Raises:
        BadSettings: the address cannot be used; for example, it is in use.
    """

    def __init__(self, view: View, access: Access, host: str, port: int) -> None:
        super().__init__(
            uvicorn.Config(
                _guarded(view.app(), access),
                http=_PatientForAWhile,
                ws="none",
                log_config=None,  # that of `configure_logging` stays
                log_level="warning",
                access_log=False,
                server_header=False,
                limit_concurrency=_MOST_CONNECTIONS,
                timeout_graceful_shutdown=_STOP_S,
            )
        )
        self._view = view
        try:  # now, not in `serve_page`: the command prints the address before it serves
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
            self._socket = socket.create_server((host, port), family=family, backlog=256)
        except OSError as error:
            raise BadSettings(
                f"cannot serve the page on {host} port {port}: {error.strerror or error}; give "
                "another --port or --host"
            ) from error

    @property
    def address(self) -> str:
        host, port = self._socket.getsockname()[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}/"

    def serve_page(self) -> None:
        """Serve until a signal, or until `should_exit`."""
        with self._socket:
            self.run(sockets=[self._socket])

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        # Else uvicorn waits for the streams, cuts them off, and logs an error for each.
        self._view.fan_out.close_soon()


def _guarded(app: ASGIApp, access: Access) -> ASGIApp:
    """Return the application behind its rule of access, with the headers of every response."""

    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        request = Request(scope)
        answer = _answer_of_guard(request, access)
        headers = dict(_HEADERS)
        # After the rule: a wrong token, or a page of another site, sets no cookie.
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
    if path == HEALTH:  # before any rule: a probe has no token, and asks under any name
        return PlainTextResponse("ok\n")
    if not access.allows_host(headers.get("host", "")):
        return PlainTextResponse("this server does not answer to that name\n", 421)
    if not _asked_by_this_page(path, headers):
        return PlainTextResponse("this server does not answer to pages of other sites\n", 403)
    cookie = unquote(request.cookies.get(access.cookie, ""))
    if not (access.allows(request.query_params.get("token", "")) or access.allows(cookie)):
        return PlainTextResponse("open the address with the token that was printed\n", 403)
    return None


def _asked_by_this_page(path: str, headers: Mapping[str, str]) -> bool:
    """Whether a request comes from the page, from somebody who opens it, or from no browser.

    Browsers say whose page asks. Another site's, or that of another port of this machine, may link
    to the page, and no more: it must not make this process compute and keep answers.
    """
    if headers.get("sec-fetch-site", "") in ("", "none", "same-origin"):
        return True
    return headers.get("sec-fetch-mode") == "navigate" and path == "/"


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


class _PatientForAWhile(H11Protocol):
    """Ends a connection that is not used, and the oldest of these where there are too many.

    uvicorn itself waits for ever for the first request, for the rest of a request that has begun,
    and for a client that does not take its answer.
    """

    _looking: asyncio.TimerHandle | None = None
    _unsent: float = math.inf
    _made_at: float = 0.0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._made_at = self.loop.time()
        self._make_room()  # after `super`, which adds this one to those that are counted
        self._look_later()

    def send_400_response(self, msg: str) -> None:
        """Answer in place of the application, or end the connection if that has begun to."""
        if self.cycle is not None:
            self.cycle.disconnected = True  # else an answer after this one is an error in the log
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.abort()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._unsent = math.inf
        self._look_later()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_looking()

    def _make_room(self) -> None:
        """End the oldest connection without a request if no further one would be answered."""
        open_ones = [peer for peer in self.connections if not peer.transport.is_closing()]
        if self.limit_concurrency is None or len(open_ones) < self.limit_concurrency:
            return
        peers = (peer for peer in open_ones if isinstance(peer, _PatientForAWhile))
        idle = [peer for peer in peers if peer is not self and peer._has_no_request()]
        if idle:
            min(idle, key=lambda peer: peer._made_at).transport.abort()

    def _has_no_request(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _look_later(self) -> None:
        self._stop_looking()
        self._looking = self.loop.call_later(_IDLE_S, self._look)

    def _stop_looking(self) -> None:
        if self._looking is not None:
            self._looking.cancel()

    def _look(self) -> None:
        before, self._unsent = self._unsent, self.transport.get_write_buffer_size()
        if (self._unsent >= before) if self._unsent else self._has_no_request():
            self.transport.abort()  # closing would wait until all that was sent is taken
        else:  # an answer that is computed or on its way, or a stream of news
            self._look_later()
