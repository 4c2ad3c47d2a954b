"""Messages that are broken on purpose: valid ones changed in places, and tables made up.

The message with number `n` of a seed is always the same one, so that it can be looked at alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

import pyarrow as pa

from stream_icd.core.headers import Headers
from stream_icd.kafka.record import Record
from stream_icd.methods.memory.encoding import METADATA, enclosed, table_of_nodes
from stream_icd.wire.arrow_stream import write_table

WORDS = (0, -1, 1, 2**31 - 1, -(2**31), 2**62, -(2**63), 2**63 - 1)
TEXTS = (
    b"", b"0", b"-1", b"1e999", b"nan", b"-inf", b"9" * 30, b"1_000", b"\xd9\xa3", b"true", b"1.5",
    b"0001-01-01T00:00:00+23:59", b"9999-12-31T23:59:59-23:59", b"1999-04-02T00:00:00Z",
    b"1999-04-02", b"2026-01-31T12:00:00.123456789Z", b"\xff\xfe", b"\x1b[2J\r\n", b"=1+1",
    b"[/red]", b"../../etc/passwd", b"file:///etc/passwd", b"x" * 2000, "\u202e".encode(), b"1.0",
    b"0@7", b"12345678901234567890@-1", b"stream_icd.snapshot.v1", b"stream_icd.events.v1",
)  # fmt: skip
NAMES = (
    "ce_id", "ce_type", "ce_source", "ce_specversion", "content-type", "icd_window_start",
    "icd_window_end", "icd_k", "icd_snapshot_id", "icd_model", "icd_revision", "icd_late",
    "icd_snapshot_place", "icd_next_community", "icd_modularity", "icd_claim_uri",
    "icd_claim_bytes", "icd_claim_sha256", "icd_dlq_topic", "icd_dlq_message", "icd_dlq_attempt",
    "icd_dlq_retried", "icd_crs", "x", "",
)  # fmt: skip
KEYS = (None, b"", b"g", b"\xff", b"\x1b[2J", b"k" * 2000, "é".encode() * 500)
TIMES = (0, -1, -(2**63), 2**63 - 1, 10**15, 1_700_000_000_000)
COLUMNS = (
    "src", "dst", "weight", "x", "y", "node", "community", "event", "label", "size", "size_before",
    "overlap", "parents", "children", "away", "members", "colour",
)  # fmt: skip
INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint32(), pa.uint64()]
TYPES = [
    *INTEGERS, pa.string(), pa.large_string(), pa.binary(), pa.bool_(), pa.null(), pa.float16(),
    pa.float32(), pa.float64(), pa.timestamp("us", "UTC"), pa.date32(), pa.duration("ns"),
    pa.decimal128(5, 2), pa.list_(pa.int64()), pa.list_(pa.string()), pa.list_(pa.float64()),
    pa.struct([("a", pa.int8())]), pa.month_day_nano_interval(), pa.large_list(pa.int64()),
    pa.map_(pa.string(), pa.int8()), pa.list_(pa.int32(), 2), pa.string_view(),
]  # fmt: skip
NUMBERS = (0, 1, -1, 2, 5e-324, 1e308, 1e151, float("nan"), float("inf"), 127, 2**31 - 1, 2**62)
Change = Callable[[bytearray, Random], bytearray]


def _flip_bytes(value: bytearray, random: Random) -> bytearray:
    for _ in range(random.randint(1, 8)):
        value[random.randrange(len(value))] = random.choice(
            (0, 1, 0x7F, 0x80, 0xFF, random.randrange(256))
        )
    return value


def _set_word(value: bytearray, random: Random) -> bytearray:
    at = random.randrange(max(1, len(value) // 8)) * 8
    value[at : at + 8] = random.choice(WORDS).to_bytes(8, "little", signed=True)
    return value


def _cut(value: bytearray, random: Random) -> bytearray:
    return value[: random.randrange(len(value))]


def _repeat(value: bytearray, random: Random) -> bytearray:
    low, high = sorted((random.randrange(len(value)), random.randrange(len(value))))
    return value[:high] + value[low:]


def _drop(value: bytearray, random: Random) -> bytearray:
    low, high = sorted((random.randrange(len(value)), random.randrange(len(value))))
    return value[:low] + value[high:]


CHANGES: tuple[Change, ...] = (_flip_bytes, _flip_bytes, _set_word, _cut, _repeat, _drop)


def changed(value: bytes, random: Random) -> bytes:
    """The bytes with one to three things broken."""
    broken = bytearray(value)
    for _ in range(random.randint(1, 3)):
        broken = random.choice(CHANGES)(broken, random) if broken else bytearray(1)
    return bytes(broken)


def changed_headers(headers: Headers, random: Random) -> Headers:
    """The headers with one to three of them changed, left out, doubled, renamed or added."""
    broken = list(headers)
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(broken)) if broken else 0
        name, value = broken[at] if broken else ("", b"")
        chosen = random.choice(TEXTS)
        choices = (
            [],
            [(name, chosen)],
            [(name, changed(value or b"x", random))],
            [(name, value), (name, chosen)],
            [(random.choice(NAMES), value)],
            [(name, value), (random.choice(NAMES), chosen)],
        )
        broken[at : at + 1] = random.choice(choices)
    return tuple(broken)


def made_up_table(names: Sequence[str], random: Random) -> pa.Table:
    """A small table of columns of those names, or of others, of any type, with extremes."""
    n_rows = random.choice((0, 1, 2, 5, 20))
    shared = random.choice(TYPES)
    columns = {}
    for name in names:
        name = random.choice(COLUMNS) if random.random() < 0.05 else name
        kind = random.choice((shared, shared, random.choice(TYPES), random.choice(INTEGERS)))
        columns[name] = _column(kind, n_rows, random)
    return pa.table(columns)


def _column(kind: pa.DataType, n_rows: int, random: Random) -> pa.Array:
    if random.random() < 0.1:
        return pa.nulls(n_rows, kind)
    values = [_value(kind, random) for _ in range(n_rows)]
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return pa.nulls(n_rows, kind)


def _value(kind: pa.DataType, random: Random) -> object:
    if random.random() < 0.05:
        return None
    if pa.types.is_integer(kind):
        top = 2 ** (kind.bit_width - 1) - 1
        return random.choice((0, 1, 2, 3, top, random.randint(0, top)))
    if pa.types.is_floating(kind):
        return random.choice(NUMBERS)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [_value(kind.value_type, random) for _ in range(random.randrange(3))]
    text = random.choice(("a", "b", "", "\x00", "é" * 9, "born", "split", "died", "=1", "\x1b["))
    return text.encode() if pa.types.is_binary(kind) else text


def altered(value: bytes, random: Random) -> bytes:
    """The same memory with one to three cells, rows or numbers of the metadata changed.

    So what is checked after the form of a table is reached.
    """
    table, said = table_of_nodes(value), pa.ipc.open_stream(value).schema.metadata[METADATA]
    rows = {name: table[name].to_pylist() for name in table.column_names}
    for _ in range(random.randint(1, 3)):
        name, n_rows = random.choice(table.column_names), table.num_rows
        choice = random.random()
        if choice < 0.6:
            rows[name][random.randrange(n_rows)] = _cell(table[name].type, random)
        elif choice < 0.7:
            order = [random.randrange(n_rows) for _ in range(n_rows)]
            rows = {name: [column[at] for at in order] for name, column in rows.items()}
        else:
            said = _other_numbers(said, random)
    columns = [pa.array(column, table[name].type) for name, column in rows.items()]
    return enclosed(pa.table(columns, table.column_names), json.loads(said))


def _cell(kind: pa.DataType, random: Random) -> object:
    if pa.types.is_floating(kind):
        return random.choice((None, random.random(), float(random.choice(NUMBERS))))
    if pa.types.is_list(kind):
        cells = [_cell(kind.value_type, random) for _ in range(random.randrange(4))]
        return random.choice((None, cells))
    if pa.types.is_unsigned_integer(kind) and kind.bit_width < 64:
        return random.choice((None, random.randint(0, 12), 2**kind.bit_width - 1))
    if pa.types.is_integer(kind) and random.random() < 0.5:
        return random.randint(-2, 12)
    return _value(kind, random)


def _other_numbers(text: bytes, random: Random) -> bytes:
    said = json.loads(text)
    others = (*WORDS, *NUMBERS, True, None, "x", [], 10**15 - 1, 10**15, 0.5, *map(str, TEXTS))
    within = said
    while True:
        at = random.choice(list(within) if isinstance(within, dict) else range(len(within)))
        if not (isinstance(within[at], dict | list) and within[at]) or random.random() < 0.2:
            break
        within = within[at]
    within[at] = random.choice(others)
    return json.dumps(said).encode()


def broken(
    valid: Sequence[Record], columns: Sequence[str], seed: int, number: int, *, alter: bool = False
) -> Record:
    """Input `number` of `seed`: a valid record that was broken, or one with a table made up.

    Args:
        columns: those that a valid table has.
        alter: alter the valid memory instead of making a table up.
    """
    random = Random(seed * 10**9 + number)
    record = random.choice(valid)
    choice = random.random()
    if choice < 0.45:
        return replace(record, value=changed(record.value or b"x", random))
    if choice < 0.75:
        return replace(record, headers=changed_headers(record.headers, random))
    if choice < 0.8:
        return replace(record, key=random.choice(KEYS), timestamp_ms=random.choice(TIMES))
    if choice < 0.82:
        return replace(record, value=random.choice((None, b"", b"\xff" * 8, b"{}")))
    if alter:
        return replace(record, value=altered(record.value or b"", random))
    made_up = write_table(made_up_table(columns, random))
    return replace(record, value=made_up if choice < 0.97 else changed(made_up, random))
