"""How the client logs in: with a certificate, a password, a token, AWS's IAM or Kerberos."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode

from kafka import errors as client
from kafka.net.sasl.oauth import AbstractTokenProvider
from pydantic import SecretStr

from stream_icd.core.imports import needs_extra
from stream_icd.core.post import post
from stream_icd.core.printable import printable, shortened
from stream_icd.core.settings import secret_in
from stream_icd.kafka.settings import KafkaSettings

_ANSWER_TIMEOUT_S = 10.0
_USED = 0.8
"""A token is used for this fraction of its life; then another one is asked for."""
_LIFE_S = 300.0
"""The life of a token whose endpoint does not say it."""

_Token = tuple[str, float]
"""A token, and until when it is used, by `time.monotonic`."""


def login_options(settings: KafkaSettings) -> dict[str, Any]:
    """Return the client's options of TLS and of a login.

    Raises `MissingExtra` if the mechanism needs a library that is not installed.
    """
    options: dict[str, Any] = {}
    if "SSL" in settings.security_protocol:
        options |= {
            "ssl_cafile": settings.ssl_cafile,
            "ssl_certfile": settings.ssl_certfile,
            "ssl_keyfile": settings.ssl_keyfile,
            # Without a password, an encrypted key would prompt for it at the terminal, and wait.
            "ssl_password": _hidden(settings.ssl_password),
            "ssl_check_hostname": settings.ssl_check_hostname,
        }
    if settings.security_protocol.startswith("SASL"):
        options |= _sasl_options(settings)
    return options


def _sasl_options(settings: KafkaSettings) -> dict[str, Any]:
    match settings.sasl_mechanism:
        case "OAUTHBEARER" | "AWS_MSK_IAM":  # brokers of AWS take the signed request as a token
            return {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": _tokens(settings)}
        case "GSSAPI":
            with needs_extra("kerberos", "gssapi"):
                import gssapi  # noqa: F401 - the client (3.0.12) says only that a lib is not found
            return {
                "sasl_mechanism": "GSSAPI",
                "sasl_kerberos_service_name": settings.sasl_kerberos_service_name,
                "sasl_kerberos_domain_name": settings.sasl_kerberos_domain_name,
            }
        case mechanism:
            return {
                "sasl_mechanism": mechanism,
                "sasl_plain_username": settings.sasl_username,
                "sasl_plain_password": _hidden(settings.sasl_password),
            }


class _Hidden(str):
    """A secret with a hidden `repr`: the client logs its whole configuration at DEBUG."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'**********'"


def _hidden(secret: SecretStr | None) -> str:
    return _Hidden("" if secret is None else secret.get_secret_value())


@dataclass(eq=False)
class _Tokens(AbstractTokenProvider):  # type: ignore[misc]
    ask: Callable[[], _Token]
    _last: _Token | None = field(default=None, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def token(self) -> str:
        """Return a token that is valid.

        Raises:
            SaslAuthenticationFailedError: there will be none, however often it is asked for.
            KafkaConnectionError: there is none now.
        """
        with self._lock:
            if self._last is None or time.monotonic() >= self._last[1]:
                self._last = self.ask()
            return self._last[0]


@lru_cache(maxsize=16)
def _tokens(settings: KafkaSettings) -> _Tokens:
    """Return where the tokens of a login come from; clients with equal settings share them."""
    if settings.sasl_mechanism == "AWS_MSK_IAM":
        return _Tokens(_signer(settings.sasl_aws_region or ""))
    file = settings.sasl_oauth_token_file
    return _Tokens(lambda: _in_file(file) if file is not None else _granted(settings))


def _in_file(path: Path) -> _Token:
    """Read a token for each login, since others replace it, such as Kubernetes."""
    try:
        return secret_in(path, "sasl_oauth_token_file"), 0.0
    except ValueError as error:
        raise client.KafkaConnectionError(str(error)) from None


def _granted(settings: KafkaSettings) -> _Token:
    """Ask for a token with client credentials (RFC 6749, section 4.4)."""
    url, secret = settings.sasl_oauth_token_url or "", settings.sasl_oauth_client_secret
    assert secret is not None, "the settings were checked"
    who = (settings.sasl_oauth_client_id or "", secret.get_secret_value())
    credentials = base64.b64encode(":".join(quote(part, safe="") for part in who).encode()).decode()
    fields = {"grant_type": "client_credentials"}
    if settings.sasl_oauth_scope is not None:
        fields["scope"] = settings.sasl_oauth_scope
    headers = {"authorization": f"Basic {credentials}", "accept": "application/json"}
    try:
        answer = json.loads(post(url, urlencode(fields).encode(), headers, _ANSWER_TIMEOUT_S))
        life_s = _USED * float(answer.get("expires_in") or _LIFE_S)
        return str(answer["access_token"]), time.monotonic() + life_s
    except HTTPError as error:
        with error:
            reason = printable(shortened(error.read(1000), 200))
        final = 300 <= error.code < 500 and error.code not in (408, 429)
        kind = client.SaslAuthenticationFailedError if final else client.KafkaConnectionError
        raise kind(f"the token endpoint {url} answered {error.code}: {reason}") from None
    except (OSError, HTTPException) as error:
        raise client.KafkaConnectionError(f"no token from {url}: {error}") from None
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        why = f"the token endpoint {url} gave no access_token: {error!r:.100}"
        raise client.SaslAuthenticationFailedError(why) from None


def _signer(region: str) -> Callable[[], _Token]:
    with needs_extra("msk", "aws_msk_iam_sasl_signer"):
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider

    def ask() -> _Token:
        try:
            token, expires_ms = MSKAuthTokenProvider.generate_auth_token(region)
        except Exception as error:  # of AWS's library: no credentials, or no answer
            raise client.KafkaConnectionError(f"AWS gives no token: {error}") from None
        life_s = _USED * (expires_ms / 1000 - time.time())
        return str(token), time.monotonic() + life_s

    return ask
