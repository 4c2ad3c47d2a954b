"""Open the client library's producer, consumer and admin; only this module creates them."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Any

import kafka
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka import errors as client

from stream_icd.core.errors import BadSettings, BrokerUnavailable
from stream_icd.core.printable import listed
from stream_icd.kafka.client.login import login_options
from stream_icd.kafka.client.translate import final_reason, translate
from stream_icd.kafka.client.workarounds import Network, mend
from stream_icd.kafka.port import DEAD_LETTER_ROOM, TopicPartition
from stream_icd.kafka.settings import KafkaSettings, listens, nobody_listens

# The client's default limit for one response; it requests half, but one record may be larger.
_ANSWER_BYTES = 100_000_000
# Records of a partition are sent in batches, so eight results of a transaction take one round trip,
# not eight. If a broker refuses a batch as too large, the client splits it.
_BATCH_BYTES = 256 * 1024
# When a reader knows of new partitions of its topic, at the latest.
_METADATA_AGE_MS = 30_000
# The client (3.0.12) sleeps this long before it repeats a request of a transaction. A broker
# refuses the first one while it ends the transaction before: Kafka's own client waits 20 ms then.
_RETRY_MS = 20


@contextmanager
def open_admin(settings: KafkaSettings) -> Iterator[Any]:
    """The client that administrates topics and groups."""
    admin, network = _opened(KafkaAdminClient, settings, _options(settings))
    try:
        addresses = network.advertised
        if addresses and not any(map(listens, addresses)):
            raise BrokerUnavailable(
                f"a broker answers at {settings.bootstrap_servers}, but nobody listens where it "
                f"tells clients to connect; {_whose_address(addresses)}"
            )
        yield admin
    except BrokerUnavailable as error:
        if set(addresses) <= set(settings.servers) or "advertised.listeners" in str(error):
            raise
        raise BrokerUnavailable(f"{error}; {_whose_address(addresses)}") from error
    finally:
        admin.close()


def open_producer(settings: KafkaSettings, transactional_id: str | None = None) -> Any:
    """A producer that waits for all replicas and never reorders or repeats (idempotent)."""
    options = _options(settings) | {
        "acks": "all",
        "enable_idempotence": True,
        "transactional_id": transactional_id,
        "transaction_timeout_ms": milliseconds(settings.transaction_timeout_s),
        "delivery_timeout_ms": milliseconds(settings.delivery_timeout_s),
        "max_block_ms": milliseconds(settings.connect_timeout_s),
        "retry_backoff_ms": _RETRY_MS,
        "batch_size": _BATCH_BYTES,
        # The Publisher checks each record against max_message_bytes; a request also has framing.
        "max_request_size": settings.max_message_bytes + DEAD_LETTER_ROOM,
        "allow_auto_create_topics": False,
        "metrics_enabled": False,
    }
    return _opened(KafkaProducer, settings, options)[0]


def open_consumer(settings: KafkaSettings, **options: Any) -> Any:
    """A consumer that never commits or jumps to another offset by itself.

    It buffers little: a fetch returns up to a mebibyte per partition (the client's default), or
    one record if that is larger (KIP-74).
    """
    defaults = _options(settings) | {
        "enable_auto_commit": False,
        "auto_offset_reset": "none",
        "isolation_level": "read_committed",
        "allow_auto_create_topics": False,
        "receive_message_max_bytes": _ANSWER_BYTES + settings.max_message_bytes,
        "metadata_max_age_ms": _METADATA_AGE_MS,
        "metrics_enabled": False,
    }
    return _opened(KafkaConsumer, settings, defaults | options)[0]


def _options(settings: KafkaSettings) -> dict[str, Any]:
    """The options common to all kinds of clients (producer, consumer, admin)."""
    return {
        "bootstrap_servers": settings.servers,
        "client_id": settings.client_id,
        "bootstrap_timeout_ms": milliseconds(settings.connect_timeout_s),
        "request_timeout_ms": milliseconds(settings.request_timeout_s),
        "reconnect_backoff_max_ms": 1000,
        "security_protocol": settings.security_protocol,
        **login_options(settings),
    }


def milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


def all_theirs(partitions: Iterable[TopicPartition]) -> list[Any]:
    return [kafka.TopicPartition(*partition) for partition in partitions]


def their_offsets(offsets: Mapping[TopicPartition, int]) -> dict[Any, Any]:
    positions = [kafka.OffsetAndMetadata(offset, "", -1) for offset in offsets.values()]
    return dict(zip(all_theirs(offsets), positions, strict=True))


def _opened(
    kind: Callable[..., Any], settings: KafkaSettings, options: dict[str, Any]
) -> tuple[Any, Network]:
    """Construct and mend a client; on failure, stop its I/O thread and raise why."""
    started: list[Network] = []

    def network(**config: Any) -> Network:
        started.append(Network(**config))
        return started[-1]

    try:
        with _quiet_while_connecting():
            opened = kind(kafka_client=network, **options)
        mend(opened)
        return opened, started[0]
    except BaseException as error:
        # The client that failed leaves its I/O thread running.
        for stopped in started:
            with suppress(RuntimeError):  # Ctrl-C while its thread starts: it cannot be joined
                stopped.close()
        if isinstance(error, client.KafkaError | OSError):
            failure = started[0].failure if started else None
            raise _not_connected(settings, error, failure) from error
        raise


_CLIENT = logging.getLogger("kafka")
_lock = Lock()
_connecting: list[int] = []
"""The log level to restore, one entry for each connection in progress."""


@contextmanager
def _quiet_while_connecting() -> Iterator[None]:
    """Silence the client's log in the block, unless the log level is DEBUG.

    The client logs four lines for each failed try; if all fail, one error reports the cause.
    """
    if _CLIENT.isEnabledFor(logging.DEBUG):
        yield
        return
    with _lock:
        _connecting.append(_connecting[0] if _connecting else _CLIENT.level)
        _CLIENT.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        with _lock:
            level = _connecting.pop()
            if not _connecting:
                _CLIENT.setLevel(level)


_PASSWORD = "sasl_username, sasl_password and sasl_mechanism"
_CHECK = {
    "": "security_protocol and sasl_mechanism",
    "PLAIN": _PASSWORD,
    "SCRAM-SHA-256": _PASSWORD,
    "SCRAM-SHA-512": _PASSWORD,
    "OAUTHBEARER": "the token in sasl_oauth_token_file, or sasl_oauth_token_url, "
    "sasl_oauth_client_id, its secret and sasl_oauth_scope, and sasl_mechanism",
    "AWS_MSK_IAM": "the AWS credentials, their right kafka-cluster:Connect, and sasl_aws_region",
    "GSSAPI": "the ticket (klist), sasl_kerberos_service_name and sasl_kerberos_domain_name",
}
"""What to check if a login is refused, by the mechanism."""


def _not_connected(
    settings: KafkaSettings, error: Exception, failure: Exception | None
) -> Exception:
    """What to raise if a client raised `error`, and its last connection failed for `failure`."""
    servers = settings.bootstrap_servers
    if failure is not None and (reason := final_reason(failure)) is not None:
        return BadSettings(f"{servers}: {_meaning(reason, settings)}")
    meant = translate(error, f"connect to {servers} within {settings.connect_timeout_s:g} s")
    if failure is None or not isinstance(meant, BrokerUnavailable):
        return meant
    if "ECONNREFUSED" in str(failure):
        return nobody_listens(settings)
    lacking = {"PLAINTEXT": "TLS or a login", "SASL_PLAINTEXT": "TLS", "SSL": "a login"}
    protocol = settings.security_protocol
    hint = ""
    if protocol in lacking:
        hint = (
            f" (security_protocol is {protocol}: a broker that wants {lacking[protocol]} hangs up "
            "without a word)"
        )
    return BrokerUnavailable(f"{meant}; at the last try: {failure}{hint}")


def _whose_address(addresses: list[str]) -> str:
    return (
        f"the brokers tell clients to connect to {listed(addresses)}: if this machine cannot reach "
        "that, change the brokers' advertised.listeners, or give the address of another listener"
    )


def _meaning(reason: Exception, settings: KafkaSettings) -> str:
    """What the `final_reason` of a failure says of the settings."""
    if isinstance(reason, ssl.SSLCertVerificationError):
        authority = settings.ssl_cafile or "what the system trusts"
        return (
            f"its certificate is not trusted: {reason.verify_message}; ssl_cafile ({authority}) "
            "must hold the authority that signed it, and bootstrap_servers a name that it is for"
        )
    if isinstance(reason, ssl.SSLError):
        return (
            f"no TLS with it: {reason.reason or reason}; check security_protocol "
            f"({settings.security_protocol}), and ssl_certfile where it asks for a certificate"
        )
    mechanism = settings.sasl_mechanism or ""
    who = f" of {settings.sasl_username}" if settings.sasl_username else ""
    return f"it refused the login{who} by {mechanism}: {reason}; check {_CHECK[mechanism]}"
