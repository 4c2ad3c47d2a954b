"""Translate the client's errors to ours. Every call into the client goes through `translated`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kafka import errors as client

from stream_icd.errors import (
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

TOO_LARGE = (client.MessageSizeTooLargeError, client.RecordListTooLargeError)

# The first matching row decides; `RetriableError` is the client's "no broker answered (yet)".
_MEANINGS: tuple[tuple[type[Exception] | tuple[type[Exception], ...], type[Exception]], ...] = (
    (TOO_LARGE, MessageTooLarge),
    ((client.UnknownTopicOrPartitionError, client.InvalidTopicError), TopicMissing),
    ((client.OffsetOutOfRangeError, client.NoOffsetForPartitionError), OffsetGone),
    (
        (
            client.KafkaConfigurationError,
            client.SaslAuthenticationFailedError,
            client.UnsupportedSaslMechanismError,
            client.IllegalSaslStateError,
            client.InvalidSessionTimeoutError,
            client.InvalidTransactionTimeoutError,
            client.InvalidConfigurationError,
            client.InvalidPartitionsError,
            client.InvalidReplicationFactorError,
            client.PolicyViolationError,
        ),
        BadSettings,
    ),
    (client.UnsupportedVersionError, NotSupported),
    ((client.RetriableError, OSError), BrokerUnavailable),
    (client.KafkaError, BrokerError),
)


def translate(error: Exception, doing: str) -> Exception:
    """Our error that says what `error` means for the caller of `doing`."""
    if lacks_right(error):
        return NotAllowed(
            f"{doing}: {error}; the user of this program lacks a right. docs/security.md lists "
            "what each program needs"
        )
    for theirs, ours in _MEANINGS:
        if isinstance(error, theirs):
            return ours(f"{doing}: {error}")
    return error


def lacks_right(error: Exception) -> bool:
    """Whether the broker refused because we lack a permission.

    If a producer may write to no topic at all, the client (3.0.12) says so only in its message.
    """
    in_words = client.ClusterAuthorizationFailedError.__name__
    return isinstance(error, client.AuthorizationError) or in_words in str(error)


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Raise the client's errors as ours; `doing` starts the message, as in "publish to t"."""
    try:
        yield
    except (client.KafkaError, OSError) as error:
        raise translate(error, doing) from error
