"""Every error that stream_icd raises on purpose, and what the caller should do about it.

StreamIcdError                                            stop, where nothing else is said
├── BadInput                                              dead-letter the record, and go on
│   ├── BadSnapshot, BadCommunities, BadEvents, BadMemory, BadAnnouncement, BadKnown
│   ├── BadMember
│   ├── BadClaim
│   │   └── ClaimRefused, ClaimedObjectMissing, ClaimedObjectAltered
│   ├── BadAlert, AlertRefused
│   └── BadRow, NoGoodRows, LimitExceeded, OverBudget, CrashedWorker
├── ContentChanged, MissingExtra, SourceNotFound, HistoryDamaged, TooManyDeadLetters
├── BadSettings
│   └── NotFitted (in estimator.py)
├── ModelError
│   └── ModelNotFound, ModelDamaged, ModelForeign, ModelTooNew, RegistryDamaged, ChampionChanged
├── StoreError
│   └── StoreUnreachable, StoreUnwritable                 retry
├── BrokerError
│   ├── BrokerUnavailable, DeliveryFailed, ClientStuck    retry
│   │   └── NameTaken (a DeliveryFailed)                  stop
│   ├── MessageTooLarge
│   │   └── RecordTooLarge
│   ├── TopicMissing, OffsetGone, OffsetHeld, RecordUndecodable
│   └── NotAllowed, NotSupported
├── ReceiverUnavailable                                   retry
├── Overloaded                                            slow down
└── WorkersLost                                           retry
"""

from __future__ import annotations

import copyreg
from collections.abc import Iterator
from enum import Enum
from typing import Any, ClassVar


class Action(Enum):
    """What the caller of a failed operation should do next."""

    RETRY = "retry"
    SLOW_DOWN = "slow down"
    DEAD_LETTER = "dead-letter"
    STOP = "stop"


class StreamIcdError(Exception):
    """Base of all errors of this library; `action` says what to do."""

    action: ClassVar[Action] = Action.STOP

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles have the attributes of kinds that take more than a message."""
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]

    @classmethod
    def kinds(cls) -> Iterator[type[StreamIcdError]]:
        """Yield this error and all kinds of it."""
        yield cls
        for kind in cls.__subclasses__():
            yield from kind.kinds()


class BadInput(StreamIcdError):
    """A record that can never succeed, however often it is tried."""

    action = Action.DEAD_LETTER


class BadSnapshot(BadInput):
    """An edge table or its headers break the snapshot contract (docs/wire.md)."""


class BadCommunities(BadInput):
    """A communities message breaks its contract (docs/wire.md)."""


class BadEvents(BadInput):
    """An events message breaks its contract (docs/wire.md)."""


class BadAnnouncement(BadInput):
    """An announcement about a model breaks its contract (docs/wire.md)."""


class BadKnown(BadInput):
    """The known community of a node breaks its contract (docs/wire.md)."""


class BadMember(BadInput):
    """A row of a node's community breaks its contract (docs/wire.md)."""


class BadAlert(BadInput):
    """An alert breaks its contract (docs/wire.md)."""


class AlertRefused(BadInput):
    """A receiver of alerts refused one, or did not take it in time; the message names both."""


class BadMemory(BadInput):
    """A detector's memory of a graph breaks its contract."""


class BadClaim(BadInput):
    """The headers of a claim break the contract (docs/wire.md)."""


class ClaimRefused(BadClaim):
    """The claimed object is outside the reader's claim store, or no claim store is set."""


class ClaimedObjectMissing(BadClaim):
    """The claimed object does not exist (any more); the message names it."""


class ClaimedObjectAltered(BadClaim):
    """The claimed object differs from its claim in size or SHA-256; the message names it."""


class BadRow(BadInput):
    """A row of a source cannot be read; the message names file, line and value."""


class NoGoodRows(BadInput):
    """No row of a source can be read; the message says how many rows there are."""


class LimitExceeded(BadInput):
    """A count or a size is above its configured limit; the message names both."""


class OverBudget(BadInput):
    """A record took more time or memory than its budget; the message names both."""


class CrashedWorker(BadInput):
    """A record ended its worker, or a process of it; at the third time in a row it is given up."""


class ContentChanged(StreamIcdError):
    """Snapshots were not sent: the topic holds them with different content. Lists them."""


class BadSettings(StreamIcdError):
    """An option, a setting or an argument is wrong; the message names the value and the way out."""


class MissingExtra(StreamIcdError):
    """An optional dependency is needed and not installed; the message says how to install it."""


class ModelError(StreamIcdError):
    """A saved model cannot be used."""


class ModelNotFound(ModelError):
    """No model has that name or path; the message lists the available models."""


class ModelDamaged(ModelError):
    """A model's files are truncated, altered, or disagree with its recipe."""


class ModelForeign(ModelError):
    """The files are not a model of this library."""


class ModelTooNew(ModelError):
    """The model was written by a later version of this library."""


class RegistryDamaged(ModelError):
    """A file of a model registry is truncated, altered or of a later version; names the file."""


class ChampionChanged(ModelError):
    """Another promotion or rollback came first; nothing was changed. Names the champion now."""


class SourceNotFound(StreamIcdError):
    """The input file or folder does not exist; the message says where to get it."""


class StoreError(StreamIcdError):
    """A file system failed."""


class StoreUnreachable(StoreError):
    """Files cannot be listed or read: no answer, or no permission."""

    action = Action.RETRY


class StoreUnwritable(StoreError):
    """A file could not be written; no partial file is visible, and the message says why."""

    action = Action.RETRY


class HistoryDamaged(StreamIcdError):
    """A file cannot be read, or is not an archive file; the message names it."""


class BrokerError(StreamIcdError):
    """Communication with Kafka failed."""


class BrokerUnavailable(BrokerError):
    """No broker answers at the bootstrap address."""

    action = Action.RETRY


class DeliveryFailed(BrokerError):
    """A record was not acknowledged; it may be sent again (readers drop duplicates)."""

    action = Action.RETRY


class NameTaken(DeliveryFailed):
    """Another program with the same name has started transactions and replaced this one."""

    action = Action.STOP


class MessageTooLarge(BrokerError):
    """A record is larger than its topic or its reader accepts; the message names both sizes."""


class RecordTooLarge(MessageTooLarge):
    """A record was not published because it is too large for its topic.

    `size` is that of the record in the topic, bytes.
    """

    def __init__(self, message: str, topic: str, size: int) -> None:
        super().__init__(message)
        self.topic = topic
        self.size = size


class TopicMissing(BrokerError):
    """The topic does not exist; the message says how to create it."""


class OffsetGone(BrokerError):
    """Retention has removed the requested offset; the message names the offsets left."""


class OffsetHeld(BrokerError):
    """A transaction that should have ended still holds a group's offset on the broker."""


class RecordUndecodable(BrokerError):
    """The client cannot decode records; the message names them and says how to skip them."""


class ClientStuck(BrokerError):
    """A call into the Kafka client does not return; the message names what it was reading."""

    action = Action.RETRY


class NotAllowed(BrokerError):
    """The user of this program lacks a permission; the message names the operation."""


class NotSupported(BrokerError):
    """The broker does not support the delivery guarantee that was requested."""


class TooManyDeadLetters(StreamIcdError):
    """A worker stopped because too many of its records became dead letters."""


class ReceiverUnavailable(StreamIcdError):
    """A receiver of alerts does not answer, or asks to try again later."""

    action = Action.RETRY


class Overloaded(StreamIcdError):
    """There is more work than memory or limits allow."""

    action = Action.SLOW_DOWN


class WorkersLost(StreamIcdError):
    """Worker processes end before they are ready; no record causes this."""

    action = Action.RETRY
