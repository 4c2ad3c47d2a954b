"""Every error that stream_icd raises on purpose, and what the caller should do about it.

StreamIcdError
├── BadInput                 dead-letter   this record can never succeed; set it aside and go on
│   ├── BadSnapshot                        an edge table or its headers break the wire contract
│   ├── BadCommunities                     a communities message breaks the wire contract
│   ├── BadEvents                          an events message breaks the wire contract
│   ├── BadMemory                          what a detector remembers cannot be read
│   ├── BadClaim                           a message says wrongly where its bytes are
│   │   ├── ClaimRefused                   in a place that is not ours to read from
│   │   ├── ClaimedObjectMissing           nothing is there (any more)
│   │   └── ClaimedObjectAltered           other bytes are there
│   ├── BadRow                             a row of a source file or stream cannot be read
│   ├── NoGoodRows                         no row of a source can be read
│   ├── LimitExceeded                      a count or size is above a configured limit
│   ├── OverBudget                         work on it took more time or memory than is allowed
│   └── CrashedWorker                      work on it ended its worker, time after time
├── ContentChanged           stop          snapshots were sent before with other content
├── BadSettings              stop          an option, a setting or an argument is wrong
├── MissingExtra             stop          an optional dependency is not installed
├── ModelError               stop          a saved model cannot be used
│   ├── ModelNotFound
│   ├── ModelDamaged                       truncated, altered, or not what its recipe declares
│   ├── ModelForeign                       not one of our models at all
│   └── ModelTooNew                        written by a later version of this library
├── SourceNotFound           stop          the file or folder to read from does not exist
├── StoreError
│   ├── StoreUnreachable     retry         a file system does not answer
│   └── StoreUnwritable      retry         a disk is full, or may not be written
├── HistoryDamaged           stop          a file of the archive cannot be read
├── BrokerError
│   ├── BrokerUnavailable    retry         nobody answers at the bootstrap address
│   ├── DeliveryFailed       retry         the broker did not acknowledge a record
│   │   └── NameTaken        stop          another program works under the same name
│   ├── MessageTooLarge      stop          a record is above the topic's limit, or ours
│   │   └── RecordTooLarge                 one of ours, which was not published
│   ├── TopicMissing         stop          the topic does not exist
│   ├── OffsetGone           stop          the position asked for was removed by retention
│   ├── OffsetHeld           stop          the broker never ends the transaction that holds it
│   ├── RecordUndecodable    stop          the client cannot decode what the broker holds
│   ├── ClientStuck          retry         a call into the client does not return
│   ├── NotAllowed           stop          the broker lets this user not do it
│   └── NotSupported         stop          this broker cannot keep the promise asked for
├── TooManyDeadLetters       stop          a worker was setting nearly everything aside
├── Overloaded               slow down     more work was offered than may be held
└── WorkersLost              retry         worker processes end before they are open
"""

from __future__ import annotations

from enum import Enum
from typing import ClassVar


class Action(Enum):
    """What the caller of a failed operation should do next."""

    RETRY = "retry"
    SLOW_DOWN = "slow down"
    DEAD_LETTER = "dead-letter"
    STOP = "stop"


class StreamIcdError(Exception):
    """Base of all errors of this library; `action` says what to do."""

    action: ClassVar[Action] = Action.STOP


class BadInput(StreamIcdError):
    """A record that can never succeed, however often it is tried."""

    action = Action.DEAD_LETTER


class BadSnapshot(BadInput):
    """An edge table or its headers break the snapshot contract (docs/wire.md)."""


class BadCommunities(BadInput):
    """A communities message breaks its contract (docs/wire.md)."""


class BadEvents(BadInput):
    """An events message breaks its contract (docs/wire.md)."""


class BadMemory(BadInput):
    """What a detector remembers of a graph breaks its contract."""


class BadClaim(BadInput):
    """Headers that say where a message's bytes are break the contract (docs/wire.md)."""


class ClaimRefused(BadClaim):
    """The bytes are not below the place that was set for them, or none was set."""


class ClaimedObjectMissing(BadClaim):
    """There is no object of that name (any more); the message names it."""


class ClaimedObjectAltered(BadClaim):
    """The object has another size or other bytes than the message says; the message names it."""


class BadRow(BadInput):
    """A row of a source cannot be read; the message names file, line and value."""


class NoGoodRows(BadInput):
    """A source has rows, and none of them can be read; the message says how many."""


class LimitExceeded(BadInput):
    """A count or a size is above its configured limit; the message names both."""


class OverBudget(BadInput):
    """Work on it took more time or memory than its size allows; the message names both."""


class CrashedWorker(BadInput):
    """Work on it ended its worker, by a crash or the same error, time after time."""


class ContentChanged(StreamIcdError):
    """Snapshots are in the topic with other content and were not sent; the message names them."""


class BadSettings(StreamIcdError):
    """An option, a setting or an argument is wrong; the message names value and way out."""


class MissingExtra(StreamIcdError):
    """An optional dependency is needed and not installed; the message says how to install it."""


class ModelError(StreamIcdError):
    """A saved model cannot be used."""


class ModelNotFound(ModelError):
    """No model of that name or path; the message lists the ones there are."""


class ModelDamaged(ModelError):
    """A model's files are truncated, altered, or disagree with its recipe."""


class ModelForeign(ModelError):
    """The files are not a model of this library."""


class ModelTooNew(ModelError):
    """The model was written by a later version of this library."""


class SourceNotFound(StreamIcdError):
    """The file or folder to read from does not exist; the message says where to get it."""


class StoreError(StreamIcdError):
    """Something is wrong with a file system."""


class StoreUnreachable(StoreError):
    """Files cannot be listed or read: no answer, or no permission."""

    action = Action.RETRY


class StoreUnwritable(StoreError):
    """A file could not be written; nothing of it is visible, and the message says why."""

    action = Action.RETRY


class HistoryDamaged(StreamIcdError):
    """A file of the archive cannot be read, or is no file of one; the message names it."""


class BrokerError(StreamIcdError):
    """Something between us and Kafka went wrong."""


class BrokerUnavailable(BrokerError):
    """Nobody answers at the bootstrap address."""

    action = Action.RETRY


class DeliveryFailed(BrokerError):
    """A record was not acknowledged; it may be sent again (readers keep one of two)."""

    action = Action.RETRY


class NameTaken(DeliveryFailed):
    """Another program has begun transactions under the name of this one, which cannot any more."""

    action = Action.STOP


class MessageTooLarge(BrokerError):
    """A record is larger than its topic accepts, or its reader; the message names both sizes."""


class RecordTooLarge(MessageTooLarge):
    """A record was not published because it is too large for its topic.

    Attributes:
        topic: the topic that it was for.
        size: bytes that it would have taken there.
    """

    def __init__(self, message: str, topic: str, size: int) -> None:
        super().__init__(message)
        self.topic = topic
        self.size = size


class TopicMissing(BrokerError):
    """The topic does not exist; the message says how to create it."""


class OffsetGone(BrokerError):
    """Retention has removed the position asked for; the message names what is left."""


class OffsetHeld(BrokerError):
    """The broker keeps a group's position back, for a transaction that it should have ended."""


class RecordUndecodable(BrokerError):
    """The client cannot decode records; the message names them, and how to pass over them."""


class ClientStuck(BrokerError):
    """A call into the Kafka client does not return; the message names what it was reading."""

    action = Action.RETRY


class NotAllowed(BrokerError):
    """The user that we logged in as lacks a right; the message names what it was for."""


class NotSupported(BrokerError):
    """The broker cannot keep the promise that was asked for."""


class TooManyDeadLetters(StreamIcdError):
    """A worker was setting nearly all of its input aside, so it stopped instead."""


class Overloaded(StreamIcdError):
    """More work was offered than may be held at once."""

    action = Action.SLOW_DOWN


class WorkersLost(StreamIcdError):
    """Worker processes end before they are open, which is no record's fault."""

    action = Action.RETRY
