"""Archiving a stream: each record is stored once, before its offset is committed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from stream_icd.core.errors import BadInput
from stream_icd.core.headers import Headers
from stream_icd.history.archive import Archive
from stream_icd.history.files import FileKind
from stream_icd.kafka.messages.claims import MessageReader
from stream_icd.kafka.messages.records import Outcome, Processed, Refused
from stream_icd.kafka.record import Record
from stream_icd.kafka.topics import COMMUNITIES, EVENTS, LABELS, MEMORY, SNAPSHOTS
from stream_icd.methods.memory.encoding import decode_memory, is_of_this_version
from stream_icd.streaming.workers.step import Step
from stream_icd.wire.communities import (
    decode_communities,
    decode_labels,
    encode_communities,
    encode_labels,
)
from stream_icd.wire.events import decode_events, encode_events, is_late
from stream_icd.wire.limits import Limits
from stream_icd.wire.message import Message
from stream_icd.wire.snapshots import decode_snapshot, encode_snapshot
from stream_icd.wire.states import MemoryState, decode_state, encode_state

TOPICS: dict[FileKind, str] = {
    "snapshots": SNAPSHOTS,
    "labels": LABELS,
    "communities": COMMUNITIES,
    "events": EVENTS,
    "memory": MEMORY,
}

_RESET: tuple[FileKind, ...] = ("events", "memory")
"""Kinds of which a message without a value says that an operator made a graph start anew."""

_CONTENT = "icd_content"


def _whole_state(
    key: bytes | None, value: bytes | None, headers: Headers, limits: Limits
) -> MemoryState:
    # What it holds is decoded, too: other tables may be unfit for Parquet, or too large.
    state = decode_state(key, value, headers, limits)
    if is_of_this_version(state.value):
        decode_memory(state.value, limits)
    return state


CODECS: dict[FileKind, tuple[Callable[..., Any], Callable[[Any], Message]]] = {
    "snapshots": (decode_snapshot, encode_snapshot),
    "labels": (decode_labels, encode_labels),
    "communities": (decode_communities, encode_communities),
    "events": (decode_events, encode_events),
    "memory": (_whole_state, partial(encode_state, by_graph=True)),
}
"""Decoder and encoder of each kind of message that is archived."""


class Archiver(Step):
    """Stores each record in the archive, once: a record that is delivered again changes nothing.

    All records of a batch are durable when the batch ends, so its offsets may be committed.
    StoreUnwritable is raised if, for example, the disk is full.
    """

    stages = ("archive",)

    def __init__(
        self, archive: Archive, kind: FileKind, reader: MessageReader | None = None
    ) -> None:
        self._archive, self.place = archive, archive.store.place
        self._kind = kind
        self._reader = reader or MessageReader()

    def process(self, record: Record) -> Outcome:
        if self._kind in _RESET and record.value is None:
            return Processed("nothing to archive", {"kind": self._kind})
        try:
            received, message = (record.timestamp_ms, record.offset), self._checked(record)
            if self._kind == "memory" and not is_of_this_version(message.value):
                return Processed("not archived: of another version", {"kind": self._kind})
            if self._kind == "events" and is_late(message.headers):  # it replaces no other message
                return Processed("not archived: the window was late", {"kind": self._kind})
            # Durable when this returns, since the offset is committed after the batch.
            new = self._archive.add(self._kind, message, received)
        except BadInput as error:
            return Refused("archive", error)
        return Processed("archived" if new else "archived before", {"kind": self._kind})

    def _checked(self, record: Record) -> Message:
        """Return the record as a message in canonical form, with its original headers, and instead
        of a claim what it claims, since that may be deleted later.

        A snapshot always gets the hash of its content, which distinguishes its revisions.
        """
        decode, encode = CODECS[self._kind]
        whole = self._reader.whole(record)
        message = encode(decode(whole.key, whole.value, whole.headers, self._reader.limits))
        content = dict(message.headers).get(_CONTENT)
        if self._kind != "snapshots" or dict(whole.headers).get(_CONTENT) == content:
            return Message(message.key, message.value, whole.headers)
        headers = (header for header in whole.headers if header[0] != _CONTENT)
        return Message(message.key, message.value, (*headers, (_CONTENT, content or b"")))
