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

_HUNG_UP = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)

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
    if _lacks_right(error):
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


def _lacks_right(error: Exception) -> bool:
    # If a producer may write to no topic at all, the client (3.0.12) says so only in its message.
    in_words = client.ClusterAuthorizationFailedError.__name__
    return isinstance(error, client.AuthorizationError) or in_words in str(error)


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Raise the client's errors as ours; `doing` starts the message, as in "publish to t"."""
    try:
        yield
    except (client.KafkaError, OSError) as error:
        raise translate(error, doing) from error


def final_reason(failure: Exception) -> Exception | None:
    """Why a retry will fail as this connection did: the TLS error inside the client's error, or the
    refused login. None if the failure may pass."""
    candidates = (failure.__context__, *failure.args)
    tls = next((error for error in candidates if isinstance(error, ssl.SSLError)), None)
    # A broker that starts hangs up, too.
    if tls is not None and not isinstance(tls, _HUNG_UP):
        return tls
    return failure if isinstance(failure, _LOGIN_REFUSED) else None
