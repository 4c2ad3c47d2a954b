"""The memory of a detector after a window, as a message of the memory topic (docs/wire.md)."""

from __future__ import annotations

import json
from dataclasses import dataclass

from stream_icd.core.errors import BadMemory
from stream_icd.core.headers import Headers
from stream_icd.core.snapshot import Window
from stream_icd.wire.limits import DEFAULT_LIMITS, Limits
from stream_icd.wire.message import (
    EVENT_TYPES,
    EventHeaders,
    Field,
    Fields,
    Message,
    event_message,
    graph_name_of,
    headers_of,
    refusing,
    result_id,
)

_NEXT_ID = "icd_next_id"
FIRST = "icd_first"
_HEADERS: Fields = {
    "icd_model": Field("model"),
    "icd_revision": Field("revision", optional=True, absent=""),
    "icd_snapshot_place": Field("snapshot_place", optional=True, absent=""),
    _NEXT_ID: Field("next_id", "whole", optional=True),
}


@dataclass(frozen=True, slots=True)
class MemoryState:
    """What a group of detectors remembers of a graph after a window.

    From the graph to the place of the snapshot, it is as the result that was published with it.
    """

    group: str  # the consumer group; each has a memory of its own
    graph: str
    snapshot_id: str
    window: Window
    model: str
    revision: str
    snapshot_place: str
    value: bytes  # the memory itself, as `memory.encoding.encode_memory` writes it
    # The first unused community id, if the message says it: also where the value cannot be read.
    next_id: int | None = None
    is_first: bool = False  # nothing was remembered of the graph before the window


def read_state_key(key: bytes | None, limits: Limits = DEFAULT_LIMITS) -> tuple[str, str]:
    """Return group and graph of a key; raises as `decode_state`."""
    with refusing(BadMemory, f"the key {key!r:.80} is not JSON of group and graph"):
        group, graph = json.loads(key or b"")
        return str(group), graph_name_of(str(graph).encode(), limits, BadMemory)


def encode_state(state: MemoryState, *, by_graph: bool = False) -> Message:
    """Encode a state as a message; the same state gives the same bytes.

    `by_graph`: its key is the graph alone, as in the archive, since groups with the same settings
    have the same states.
    """
    key = state.graph if by_graph else json.dumps([state.group, state.graph], ensure_ascii=False)
    return event_message(
        key.encode(),
        state.value,
        type=EVENT_TYPES["memory"],
        source=f"stream_icd/models/{state.model}",
        id=result_id(state.snapshot_id, state.model, state.revision),
        time=state.window,
        snapshot_id=state.snapshot_id,
        extra={**headers_of(_HEADERS, state), FIRST: "true" if state.is_first else None},
    )


def decode_state(
    key: bytes | None, value: bytes | None, headers: Headers, limits: Limits = DEFAULT_LIMITS
) -> MemoryState:
    """Decode a state, without its value; raises BadMemory and LimitExceeded, see `wire.message`."""
    with refusing(BadMemory, "the message cannot be read"):
        fields = EventHeaders(headers, EVENT_TYPES["memory"], limits, BadMemory)
        group, graph = read_state_key(key, limits)
        if not value:
            raise BadMemory("the message has no value; an Arrow table of nodes was expected")
        return MemoryState(
            group=group,
            graph=graph,
            snapshot_id=fields.text("icd_snapshot_id"),
            window=fields.window(),
            value=value,
            **fields.read(_HEADERS),
            is_first=fields.optional(FIRST) == "true",
        )


def next_id_in(headers: Headers) -> int | None:
    """Return the first unused community id that a message says, whatever else it holds."""
    # Without `EventHeaders`: an id may be given again if a damaged memory does not say this number.
    text = dict(headers).get(_NEXT_ID, b"")
    return int(text) if text.isdigit() and len(text) < 16 else None
