"""Logins other than by password: tokens, AWS's IAM and Kerberos."""

from __future__ import annotations

import base64
import json
import logging
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, unquote

import pytest
from kafka import errors as client
from pydantic import SecretStr

from stream_icd.core.errors import BadSettings, BrokerUnavailable, MissingExtra
from stream_icd.kafka.client.login import _tokens, login_options
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import create_topics, topic_names
from tests.testbed.brokers import kafka_listening, or_skip
from tests.testbed.http_server import serving

SASL = {"security_protocol": "SASL_SSL"}
URL = "https://login.example/token"
BY_URL = {"sasl_oauth_token_url": URL, "sasl_oauth_client_id": "anna"}
KEPT = {**BY_URL, "sasl_oauth_client_secret": "x"}


def unsigned_token(user: str, life_s: float = 3600.0) -> str:
    """A token without a signature, which a Kafka takes that has no keys."""
    now = time.time()
    parts = ({"alg": "none"}, {"sub": user, "iat": now - 1, "exp": now + life_s})
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode() for part in parts]
    return ".".join(part.rstrip("=") for part in encoded) + "."


@dataclass
class TokenEndpoint:
    """What was asked, and how it answers."""

    url: str = ""
    secret: str = "s3cr/t"
    answer: str | None = None  # None: a token
    redirects: bool = False
    asked: list[dict[str, list[str]]] = field(default_factory=list)


@pytest.fixture
def endpoint() -> Iterator[TokenEndpoint]:
    """Grants tokens to the client `anna`."""
    endpoint = TokenEndpoint()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            endpoint.asked.append(parse_qs(body))
            login = base64.b64decode(self.headers["authorization"].removeprefix("Basic ")).decode()
            who, _, secret = login.partition(":")
            good = unquote(secret) == endpoint.secret
            granted = {"access_token": unsigned_token(who), "expires_in": 3600.0}
            text = json.dumps(granted) if good else '{"error": "invalid_client"}'
            answer = (endpoint.answer or text).encode()
            self.send_response(302 if endpoint.redirects else 200 if good else 401)
            self.send_header("location", endpoint.url)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    with serving(Handler) as address:
        endpoint.url = f"{address}/token"
        yield endpoint


@pytest.fixture(autouse=True)
def no_tokens_of_other_tests() -> None:
    _tokens.cache_clear()


@pytest.mark.parametrize(
    ("mechanism", "values", "says"),
    [
        ("PLAIN", {"sasl_username": "a"}, "PLAIN needs sasl_username and sasl_password"),
        ("PLAIN", {"sasl_oauth_scope": "x"}, "sasl_oauth_scope has no effect with"),
        ("OAUTHBEARER", {}, "needs either sasl_oauth_token_file, or sasl_oauth_token_url"),
        ("OAUTHBEARER", BY_URL, "sasl_oauth_client_secret"),
        ("OAUTHBEARER", {"sasl_username": "a"}, "sasl_username has no effect"),
        ("OAUTHBEARER", {"sasl_oauth_token_file": "/no/such"}, "no such file: /no/such"),
        ("OAUTHBEARER", {**KEPT, "sasl_oauth_token_file": __file__}, "needs either"),
        ("OAUTHBEARER", {**KEPT, "sasl_oauth_token_url": "http://a.b/"}, "be https://HOST/PATH"),
        ("AWS_MSK_IAM", {}, "needs security_protocol SASL_SSL, and sasl_aws_region"),
        ("AWS_MSK_IAM", {"sasl_aws_region": "a b"}, "sasl_aws_region"),
        ("GSSAPI", {"sasl_password": "x"}, "sasl_password has no effect"),
    ],
)
def test_a_login_that_lacks_something_or_has_too_much_is_refused(
    mechanism: str, values: dict[str, Any], says: str
) -> None:
    with pytest.raises(BadSettings, match=says):
        KafkaSettings(**SASL, sasl_mechanism=mechanism, **values)


def by_url(endpoint: TokenEndpoint, **values: object) -> KafkaSettings:
    oauth = {
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_url": endpoint.url,
        "sasl_oauth_client_id": "anna",
        "sasl_oauth_client_secret": endpoint.secret,
        "sasl_oauth_scope": "kafka",
    }
    return KafkaSettings(**{**SASL, **oauth, **values})


def token_of(settings: KafkaSettings) -> str:
    return login_options(settings)["sasl_oauth_token_provider"].token()


def test_a_token_is_granted_once_and_again_before_it_ends(endpoint: TokenEndpoint) -> None:
    options = login_options(by_url(endpoint))
    assert options["sasl_mechanism"] == "OAUTHBEARER"
    provider = options["sasl_oauth_token_provider"]
    first = provider.token()
    assert token_of(by_url(endpoint)) == first
    assert endpoint.asked == [{"grant_type": ["client_credentials"], "scope": ["kafka"]}]
    assert not any(secret in repr(options) for secret in (endpoint.secret, first))
    provider._last = first, time.monotonic() - 1  # it ends
    provider.token()
    assert len(endpoint.asked) == 2


def test_a_token_that_is_refused_and_one_that_may_come_later(endpoint: TokenEndpoint) -> None:
    refused = client.SaslAuthenticationFailedError
    with pytest.raises(refused, match="401: .*invalid_client"):
        token_of(by_url(endpoint, sasl_oauth_client_secret="wrong"))
    endpoint.redirects = True
    with pytest.raises(refused, match="answered 302"):
        token_of(by_url(endpoint))
    assert len(endpoint.asked) == 2
    endpoint.redirects, endpoint.answer = False, '{"token": 1}'
    with pytest.raises(refused, match="gave no access_token"):
        token_of(by_url(endpoint))
    nobody = by_url(endpoint, sasl_oauth_token_url="http://127.0.0.1:1/")
    with pytest.raises(client.KafkaConnectionError, match="no token from"):
        token_of(nobody)


def lacks(library: str, extra: str, settings: KafkaSettings, patch: pytest.MonkeyPatch) -> None:
    """Check that a library that is not installed is named, with its extra."""
    patch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtra, match=rf"needs {library}.*stream-icd\[{extra}\]"):
        login_options(settings)


def test_amazon_msk(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    class Provider:
        @staticmethod
        def generate_auth_token(region: str) -> tuple[str, int]:
            asked.append(region)
            if len(asked) > 1:
                raise RuntimeError("no credentials")
            return "signed", round(1000 * (time.time() + 900))

    settings = KafkaSettings(**SASL, sasl_mechanism="AWS_MSK_IAM", sasl_aws_region="eu-central-1")
    lacks("aws_msk_iam_sasl_signer", "msk", settings, monkeypatch)
    library = SimpleNamespace(MSKAuthTokenProvider=Provider)
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", library)
    options = login_options(settings)
    provider = options["sasl_oauth_token_provider"]
    assert (options["sasl_mechanism"], provider.token()) == ("OAUTHBEARER", "signed")
    assert provider.token() == "signed"
    assert asked == ["eu-central-1"]
    provider._last = None
    with pytest.raises(client.KafkaConnectionError, match="AWS gives no token: no credentials"):
        provider.token()


def test_kerberos(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"sasl_kerberos_service_name": "kfk", "sasl_kerberos_domain_name": "broker.example"}
    settings = KafkaSettings(**SASL, sasl_mechanism="GSSAPI", **names)
    lacks("gssapi", "kerberos", settings, monkeypatch)
    monkeypatch.setitem(sys.modules, "gssapi", ModuleType("gssapi"))
    assert {"sasl_mechanism": "GSSAPI", **names}.items() <= login_options(settings).items()


OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


@pytest.fixture(scope="module")
def oauth_servers() -> Iterator[str]:
    """Apache Kafka's address for those who come with unsigned tokens."""
    properties = {
        "listener_name_oauth_sasl_enabled_mechanisms": "OAUTHBEARER",
        "listener_name_oauth_oauthbearer_sasl_jaas_config": f"{OAUTH} required;",
    }
    with or_skip(kafka_listening("OAUTH", "SASL_PLAINTEXT", **properties)) as (_, servers):
        yield servers


@pytest.mark.kafka
def test_kafka_lets_in_who_has_a_token(
    oauth_servers: str, endpoint: TokenEndpoint, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, logger="kafka")  # whatever tests before have set
    oauth = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER"}
    place = {"bootstrap_servers": oauth_servers, "connect_timeout_s": 30.0}
    (file := tmp_path / "token").write_text(unsigned_token("anna"))
    by_file = KafkaSettings(**place, **oauth, sasl_oauth_token_file=file)
    create_topics(by_file, [TopicSpec("t")])
    settings = by_url(endpoint, **place, security_protocol="SASL_PLAINTEXT")
    assert "t" in topic_names(settings)
    secrets = endpoint.secret, token_of(settings), file.read_text()
    assert not any(secret in caplog.text for secret in secrets)
    assert "OAUTHBEARER" in caplog.text
    with pytest.raises(
        BadSettings, match="the login by OAUTHBEARER: .*answered 401.*check the token in"
    ):
        topic_names(settings.model_copy(update={"sasl_oauth_client_secret": SecretStr("wrong")}))
    # The file is read at each login.
    file.write_text(unsigned_token("anna", life_s=-100.0))  # a token that has ended
    with pytest.raises(BadSettings, match="refused the login by OAUTHBEARER"):
        topic_names(by_file)
    file.unlink()
    with pytest.raises(BrokerUnavailable, match="cannot read sasl_oauth_token_file"):
        topic_names(by_file.model_copy(update={"connect_timeout_s": 2.0}))
