"""Which results were seen: a repetition is told from a correction, in the order of the topic.

A *result* is what a model says of a snapshot: `(graph, snapshot id, model)`. It has *revisions*:
the snapshot was corrected, or the detector was given another K or seed. The revision that comes
later in the topic replaces the one before. A revision is a repetition when it is the newest one
already, or when it was made from the same record of the snapshots topic as one that was seen: a
detector that was restarted publishes old revisions once more, and the newest ones after them. A
correction that is taken back comes from another record, so it is the newest again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple, TypeVar

from stream_icd.kafka.record import Record
from stream_icd.wire.events import is_late

REMEMBERED = 100_000
"""How many results back a repetition is recognised."""

Name = tuple[bytes, bytes, bytes]
"""Graph, snapshot id and model."""

Key = TypeVar("Key")
Value = TypeVar("Value")


class Result(NamedTuple):
    """Which result a record holds, by its headers.

    Attributes:
        revision: empty where the message does not say it.
        made_from: place of its snapshot in the snapshots topic; empty where it is not said.
    """

    name: Name
    revision: bytes
    made_from: bytes


def result_of(record: Record) -> Result:
    """Which result a record of communities or of events holds."""
    headers = dict(record.headers)
    named = headers.get("icd_snapshot_id", b""), headers.get("icd_model", b"")
    return Result(
        name=(record.key or b"", *named),
        revision=headers.get("icd_revision", b""),
        made_from=headers.get("icd_snapshot_place", b""),
    )


class SeenResults:
    """The last `REMEMBERED` results that were seen.

    Args:
        before: what was seen earlier; it is looked at, and not changed.
    """

    def __init__(self, before: SeenResults | None = None) -> None:
        self._before = before
        self._newest: OrderedDict[Name, bytes] = OrderedDict()
        self._seen: OrderedDict[Result, None] = OrderedDict()

    def __contains__(self, result: Result) -> bool:
        """Whether it is a repetition."""
        return self._newest_of(result.name) == result.revision or self._has_seen(result)

    def add(self, result: Result) -> None:
        """See a result: it is the newest revision now."""
        _put(self._newest, result.name, result.revision)
        _put(self._seen, result, None)

    def take_back(self, result: Result) -> None:
        """Forget a result that was added here, as if it had not been seen."""
        del self._seen[result], self._newest[result.name]
        self._newest |= {one.name: one.revision for one in self._seen if one.name == result.name}

    def is_new(self, result: Result) -> bool:
        """Add a result; False where it is a repetition."""
        if result in self:
            return False
        self.add(result)
        return True

    def forget(self, key: bytes | None) -> None:
        """Forget all results of a graph: those that come again are new."""
        for name in [name for name in self._newest if name[0] == key]:
            del self._newest[name]
        for result in [result for result in self._seen if result.name[0] == key]:
            del self._seen[result]

    def keep(self) -> None:
        """Add to what was seen before all that was added here since."""
        assert self._before is not None, "there is somewhere to keep it"
        for result in self._seen:
            self._before.add(result)

    def _newest_of(self, name: Name) -> bytes | None:
        if name in self._newest or self._before is None:
            return self._newest.get(name)
        return self._before._newest_of(name)

    def _has_seen(self, result: Result) -> bool:
        if result in self._seen or self._before is None:
            return result in self._seen
        return self._before._has_seen(result)


class Superseded:
    """Records of a topic that a later revision replaces, of those that it holds now."""

    def __init__(self, records: Iterable[Record]) -> None:
        seen = SeenResults()
        self._newest: dict[Name, tuple[int, int]] = {}
        for record in records:
            result = result_of(record)
            if not is_late(record.headers) and seen.is_new(result):
                self._newest[result.name] = record.partition, record.offset

    def holds(self, record: Record) -> bool:
        """Whether a newer revision was there when the topic was read."""
        partition, offset = self._newest.get(result_of(record).name, (-1, -1))
        return partition == record.partition and record.offset < offset


def _put(entries: OrderedDict[Key, Value], key: Key, value: Value) -> None:
    entries[key] = value
    entries.move_to_end(key)
    if len(entries) > REMEMBERED:
        entries.popitem(last=False)
