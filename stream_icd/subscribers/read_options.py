"""The options that all subscriptions share: as keywords of a call, and checked."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypedDict

from stream_icd.errors import BadInput, BadSettings
from stream_icd.kafka.record import Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.messages.claim_settings import ClaimSettings
from stream_icd.messages.reader import MessageReader
from stream_icd.printable import did_you_mean, printable
from stream_icd.tracking.gaps import Gap
from stream_icd.wire.limits import Limits

Start = Literal["beginning", "latest"] | datetime
Until = Literal["forever", "end"]
Revisions = Literal["newest", "all"]
OnBad = Callable[[Record, BadInput], None]
OnGap = Callable[[Gap], None]

# The standard library's: without a configuration it writes warnings to standard error, where they
# do not mix with results.
LOG = logging.getLogger(__name__)


class SubscribeOptions(TypedDict, total=False):
    """The keyword arguments that all subscribe functions take; `subscribe` explains them.

    None is the same as leaving one out.
    """

    model: str | None
    start: Start | None
    until: Until | None
    limit: int | None
    group: str | None
    revisions: Revisions | None
    settings: KafkaSettings | None
    topic: str | None
    limits: Limits | None
    claims: ClaimSettings | None
    on_bad: OnBad | None
    on_gap: OnGap | None


def log_bad(record: Record, error: BadInput) -> None:
    """Log a message that does not belong in its topic."""
    LOG.warning("skipped %s: %s", record.place, printable(str(error)))


def log_gap(gap: Gap) -> None:
    """Log windows that are missing."""
    LOG.warning("%s", printable(str(gap)))


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Which results to read, from where, and how to report errors; see `read_options`.

    Raises:
        BadSettings: the options exclude each other.
    """

    topic: str
    graph: str | None = None
    model: str | None = None
    start: Start | None = None
    until: Until = "forever"
    limit: int | None = None
    group: str | None = None
    revisions: Revisions = "newest"
    settings: KafkaSettings = field(default_factory=KafkaSettings)
    reader: MessageReader = field(default_factory=MessageReader)
    on_bad: OnBad = log_bad
    on_gap: OnGap = log_gap

    def __post_init__(self) -> None:
        if self.group is not None and (self.start is not None or self.until == "end"):
            raise BadSettings(
                f"group {self.group!r} continues at its position and does not end: leave out start "
                f"(--from) and until (--until), or the group"
            )

    def want(self, record: Record) -> bool:
        """Return whether a record is requested, by its key and its headers."""
        if self.graph is not None and record.key != self.graph.encode():
            return False
        if self.model is None:
            return True
        version = dict(record.headers).get("icd_model", b"").decode(errors="replace")
        return self.model in (version, version.rpartition("@")[0])


def read_options(graph: str | None, topic: str, given: SubscribeOptions) -> ReadOptions:
    """Return the keyword arguments of a subscriber with their defaults, checked.

    topic: the default topic.

    Raises:
        TypeError: there is no such keyword.
        BadSettings: the options exclude each other, or a setting in the environment is wrong.
    """
    known = SubscribeOptions.__annotations__
    if unknown := given.keys() - known:
        name = min(unknown)
        raise TypeError(f"subscribe functions have no argument {name!r}{did_you_mean(name, known)}")
    chosen: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    claims, limits = chosen.pop("claims", None), chosen.pop("limits", None)
    reader = MessageReader(claims or ClaimSettings(), limits or Limits())
    return ReadOptions(graph=graph, reader=reader, **{"topic": topic, **chosen})
