"""Run the page's server on a socket, with room for a limited number of connections."""

from __future__ import annotations

import asyncio
import math
import socket
from types import FrameType
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from stream_icd.core.errors import BadSettings
from stream_icd.interfaces.view.web.app import View

_STOP_S = 2
_MOST_CONNECTIONS = 1000
_IDLE_S = 20.0
"""Time without a request, or without taking what was sent, after which a connection ends."""


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens at this address (port 0: the system chooses).

    Raises:
        BadSettings: the address cannot be used; for example, it is in use.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=256)
    except OSError as error:
        raise BadSettings(
            f"cannot serve the page on {host} port {port}: {error.strerror or error}; give another "
            "--port or --host"
        ) from error


def address(open_socket: socket.socket) -> str:
    """Return the address of the page that is served on a socket."""
    host, port = open_socket.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


def server_of(view: View) -> uvicorn.Server:
    """Return the server of a page."""
    config = uvicorn.Config(
        view.app(),
        http=_PatientForAWhile,
        ws="none",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_graceful_shutdown=_STOP_S,
    )
    return _PageServer(config, view)


class _PageServer(uvicorn.Server):
    """A server that a signal ends without an error in the log.

    Streams of news never end by themselves, and uvicorn logs those that are cut off.
    """

    def __init__(self, config: uvicorn.Config, view: View) -> None:
        super().__init__(config)
        self._view = view

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self._view.fan_out.close_soon()


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
        self._make_room()
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
        there = [other for other in self.connections if not other.transport.is_closing()]
        if self.limit_concurrency is None or len(there) < self.limit_concurrency:
            return
        ours = (other for other in there if isinstance(other, _PatientForAWhile))
        idle = [other for other in ours if other is not self and other._has_no_request()]
        if idle:
            min(idle, key=lambda other: other._made_at).transport.abort()

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
