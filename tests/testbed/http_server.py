"""A web server in this process, and a receiver of alerts on it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Answer requests by a handler during the block; yields the address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class Webhook:
    """What came, in order; `answer` chooses the status of each request by its number."""

    url: str = ""
    answer: Callable[[int], int] = lambda _: 204
    requests: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    came: threading.Condition = field(default_factory=threading.Condition)

    def taken(self) -> list[dict[str, Any]]:
        """The bodies of the requests that were answered with success."""
        answered = zip(self.requests, self.statuses, strict=False)
        return [json.loads(body) for (_, body), status in answered if status < 300]

    def wait_for(self, count: int, timeout_s: float = 60.0) -> None:
        with self.came:
            assert self.came.wait_for(lambda: len(self.taken()) >= count, timeout_s), self.statuses


@contextmanager
def webhook(answer: Callable[[int], int] = lambda _: 204) -> Iterator[Webhook]:
    """Receive alerts at `url` during the block."""
    receiver = Webhook(answer=answer)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            with receiver.came:
                receiver.requests.append(({k.lower(): v for k, v in self.headers.items()}, body))
                status = receiver.answer(len(receiver.requests))
                receiver.statuses.append(status)
            self.send_response(status)
            self.send_header("location", "http://127.0.0.1:1/elsewhere")
            self.send_header("content-length", "3")
            self.end_headers()
            self.wfile.write(b"so!")
            with receiver.came:
                receiver.came.notify_all()

        def log_message(self, *_: object) -> None:
            pass

    with serving(Handler) as address:
        receiver.url = f"{address}/hook/secret"
        yield receiver
