"""What a dead letter holds: whether it could be read today, and its table if it has one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from stream_icd.errors import BadInput
from stream_icd.pipeline.dead_letter_box import DeadLetter
from stream_icd.wire.arrow_stream import read_table
from stream_icd.wire.communities import (
    COMMUNITIES_TYPE,
    LABELS_TYPE,
    decode_communities,
    decode_labels,
)
from stream_icd.wire.events import EVENTS_TYPE, decode_events
from stream_icd.wire.limits import DEFAULT_LIMITS
from stream_icd.wire.snapshots import SNAPSHOT_TYPE, decode_snapshot

SHOWN_ROWS = 5

DECODERS: dict[str, Callable[..., Any]] = {
    SNAPSHOT_TYPE: decode_snapshot,
    COMMUNITIES_TYPE: decode_communities,
    LABELS_TYPE: decode_labels,
    EVENTS_TYPE: decode_events,
}


def verdict(letter: DeadLetter, value: bytes | None) -> str:
    """Whether it keeps the contract of its kind as this version reads it, or what is wrong."""
    kind = dict(letter.headers).get("ce_type", b"").decode(errors="replace")
    decode = DECODERS.get(kind, decode_snapshot)
    try:
        decode(letter.key, value, letter.headers)
    except BadInput as error:
        return f"it cannot be read: {type(error).__name__}: {error}"
    return f"it can be read, as {kind}: stream-icd dlq retry '{letter.place}' sends it again"


def first_rows(value: bytes | None) -> Iterator[str]:
    """Columns and first rows of the value, if it is an Arrow stream, whatever its columns are."""
    try:
        table = read_table(value or b"", None, DEFAULT_LIMITS, BadInput)
    except BadInput as error:
        yield f"no table: {error}"
        return
    yield f"table of {table.num_rows:,} rows:"
    yield from (f"  {field.name}: {field.type}" for field in table.schema)
    for row in table.slice(0, SHOWN_ROWS).to_pylist():
        yield f"  {row}"
