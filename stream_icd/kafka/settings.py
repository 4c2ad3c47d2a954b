"""Broker connection settings: typed, frozen, and checked before anything connects."""

from __future__ import annotations

import re
import socket
import ssl
from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from stream_icd.core.errors import BrokerUnavailable
from stream_icd.core.settings import Settings, secret_in

MEBIBYTE = 1024 * 1024
MEMORY_SCHEME = "memory://"
_ANSWERS_WITHIN_S = 1.0
_SHORT_SESSION_S = 2.0
"""The embedded broker looks once a second whether half a session has passed: here, a second."""

_PASSWORD = ("sasl_username", "sasl_password")
_OF_MECHANISM = {
    "OAUTHBEARER": ("sasl_oauth_",),
    "AWS_MSK_IAM": ("sasl_aws_",),
    "GSSAPI": ("sasl_kerberos_",),
}
"""How the settings of a mechanism begin; all others take a user's name and password."""

_TOKEN_URL = re.compile(r"https://[^/\s@]+|http://(127\.0\.0\.1|localhost|\[::1\])[:/]")
"""On this machine, nobody listens on the way."""


class KafkaSettings(Settings):
    """Where the broker is, how to authenticate, and how long to wait for what.

    Every field can be an argument, an environment variable (`STREAM_ICD_` and the field's name in
    capitals), or a line in the `[kafka]` table of a TOML file (`config_file`, or the environment's
    `STREAM_ICD_CONFIG_FILE`); the first that is given wins, in this order. Secrets are shown
    neither by `repr` nor in errors, and may lie in a file of their own (`sasl_password_file`,
    `ssl_password_file`).

    Raises:
        BadSettings: a value, a combination of values or the TOML file is wrong.

    >>> KafkaSettings(bootstrap_servers="127.0.0.1:9092").servers
    ['127.0.0.1:9092']
    """

    table: ClassVar[str] = "kafka"

    bootstrap_servers: str = Field(
        default="127.0.0.1:9092",
        description="host:port of one or more brokers, comma separated; "
        "or memory://NAME, a broker within the process",
    )
    client_id: str = Field(default="stream-icd", min_length=1)
    instance_id: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9._-]{1,200}$",
        description="this worker's own name, kept over restarts, so that a restarted worker "
        "fences its former self at once (exactly-once); no two workers may share it",
    )
    topic_prefix: str = Field(
        default="",
        pattern=r"^([A-Za-z0-9._-]{1,100})?$",
        description="before the names of all topics, groups and transactional ids at the broker, "
        "such as team-a., so that several installations share a cluster",
    )
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    ssl_cafile: Path | None = None
    ssl_certfile: Path | None = None
    ssl_keyfile: Path | None = None
    ssl_password: SecretStr | None = None
    ssl_password_file: Path | None = None
    ssl_check_hostname: bool = True
    sasl_mechanism: (
        Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM", "GSSAPI"]
        | None
    ) = None
    sasl_username: str | None = None
    sasl_password: SecretStr | None = None
    sasl_password_file: Path | None = None
    sasl_oauth_token_file: Path | None = None
    sasl_oauth_token_url: str | None = None
    sasl_oauth_client_id: str | None = None
    sasl_oauth_client_secret: SecretStr | None = None
    sasl_oauth_client_secret_file: Path | None = None
    sasl_oauth_scope: str | None = None
    sasl_aws_region: str | None = Field(default=None, pattern=r"^[a-z0-9-]+$")
    sasl_kerberos_service_name: str = "kafka"
    sasl_kerberos_domain_name: str | None = None

    connect_timeout_s: float = Field(default=10.0, gt=0, le=600)
    request_timeout_s: float = Field(default=30.0, ge=1, le=500)
    delivery_timeout_s: float = Field(default=60.0, ge=1, le=3600)
    session_timeout_s: float = Field(default=10.0, ge=1, le=300)
    heartbeat_interval_s: float = Field(default=0.5, ge=0.1, le=100)
    max_poll_interval_s: float = Field(default=300.0, ge=1, le=86_400)
    transaction_timeout_s: float = Field(default=15.0, ge=1, le=900)
    shutdown_timeout_s: float = Field(default=8.0, gt=0, le=600)

    max_message_bytes: int = Field(
        default=16 * MEBIBYTE, ge=1024, le=1024 * MEBIBYTE, description="one record's limit"
    )
    max_in_flight_bytes: int = Field(
        default=64 * MEBIBYTE, ge=1024, description="published and not yet acknowledged"
    )

    @model_validator(mode="before")
    @classmethod
    def _with_secrets_of_files(cls, values: dict[str, object]) -> dict[str, object]:
        for name in ("ssl_password", "sasl_password", "sasl_oauth_client_secret"):
            file = values.get(f"{name}_file")
            if file is not None:
                if values.get(name) is not None:
                    raise ValueError(f"both {name} and {name}_file are set: leave out one")
                values = values | {name: secret_in(Path(str(file)), f"{name}_file")}
        return values

    @field_validator("bootstrap_servers")
    @classmethod
    def _has_hosts_and_ports(cls, value: str) -> str:
        if value.startswith(MEMORY_SCHEME) and value != MEMORY_SCHEME:
            return value
        for server in value.split(","):
            host, _, port = server.strip().rpartition(":")
            if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
                raise ValueError(f"{server.strip()!r} is not host:port, such as kafka.example:9092")
        return value

    @field_validator("ssl_cafile", "ssl_certfile", "ssl_keyfile", "sasl_oauth_token_file")
    @classmethod
    def _is_a_file(cls, value: Path | None) -> Path | None:
        if value is not None and not value.is_file():
            raise ValueError(f"no such file: {value}")
        return value

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        unused = [name for name in self.model_fields_set if name.startswith(("sasl_", "ssl_"))]
        if unused and "security_protocol" not in self.model_fields_set:
            raise ValueError(
                f"{min(unused)} has no effect without security_protocol: set that to SASL_SSL, SSL "
                "or SASL_PLAINTEXT (or to PLAINTEXT, which protects nothing)"
            )
        if self.security_protocol.startswith("SASL"):
            self._check_login()
        if "SSL" in self.security_protocol:
            self._check_certificates()
        if self.heartbeat_interval_s * 2 > self.session_timeout_s:
            raise ValueError(
                f"heartbeat_interval_s {self.heartbeat_interval_s} must be at most half of "
                f"session_timeout_s {self.session_timeout_s}"
            )
        if self.delivery_timeout_s < self.request_timeout_s:
            raise ValueError(
                f"delivery_timeout_s {self.delivery_timeout_s} must be at least "
                f"request_timeout_s {self.request_timeout_s}"
            )
        return self

    def _check_login(self) -> None:
        """Check that the mechanism has what it needs, and nothing of another one."""
        protocol, mechanism = self.security_protocol, self.sasl_mechanism
        if mechanism is None:
            raise ValueError(
                f"security_protocol {protocol} needs sasl_mechanism, sasl_username and "
                "sasl_password (or sasl_password_file)"
            )
        own = _OF_MECHANISM.get(mechanism, _PASSWORD)
        for name in sorted(self.model_fields_set - {"sasl_mechanism"}):
            if name.startswith("sasl_") and not name.startswith(own):
                raise ValueError(f"{name} has no effect with sasl_mechanism {mechanism}")
        if own == _PASSWORD and not (self.sasl_username and self.sasl_password):
            raise ValueError(
                f"sasl_mechanism {mechanism} needs sasl_username and sasl_password (or "
                "sasl_password_file)"
            )
        if mechanism == "OAUTHBEARER":
            self._check_tokens()
        if mechanism == "AWS_MSK_IAM" and not (protocol == "SASL_SSL" and self.sasl_aws_region):
            raise ValueError(
                "sasl_mechanism AWS_MSK_IAM needs security_protocol SASL_SSL, and sasl_aws_region, "
                "such as eu-central-1"
            )

    def _check_tokens(self) -> None:
        url = self.sasl_oauth_token_url
        by_url = (url, self.sasl_oauth_client_id, self.sasl_oauth_client_secret)
        if (self.sasl_oauth_token_file is None) == (None in by_url):
            raise ValueError(
                "sasl_mechanism OAUTHBEARER needs either sasl_oauth_token_file, or "
                "sasl_oauth_token_url, sasl_oauth_client_id and sasl_oauth_client_secret (or "
                "sasl_oauth_client_secret_file)"
            )
        if url is not None and not _TOKEN_URL.match(url):
            raise ValueError(
                "sasl_oauth_token_url must be https://HOST/PATH: a secret is sent there"
            )

    def _check_certificates(self) -> None:
        """Open the files, to find errors early and never prompt for a password."""
        if self.ssl_certfile is None and (self.ssl_keyfile or self.ssl_password):
            raise ValueError("ssl_keyfile and ssl_password have no effect without ssl_certfile")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if self.ssl_cafile is not None:
            try:
                context.load_verify_locations(self.ssl_cafile)
            except OSError as error:
                raise ValueError(f"ssl_cafile {self.ssl_cafile}: {_reason(error)}") from None
        if self.ssl_certfile is not None:
            password = self.ssl_password.get_secret_value() if self.ssl_password else ""
            try:
                context.load_cert_chain(self.ssl_certfile, self.ssl_keyfile, password)
            except OSError as error:
                raise ValueError(
                    f"ssl_certfile {self.ssl_certfile} with ssl_keyfile "
                    f"{self.ssl_keyfile or 'in it'}: {_reason(error)} (does the key belong to the "
                    "certificate, and if it is encrypted, is ssl_password its password?)"
                ) from None

    @property
    def servers(self) -> list[str]:
        return [server.strip() for server in self.bootstrap_servers.split(",")]

    @property
    def member_name(self) -> str:
        """The name of a group member at the broker; includes the `instance_id`, if there is one."""
        return "-".join(filter(None, (self.client_id, self.instance_id)))

    def joining_quickly(self) -> KafkaSettings:
        """The settings with which a member soon joins a group where this takes half a session
        timeout; these ones if somebody has set that timeout."""
        if "session_timeout_s" in self.model_fields_set:
            return self
        shorter = {
            "session_timeout_s": _SHORT_SESSION_S,
            "heartbeat_interval_s": min(self.heartbeat_interval_s, _SHORT_SESSION_S / 3),
        }
        return self.model_copy(update=shorter)


def _reason(error: OSError) -> str:
    return str(getattr(error, "reason", None) or error.strerror or error)


def check_that_somebody_listens(settings: KafkaSettings) -> None:
    """Raise BrokerUnavailable at once, not after a client's timeout, if nobody listens anywhere.

    Whether it is Kafka is not asked, and a silent address counts: the client asks again.
    """
    if settings.bootstrap_servers.startswith(MEMORY_SCHEME):
        return
    if not any(map(listens, settings.servers)):
        raise nobody_listens(settings)


def nobody_listens(settings: KafkaSettings) -> BrokerUnavailable:
    """Return the error of a broker that refuses connections."""
    return BrokerUnavailable(
        f"no broker listens at {settings.bootstrap_servers}: start one (for a trial: stream-icd "
        "broker), or give its address (--bootstrap-servers, or STREAM_ICD_BOOTSTRAP_SERVERS)"
    )


def listens(server: str) -> bool:
    """Whether a program listens at `server`, host:port, or the address is known and silent."""
    host, _, port = server.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _ANSWERS_WITHIN_S).close()
    except OSError as error:
        return not isinstance(error, ConnectionRefusedError | socket.gaierror)
    return True
