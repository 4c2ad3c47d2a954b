"""An identity provider that grants tokens for client credentials, in this process."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs, unquote

from tests.testbed.http_server import serving


def unsigned_token(user: str, life_s: float = 3600.0) -> str:
    """A token without a signature, which a Kafka takes that has no keys."""
    now = time.time()
    parts = ({"alg": "none"}, {"sub": user, "iat": now - 1, "exp": now + life_s})
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode() for part in parts]
    return ".".join(one.rstrip("=") for one in encoded) + "."


@dataclass
class TokenEndpoint:
    """What was asked, and how it answers."""

    url: str = ""
    secret: str = "s3cr/t"
    answer: str | None = None  # None: a token
    life_s: float = 3600.0
    redirects: bool = False
    asked: list[dict[str, list[str]]] = field(default_factory=list)


@contextmanager
def token_endpoint() -> Iterator[TokenEndpoint]:
    """Grant tokens to the client `anna` during the block."""
    found = TokenEndpoint()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            found.asked.append(parse_qs(body))
            said = base64.b64decode(self.headers["authorization"].removeprefix("Basic ")).decode()
            who, _, secret = said.partition(":")
            good = unquote(secret) == found.secret
            granted = {"access_token": unsigned_token(who), "expires_in": found.life_s}
            text = json.dumps(granted) if good else '{"error": "invalid_client"}'
            answer = (found.answer or text).encode()
            self.send_response(302 if found.redirects else 200 if good else 401)
            self.send_header("location", found.url)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    with serving(Handler) as address:
        found.url = f"{address}/token"
        yield found
