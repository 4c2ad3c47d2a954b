"""The HTTP server of a program: /metrics, /healthz, /readyz."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from socket import AF_INET6, SHUT_RDWR
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import structlog
from prometheus_client import make_wsgi_app

from stream_icd.core.errors import BadSettings
from stream_icd.streaming.metrics.metrics import Metrics
from stream_icd.streaming.metrics.programs import RoundsMetrics, SendingMetrics

_Start = Callable[[str, list[tuple[str, str]]], Any]
_Respond = Callable[[dict[str, Any], _Start], Iterable[bytes]]
_Served = Metrics | RoundsMetrics | SendingMetrics

_REQUEST_TIMEOUT_S = 10.0
_MOST_CONNECTIONS = 50


@contextmanager
def serving(metrics: _Served, port: int, host: str = "127.0.0.1") -> Iterator[int]:
    """Serve on this port for the duration of the block; give the port (0: the system chooses).

    Raises:
        BadSettings: the port cannot be served; for example, it is in use.
    """
    if not host:  # to a socket, it would be all addresses
        raise BadSettings("--metrics-host is empty: give an address, or omit it")
    kind = _ServerOnIPv6 if ":" in host else _Server
    try:
        server = make_server(host, port, _responding(metrics), kind, _Handler)
    except OSError as error:
        raise BadSettings(
            f"cannot serve metrics on {host} port {port}: {error.strerror}; give another "
            "--metrics-port or --metrics-host"
        ) from error
    # A daemon: it never keeps a program from ending.
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    structlog.get_logger().info("metrics", host=host, port=server.server_port)
    try:
        yield server.server_port
    finally:
        server.shutdown()  # before its socket is closed, on which its thread waits
        server.server_close()


def _responding(metrics: _Served) -> _Respond:
    """Return the responses: metrics, liveness and readiness (503: one line for each problem).
    `/healthz` also lists the jobs in progress, one per line."""
    health = metrics.health
    answers: dict[str, _Respond] = {
        "/metrics": make_wsgi_app(metrics.registry),
        "/healthz": _verdict(health.not_alive, health.in_hand_lines),
        "/readyz": _verdict(lambda: health.not_alive() + health.not_ready()),
    }

    def respond(environ: dict[str, Any], start: _Start) -> Iterable[bytes]:
        environ.pop("HTTP_ACCEPT", None)  # some of its values are an error of prometheus_client
        if (answer := answers.get(environ["PATH_INFO"])) is not None:
            return answer(environ, start)
        return _text(start, "404 Not Found", ["there are /metrics, /healthz and /readyz"])

    return respond


def _verdict(
    complaints: Callable[[], list[str]], remarks: Callable[[], list[str]] = list
) -> _Respond:
    def respond(_: dict[str, Any], start: _Start) -> Iterable[bytes]:
        if problems := complaints():
            return _text(start, "503 Service Unavailable", problems)
        return _text(start, "200 OK", ["ok", *remarks()])

    return respond


def _text(start: _Start, status: str, lines: list[str]) -> Iterable[bytes]:
    start(status, [("Content-Type", "text/plain; charset=utf-8")])
    return ["".join(f"{line}\n" for line in lines).encode()]


class _Server(ThreadingMixIn, WSGIServer):
    """Has a thread and a file descriptor for each connection, and at most `_MOST_CONNECTIONS`.

    A further connection ends the oldest one, so that those who send nothing keep no probe out.
    """

    daemon_threads = True
    request_queue_size = _MOST_CONNECTIONS  # by default 5: a sixth at once waits a second

    def __init__(self, *arguments: Any) -> None:
        self._open: dict[Any, None] = {}  # the oldest first
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        # Before the new one is served: it may be the probe that decides about a restart.
        if len(connections := list(self._open)) >= _MOST_CONNECTIONS:
            self._open.pop(connections[0], None)
            with suppress(OSError):  # it has just ended
                connections[0].shutdown(SHUT_RDWR)
        self._open[request] = None
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Do not log clients that say nothing or go away."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _ServerOnIPv6(_Server):
    address_family = AF_INET6


class _Handler(WSGIRequestHandler):
    timeout = _REQUEST_TIMEOUT_S

    def log_message(self, format: str, *args: Any) -> None:
        """Do not log requests."""
