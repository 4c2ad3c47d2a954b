"""HTTP POST to an address that may be secret, with a secret: it is followed nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.request import HTTPRedirectHandler, Request, build_opener

_MOST_ANSWER = 1 << 20
"""Bytes of an answer that are read."""


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


_OPENER = build_opener(_NoRedirects)


def post(url: str, body: bytes, headers: Mapping[str, str], timeout_s: float) -> bytes:
    """Return the answer to a request.

    Raises `urllib.error.HTTPError` for a status above 299, also of a redirect; `OSError` or
    `http.client.HTTPException` if there is no answer.
    """
    request = Request(url, body, dict(headers), method="POST")
    with _OPENER.open(request, timeout=timeout_s) as answer:
        content: bytes = answer.read(_MOST_ANSWER)
    return content
