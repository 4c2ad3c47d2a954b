"""Make names and texts from outside safe to show: on a terminal, in a log, in a spreadsheet.

A name on the wire can be any text (docs/wire.md). All code that shows a name escapes it here, so
that no name can move the cursor, end a line, fill the screen, or run as a formula. Commands write
their lines with `say`.
"""

from __future__ import annotations

import os
import re
import sys
from base64 import b64encode
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    import pyarrow as pa

_SHORT = 120
_SHOWN = 10
"""How many names a message lists."""

_FORMULA = r"^([=+\-@＝＋－＠])"
"""First characters of a cell that spreadsheets treat as a formula (OWASP, *CSV Injection*); some of
them take the full-width ones for the others."""

_CONTROL = "[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]"
"""Characters that end a line, command a terminal, or change the direction of what follows. OWASP's
list has three of them, too: a tab, CR or LF before a formula."""


def printable(text: str) -> str:
    r"""Return the text with non-printable characters escaped, as in a Python string.

    >>> printable("as733\n\x1b[31mforged")
    'as733\\n\\x1b[31mforged'
    """
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def say(*lines: str, err: bool = False) -> None:
    """Write lines to standard output, or to standard error: each is one line there.

    Tabs stay, since they separate columns; escape them in a name that is in a column. The program
    ends if the reader of standard output has left.
    """
    stream = sys.stderr if err else sys.stdout
    if stream is None:
        return
    try:
        for line in lines:
            stream.write("\t".join(map(printable, line.split("\t"))) + "\n")
        stream.flush()
    except BrokenPipeError:
        if err:
            raise
        end_without_reader()


def end_without_reader() -> NoReturn:
    """End the program with exit status 0: the reader, such as `head`, has seen enough."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())  # Python writes what is buffered when it ends
    raise SystemExit(0)


def shortened(text: str | bytes, most: int = _SHORT) -> str:
    """Return at most `most` characters of a text, or of bytes in UTF-8; `…` if some are missing.

    >>> shortened("as733"), shortened(b"x" * 1_000_000, 5)
    ('as733', 'xxxx…')
    """
    if isinstance(text, bytes):  # only as many as needed are decoded
        text = text[: 4 * (most + 1)].decode(errors="replace")
    return text if len(text) <= most else f"{text[: most - 1]}…"


def did_you_mean(name: str, known: Iterable[str], prefix: str = "") -> str:
    """Return the end of an error message: `; did you mean X?`, or "" if no name is similar.

    >>> did_you_mean("as773", ["as733", "taxi"])
    '; did you mean as733?'
    >>> did_you_mean("mails", ["as733", "taxi"])
    ''
    """
    from difflib import get_close_matches  # only errors need it

    similar = next(iter(get_close_matches(name, list(known), 1, cutoff=0.75)), None)
    return f"; did you mean {prefix}{printable(similar)}?" if similar else ""


def listed(names: Sequence[str]) -> str:
    """Return the first names, escaped, and how many more there are.

    >>> listed(["as733", "taxi"])
    'as733, taxi'
    >>> listed([str(number) for number in range(1_011)])
    '0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 1,001 more'
    """
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(map(printable, names[:_SHOWN])) + more


def shown(content: bytes | None) -> str:
    """Return bytes of a record as text, with escapes for what is not UTF-8; `null` for none."""
    return "null" if content is None else content.decode(errors="backslashreplace")


def place_of(uri: str) -> str:
    """Return a URI or local path for messages and logs: without options or trailing slash.

    >>> place_of("s3://bucket/history/?region=eu-central-1")
    's3://bucket/history'
    """
    return uri.partition("?")[0].rstrip("/") if "://" in uri else uri


def refuse_password(uri: str) -> None:
    """Raise `ValueError` if a URI has a password, which logs and the command line would show."""
    place, _, options = uri.partition("?")
    who, at, _ = place.partition("://")[2].rpartition("@")
    if (at and ":" in who) or "client_secret=" in options:  # of Azure
        raise ValueError(
            "it holds a password: give that as the object store's own tools take it, such as in "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )


def safe_cells(table: pa.Table) -> pa.Table:
    """Return a table for CSV, with an apostrophe before each text that begins like a formula.

    Control characters become escapes, as in a Python string; lists become texts, their values
    separated by spaces, bytes become Base64, and times of UTC become texts. So a node called
    `=HYPERLINK(…)` is no link in a reader's spreadsheet, and one with an escape sequence does not
    clear a terminal.

    >>> import pyarrow as pa
    >>> safe_cells(pa.table({"node": ["=1+1", "AS701"], "size": [-1, 2]})).to_pylist()
    [{'node': "'=1+1", 'size': -1}, {'node': 'AS701', 'size': 2}]
    >>> safe_cells(pa.table({"parents": [[3, 14], [], None]})).to_pylist()
    [{'parents': '3 14'}, {'parents': ''}, {'parents': None}]
    >>> safe_cells(pa.table({"at": pa.array([0], pa.timestamp("s", "UTC"))})).to_pylist()
    [{'at': '1970-01-01 00:00:00Z'}]
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    for at, field in enumerate(table.schema):
        if pa.types.is_list(field.type):
            texts = pc.binary_join(table.column(at).cast(pa.list_(pa.string())), " ")
            table, field = table.set_column(at, field.name, texts), field.with_type(pa.string())
        if pa.types.is_timestamp(field.type) and field.type.tz:
            # All are UTC. To write this, Arrow reads the time zones of the system.
            times = table.column(at).cast(pa.timestamp(field.type.unit)).cast(pa.string())
            table = table.set_column(at, field.name, pc.binary_join_element_wise(times, "Z", ""))
        if pa.types.is_binary(field.type):
            coded = [value and b64encode(value).decode() for value in table.column(at).to_pylist()]
            table = table.set_column(at, field.name, pa.array(coded, pa.string()))
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            safe = pc.replace_substring_regex(_escaped(table.column(at)), _FORMULA, r"'\1")
            table = table.set_column(at, field, safe)
    return table


def _escaped(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pc.any(pc.match_substring_regex(texts, _CONTROL)).as_py():
        return texts
    escaped = [
        text and re.sub(_CONTROL, lambda match: ascii(match[0])[1:-1], text)
        for text in texts.to_pylist()
    ]
    return pa.chunked_array([pa.array(escaped, texts.type)])
