"""How dead letters are shown: a table, JSON lines, and all of one, with its contents."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from stream_icd.dead_letters.box import BadRecord, DeadLetter, Retried
from stream_icd.errors import BadInput, StoreUnreachable
from stream_icd.kafka.record import Record
from stream_icd.messages.claims import MessageReader
from stream_icd.printable import printable, shortened
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

COLUMNS: dict[str, Callable[[BadRecord], str]] = {
    "place": lambda one: one.latest.place,
    "dead-lettered": lambda one: f"{one.latest.at:%Y-%m-%d %X}",
    "graph": lambda one: shortened(_text(one.latest.key)),
    "snapshot": lambda one: shortened(one.latest.snapshot_id or "?"),
    "stage": lambda one: ", ".join(one.stages),
    "exception": lambda one: one.latest.exception,
    "time": lambda one: str(one.attempt),
    "sent again": lambda one: "yes" if one.was_sent_again else "no",
    "because": lambda one: shortened(one.latest.message, 60),
}
"""Of the table: how each is made."""

SHOWN_ROWS = 5

DECODERS: dict[str, Callable[..., Any]] = {
    SNAPSHOT_TYPE: decode_snapshot,
    COMMUNITIES_TYPE: decode_communities,
    LABELS_TYPE: decode_labels,
    EVENTS_TYPE: decode_events,
}


def table_lines(records: Sequence[BadRecord]) -> Iterator[str]:
    """A line for each, however long, and how many there are of each exception."""
    cells = ([printable(cell(one)) for cell in COLUMNS.values()] for one in records)
    rows = [list(COLUMNS), *cells]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(map(str.ljust, row, widths)).rstrip()
    yield from counts_lines(record.latest for record in records)
    again = sum(record.was_sent_again for record in records)
    yield f"{len(records):,} records dead-lettered, {again:,} of them sent again"


def counts_lines(letters: Iterable[DeadLetter]) -> Iterator[str]:
    """How many there are of each exception, most first."""
    for name, count in Counter(letter.exception or "unknown" for letter in letters).most_common():
        yield f"{count:,} {printable(name)}"


def json_lines(records: Sequence[BadRecord]) -> Iterator[str]:
    """A JSON object for each, with all but the value."""
    return (json.dumps(_document(record)) for record in records)


def letter_lines(
    letter: DeadLetter, came: Record, retried: Sequence[Retried], reader: MessageReader
) -> Iterator[str]:
    """All that is known of a dead letter, and of what the record that came holds."""
    yield f"{letter.place}, dead-lettered {letter.at:%Y-%m-%d %X} UTC, time {letter.attempt}"
    yield f"came from {letter.came_from or 'an unknown place'}"
    yield f"because, at stage {letter.stage}: {letter.exception}: {letter.message}"
    for one in retried:
        yield f"sent again to {one.to}, {one.at}"
    yield f"key: {_text(letter.key)}"
    for name, content in letter.headers:
        yield f"header {name}: {_text(content)}"
    for name, text in letter.added.items():
        yield f"header {name}: {text}"
    yield "value: null" if letter.size is None else f"value: {letter.size:,} bytes"
    yield f"today: {verdict(came, reader)}"
    yield from first_rows(came, reader)


def _document(record: BadRecord) -> dict[str, Any]:
    letter = record.latest
    return {
        "place": letter.place,
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "at": letter.at.isoformat(),
        "came_from": letter.came_from,
        "origin": record.origin,
        "letters": [one.place for one in record.letters],
        "key": None if letter.key is None else _text(letter.key),
        "graph": letter.graph,
        "snapshot_id": letter.snapshot_id,
        "stage": letter.stage,
        "stages": list(record.stages),
        "exception": letter.exception,
        "message": letter.message,
        "attempt": letter.attempt,
        "bytes": letter.size,
        "headers": [[name, _text(content)] for name, content in letter.headers],
        "retried": [{"at": one.at, "to": one.to} for one in record.retried],
    }


def _text(content: bytes | None) -> str:
    """Text, with what is none written as escapes."""
    return "null" if content is None else content.decode(errors="backslashreplace")


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
        table = read_table(whole.value, None, reader.limits, BadInput)
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
