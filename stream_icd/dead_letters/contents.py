"""Contents of a dead letter: whether it is valid now, and its table if it has one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from stream_icd.errors import BadInput, StoreUnreachable
from stream_icd.kafka.record import Record
from stream_icd.messages.reader import MessageReader
from stream_icd.wire.arrow_stream import read_table
from stream_icd.wire.communities import (
    COMMUNITIES_TYPE,
    LABELS_TYPE,
    decode_communities,
    decode_labels,
)
from stream_icd.wire.events import EVENTS_TYPE, decode_events
from stream_icd.wire.message import refusing
from stream_icd.wire.snapshots import SNAPSHOT_TYPE, decode_snapshot

SHOWN_ROWS = 5

DECODERS: dict[str, Callable[..., Any]] = {
    SNAPSHOT_TYPE: decode_snapshot,
    COMMUNITIES_TYPE: decode_communities,
    LABELS_TYPE: decode_labels,
    EVENTS_TYPE: decode_events,
}


def verdict(record: Record, reader: MessageReader) -> str:
    """Return whether it is a valid message with the current settings, or what is wrong."""
    kind = dict(record.headers).get("ce_type", b"").decode(errors="replace")
    decode = DECODERS.get(kind, decode_snapshot)
    try:
        reader.decoded(record, decode)
    except (BadInput, StoreUnreachable) as error:
        return f"it cannot be read: {type(error).__name__}: {error}"
    return f"it can be read, as {kind}"


def first_rows(record: Record, reader: MessageReader) -> Iterator[str]:
    """Yield columns and first rows of its value (or claimed value), if it is an Arrow stream."""
    try:
        whole = reader.whole(record)
        table = read_table(whole.value or b"", None, reader.limits, BadInput)
        with refusing(BadInput, "its rows cannot be shown"):
            lines = list(_rows(table))
    except (BadInput, StoreUnreachable) as error:
        yield f"no table: {error}"
        return
    yield from lines


def _rows(table: pa.Table) -> Iterator[str]:
    yield f"table of {table.num_rows:,} rows:"
    yield from (f"  {field.name}: {field.type}" for field in table.schema)
    for row in table.slice(0, SHOWN_ROWS).to_pylist():
        yield f"  {row}"
