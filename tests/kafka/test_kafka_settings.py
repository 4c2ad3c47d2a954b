"""Settings and logins: where they come from, what is refused, and what is never shown."""

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
from urllib.parse import parse_qs, unquote

import pytest
import trustme
from kafka import errors as client
from pydantic import SecretStr

from stream_icd.core.errors import BadSettings, BrokerUnavailable, MissingExtra
from stream_icd.kafka.client.login import _tokens, login_options
from stream_icd.kafka.connect import recognise
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import create_topics, describe_topic
from tests.testbed.brokers import kafka_listening, or_skip
from tests.testbed.http_server import serving
from tests.testbed.secure_kafka import pem

SECRET = "correct-horse-battery"
SASL = {"security_protocol": "SASL_SSL"}
URL = "https://login.example/token"
BY_URL = {"sasl_oauth_token_url": URL, "sasl_oauth_client_id": "anna"}
KEPT = {**BY_URL, "sasl_oauth_client_secret": "x"}


def login(mechanism: str, **values: object) -> dict[str, object]:
    return {**SASL, "sasl_mechanism": mechanism, **values}


@pytest.fixture
def scram() -> dict[str, object]:
    return login("SCRAM-SHA-512", sasl_username="anna", sasl_password=SECRET)


def test_arguments_win_over_environment_over_file_over_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('[kafka]\nclient_id = "file"\ninstance_id = "file"\nshutdown_timeout_s = 3\n')
    monkeypatch.setenv("STREAM_ICD_CLIENT_ID", "environment")
    monkeypatch.setenv("STREAM_ICD_INSTANCE_ID", "environment")
    settings = KafkaSettings(config_file=file, client_id="argument")
    assert (settings.client_id, settings.instance_id) == ("argument", "environment")
    assert settings.shutdown_timeout_s == 3
    assert settings.bootstrap_servers == "127.0.0.1:9092"
    with pytest.raises(Exception, match="frozen"):
        settings.client_id = "other"
    file.write_text('[kafka]\nbootstrap_servers = "a:1, b:2"\n[other]\nx = 1\n')
    for name in ("STREAM_ICD_CONFIG_FILE", "stream_icd_config_file"):  # case never matters
        with monkeypatch.context() as named:
            named.setenv(name, str(file))
            assert KafkaSettings().servers == ["a:1", "b:2"]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"bootstrap_servers": "kafka.example"}, "host:port"),
        ({"bootstrap_servers": "a:99999"}, "host:port"),
        ({"boostrap_servers": "a:1"}, "boostrap_servers"),
        ({"topic_prefix": "team a."}, "topic_prefix"),
        ({"topic_prefix": "x" * 101}, "topic_prefix"),
        ({"security_protocol": "SASL_SSL"}, "sasl_password"),
        ({"sasl_username": "a"}, "sasl_username has no effect without security_protocol"),
        ({"heartbeat_interval_s": 9, "session_timeout_s": 10}, "heartbeat_interval_s"),
        ({"delivery_timeout_s": 5, "request_timeout_s": 30}, "delivery_timeout_s"),
        ({"ssl_cafile": "/no/such/ca.pem"}, "no such file"),
        ({"security_protocol": "SSL", "ssl_cafile": __file__}, f"ssl_cafile {__file__}"),
        ({"security_protocol": "SSL", "ssl_certfile": __file__}, f"ssl_certfile {__file__}"),
        ({"security_protocol": "SSL", "ssl_keyfile": __file__}, "without ssl_certfile"),
        ({"sasl_password_file": "/no/such/secret"}, "sasl_password_file /no/such/secret"),
        ({"max_message_bytes": -1}, "max_message_bytes"),
        ({"config_file": "/no/such/settings.toml"}, "/no/such/settings.toml"),
        (login("PLAIN", sasl_username="a"), "PLAIN needs sasl_username and sasl_password"),
        (login("PLAIN", sasl_oauth_scope="x"), "sasl_oauth_scope has no effect with"),
        (login("OAUTHBEARER"), "needs either sasl_oauth_token_file, or sasl_oauth_token_url"),
        (login("OAUTHBEARER", **BY_URL), "sasl_oauth_client_secret"),
        (login("OAUTHBEARER", sasl_oauth_token_file="/no/such"), "no such file: /no/such"),
        (login("OAUTHBEARER", **KEPT, sasl_oauth_token_file=__file__), "needs either"),
        (login("OAUTHBEARER", **KEPT | {"sasl_oauth_token_url": "http://a.b/"}), "be https://HOST"),
        (login("AWS_MSK_IAM"), "needs security_protocol SASL_SSL, and sasl_aws_region"),
        (login("AWS_MSK_IAM", sasl_aws_region="a b"), "sasl_aws_region"),
    ],
)
def test_wrong_settings_are_refused_by_name(values: dict[str, object], says: str) -> None:
    with pytest.raises(BadSettings, match=says):
        KafkaSettings(**values)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("kafka = [", r"settings\.toml"),
        ("kafka = 1", "table"),
        (
            '[kafka]\nbootstrap_server = "x:1"\n',
            r"settings\.toml: kafka\.bootstrap_server is not .* did you mean bootstrap_servers\?",
        ),
    ],
)
def test_what_is_wrong_in_a_file_is_refused_by_name(
    tmp_path: Path, content: str, says: str
) -> None:
    (file := tmp_path / "settings.toml").write_text(content)
    with pytest.raises(BadSettings, match=says):
        KafkaSettings(config_file=file)


def test_a_secret_reaches_the_client_and_is_shown_nowhere(scram: dict[str, object]) -> None:
    settings = KafkaSettings(**scram)
    options = login_options(settings)
    assert options["sasl_plain_password"].encode() == SECRET.encode()
    assert SECRET not in f"{settings!r} {settings} {options} {options['sasl_plain_password']!r}"
    plain = login_options(KafkaSettings(**scram | {"security_protocol": "PLAINTEXT"}))
    assert plain == {}  # no credentials are offered
    with pytest.raises(BadSettings) as refused:
        KafkaSettings(**scram | {"sasl_mechanism": "NONE", "ssl_check_hostname": SECRET})
    error = refused.value
    assert error.__cause__ is None
    assert SECRET not in f"{error} {error.__context__}"


def test_a_secret_may_be_alone_in_a_file_that_the_settings_or_the_environment_name(
    scram: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As docker and Kubernetes hand them out: readable by all in the container, one line."""
    file = tmp_path / "password"
    file.write_text(f"{SECRET}\n")
    file.chmod(0o444)
    with pytest.raises(BadSettings, match="both sasl_password and sasl_password_file"):
        KafkaSettings(**scram, sasl_password_file=file)
    del scram["sasl_password"]
    options = login_options(KafkaSettings(**scram, sasl_password_file=file))
    assert options["sasl_plain_password"] == SECRET
    monkeypatch.setenv("STREAM_ICD_SASL_PASSWORD_FILE", str(file))
    assert login_options(KafkaSettings(**scram))["sasl_plain_password"] == SECRET
    file.chmod(0o600)
    for content, says in ((b"\n", "is empty"), (SECRET.encode() + b"\xff", "is not UTF-8 text")):
        file.write_bytes(content)
        with pytest.raises(BadSettings, match=f"sasl_password_file {file} {says}") as refused:
            KafkaSettings(**scram)
        assert SECRET not in str(refused.value)


def test_a_settings_file_with_a_secret_is_for_its_owner_alone(
    scram: dict[str, object], tmp_path: Path
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("[kafka]\n" + "".join(f'{k} = "{v}"\n' for k, v in scram.items()))
    file.chmod(0o640)
    with pytest.raises(BadSettings, match=rf"sasl_password.*0640\): chmod 600 {file}") as refused:
        KafkaSettings(config_file=file)
    assert SECRET not in str(refused.value)
    file.chmod(0o600)
    assert login_options(KafkaSettings(config_file=file))["sasl_plain_password"] == SECRET
    file.write_text('[kafka]\nsasl_password_file = "/run/secrets/kafka"\n')  # none is in it
    file.chmod(0o644)
    with pytest.raises(BadSettings, match="cannot read sasl_password_file /run/secrets/kafka"):
        KafkaSettings(config_file=file)


def test_an_encrypted_key_without_its_password_asks_nobody(tmp_path: Path) -> None:
    """At a terminal, the library beneath would ask for it, and wait, where it is given none."""
    assert login_options(KafkaSettings(security_protocol="SSL"))["ssl_password"] is not None
    encrypted = tmp_path / "client.pem"
    encrypted.write_bytes(pem(trustme.CA().issue_cert("client.example"), SECRET.encode()))
    values = {"security_protocol": "SSL", "ssl_certfile": encrypted}
    with pytest.raises(BadSettings, match="if it is encrypted, is ssl_password its password"):
        KafkaSettings(**values)
    with pytest.raises(BadSettings) as refused:
        KafkaSettings(**values, ssl_password="another")
    assert "another" not in str(refused.value)
    assert KafkaSettings(**values, ssl_password=SECRET)


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


def by_url(endpoint: TokenEndpoint, **values: object) -> KafkaSettings:
    own = {"sasl_oauth_token_url": endpoint.url, "sasl_oauth_client_secret": endpoint.secret}
    oauth = {**BY_URL, **own, "sasl_oauth_scope": "kafka"}
    return KafkaSettings(**login("OAUTHBEARER", **oauth | values))


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

    settings = KafkaSettings(**login("AWS_MSK_IAM", sasl_aws_region="eu-central-1"))
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
    settings = KafkaSettings(**login("GSSAPI", **names))
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
    assert describe_topic(settings, "t")
    secrets = endpoint.secret, token_of(settings), file.read_text()
    assert not any(secret in caplog.text for secret in secrets)
    assert "OAUTHBEARER" in caplog.text
    with pytest.raises(
        BadSettings, match="the login by OAUTHBEARER: .*answered 401.*check the token in"
    ):
        recognise(settings.model_copy(update={"sasl_oauth_client_secret": SecretStr("wrong")}))
    # The file is read at each login.
    file.write_text(unsigned_token("anna", life_s=-100.0))  # a token that has ended
    with pytest.raises(BadSettings, match="refused the login by OAUTHBEARER"):
        recognise(by_file)
    file.unlink()
    with pytest.raises(BrokerUnavailable, match="cannot read sasl_oauth_token_file"):
        recognise(by_file.model_copy(update={"connect_timeout_s": 2.0}))
