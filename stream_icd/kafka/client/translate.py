"""Translate the client's errors to ours."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager

from kafka import errors as client

from stream_icd.core.errors import (
    BadSettings,
    BrokerError,
    BrokerUnavailable,
    MessageTooLarge,
    NotAllowed,
    NotSupported,
    OffsetGone,
    TopicMissing,
)
from stream_icd.core.printable import listed
from stream_icd.kafka.settings import KafkaSettings, nobody_listens

# The group gave our partitions to another member, or is about to.
GROUP_MOVED_ON = (
    client.CommitFailedError,
    client.IllegalGenerationError,
    client.UnknownMemberIdError,
    client.FencedInstanceIdError,
    client.RebalanceInProgressError,
)

_LOGIN_REFUSED = (
    client.SaslAuthenticationFailedError,
    client.UnsupportedSaslMechanismError,
    client.IllegalSaslStateError,
)

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

TOO_LARGE = (client.MessageSizeTooLargeError, client.RecordListTooLargeError)

# The first matching row decides; `RetriableError` is the client's "no broker answered (yet)".
_MEANINGS: tuple[tuple[type[Exception] | tuple[type[Exception], ...], type[Exception]], ...] = (
    (TOO_LARGE, MessageTooLarge),
    ((client.UnknownTopicOrPartitionError, client.InvalidTopicError), TopicMissing),
    ((client.OffsetOutOfRangeError, client.NoOffsetForPartitionError), OffsetGone),
    (
        (
            client.KafkaConfigurationError,
            *_LOGIN_REFUSED,
            client.InvalidConfigurationError,
            client.InvalidPartitionsError,
            client.InvalidReplicationFactorError,
            client.PolicyViolationError,
        ),
        BadSettings,
    ),
    ((client.RetriableError, OSError), BrokerUnavailable),
    (client.KafkaError, BrokerError),
)


# What a broker refuses, as the client (3.0.12) says it in words, and the way out.
_TIMEOUTS = {
    client.InvalidSessionTimeoutError.__name__: "STREAM_ICD_SESSION_TIMEOUT_S to what the broker's "
    "group.min.session.timeout.ms and group.max.session.timeout.ms allow",
    client.InvalidTransactionTimeoutError.__name__: "STREAM_ICD_TRANSACTION_TIMEOUT_S to at most "
    "the broker's transaction.max.timeout.ms",
}


def translate(error: Exception, doing: str) -> Exception:
    """Our error that says what `error` means for the caller of `doing`."""
    if lacks_right(error):
        return NotAllowed(
            f"{doing}: {error}; the user of this program lacks a right. docs/security.md lists "
            "what each program needs"
        )
    if isinstance(error, client.UnsupportedVersionError | client.UnrecognizedBrokerVersion):
        return NotSupported(
            f"{doing}: {error}; the broker is too old, or of another kind: docs/guarantees.md says "
            "which Apache Kafka to use"
        )
    if isinstance(error, client.InvalidReceiveError):
        return BrokerError(
            f"{doing}: {error}; what answers is not Kafka, or wants another security_protocol: "
            "check the address, and STREAM_ICD_SECURITY_PROTOCOL"
        )
    for name, setting in _TIMEOUTS.items():
        if name in str(error):
            return BadSettings(f"{doing}: {error}; change {setting}")
    for theirs, ours in _MEANINGS:
        if isinstance(error, theirs):
            return ours(f"{doing}: {error}")
    return error


def lacks_right(error: Exception) -> bool:
    """Whether the broker refused because we lack a permission; if a producer may write to no topic
    at all, the client (3.0.12) says so only in its message."""
    in_words = client.ClusterAuthorizationFailedError.__name__
    return isinstance(error, client.AuthorizationError) or in_words in str(error)


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Raise the client's errors as ours; `doing` starts the message, as in "publish to t"."""
    try:
        yield
    except (client.KafkaError, OSError) as error:
        raise translate(error, doing) from error


def not_connected(
    settings: KafkaSettings, error: Exception, failure: Exception | None
) -> Exception:
    """What to raise if a client raised `error`, and its last connection failed for `failure`."""
    servers = settings.bootstrap_servers
    if failure is not None and is_final(failure):
        return BadSettings(f"{servers}: {_meaning(failure, settings)}")
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


def wrongly_advertised(settings: KafkaSettings, addresses: list[str]) -> BrokerUnavailable:
    """What to raise if a broker answers, and none is where it tells clients to connect."""
    return BrokerUnavailable(
        f"a broker answers at {settings.bootstrap_servers}, but nobody listens where it tells "
        f"clients to connect; {whose_address(addresses)}"
    )


def whose_address(addresses: list[str]) -> str:
    """Return which addresses brokers gave, and what to change if this machine cannot reach them."""
    return (
        f"the brokers tell clients to connect to {listed(addresses)}: if this machine cannot reach "
        "that, change the brokers' advertised.listeners, or give the address of another listener"
    )


def _meaning(failure: Exception, settings: KafkaSettings) -> str:
    tls = _tls_error(failure)
    if isinstance(tls, ssl.SSLCertVerificationError):
        authority = settings.ssl_cafile or "what the system trusts"
        return (
            f"its certificate is not trusted: {tls.verify_message}; ssl_cafile ({authority}) "
            "must hold the authority that signed it, and bootstrap_servers a name that it is for"
        )
    if tls is not None:
        return (
            f"no TLS with it: {tls.reason or tls}; check security_protocol "
            f"({settings.security_protocol}), and ssl_certfile where it asks for a certificate"
        )
    mechanism = settings.sasl_mechanism or ""
    who = f" of {settings.sasl_username}" if settings.sasl_username else ""
    return f"it refused the login{who} by {mechanism}: {failure}; check {_CHECK[mechanism]}"


def is_final(failure: Exception) -> bool:
    """Whether a retry will fail in the same way, because the failure does not depend on time."""
    tls = _tls_error(failure)
    hung_up = isinstance(tls, ssl.SSLEOFError | ssl.SSLZeroReturnError | ssl.SSLSyscallError)
    return isinstance(failure, _LOGIN_REFUSED) or (tls is not None and not hung_up)


def _tls_error(failure: Exception) -> ssl.SSLError | None:
    """The TLS error inside the client's error, as its cause or as its argument."""
    candidates = (failure.__context__, *failure.args)
    return next((error for error in candidates if isinstance(error, ssl.SSLError)), None)
