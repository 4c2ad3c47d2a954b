"""Who may open the page: this machine, or holders of the token; and what a browser may do."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from stream_icd.core.errors import BadSettings

HEALTH = "/healthz"
"""Tells anybody, without a token and under any name, that the server answers: for probes."""

HEADERS: Mapping[str, str] = {
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

    def allows_host(self, header: str) -> bool:
        """Whether a request with this Host header is for us."""
        if self.hosts is None:
            return True
        try:
            return (urlsplit(f"//{header}").hostname or "") in self.hosts
        except ValueError:
            return False

    def allows(self, *shown: str) -> bool:
        """Whether one of these is the token; in constant time."""
        if self.token is None:
            return True
        token = self.token.encode()
        return any(hmac.compare_digest(text.encode(), token) for text in shown)


def access_for(host: str, token: str | None = None, *, no_token: bool = False) -> Access:
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
        return Access(frozenset({"localhost", "127.0.0.1", "::1", host}))
    return Access(None, token or secrets.token_urlsafe(16))


def _is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine only."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def asked_by_this_page(path: str, headers: Mapping[str, str]) -> bool:
    """Whether a request comes from the page, from somebody who opens it, or from no browser.

    Browsers say whose page asks. Another site's, or that of another port of this machine, may link
    to the page, and no more: it must not make this process compute and keep answers.
    """
    if headers.get("sec-fetch-site", "") in ("", "none", "same-origin"):
        return True
    return headers.get("sec-fetch-mode") == "navigate" and path == "/"
