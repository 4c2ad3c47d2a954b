"""Run the page's server on a socket, until it is stopped."""

from __future__ import annotations

import socket
from typing import Any

from stream_icd.errors import BadSettings
from stream_icd.extras import needs_extra
from stream_icd.view.web.server import View

STOP_S = 2
MOST_CONNECTIONS = 1000


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


def server_of(view: View) -> Any:
    """Return the uvicorn server of a page.

    Raises:
        MissingExtra: uvicorn or starlette is not installed; the message says how.
    """
    with needs_extra("view", "starlette", "sse_starlette", "uvicorn"):
        import uvicorn

        from stream_icd.view.web.app import make_app
        from stream_icd.view.web.connections import PatientForAWhile
    config = uvicorn.Config(
        make_app(view),
        http=PatientForAWhile,
        ws="none",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=STOP_S,
    )
    return uvicorn.Server(config)


def address(open_socket: socket.socket) -> str:
    """Return the address of the page that is served on a socket."""
    host, port = open_socket.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"
