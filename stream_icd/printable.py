"""Make names and texts from outside safe to show on a terminal and in a line of a log.

A name on the wire can be any text (docs/wire.md). All code that shows a name escapes it here, so
that no name can move the cursor, end a line, or fill the screen. Commands write their lines with
`say`.
"""

from __future__ import annotations

import sys

SHORT = 120


def printable(text: str) -> str:
    r"""Return the text with non-printable characters escaped, as in a Python string.

    >>> printable("as733\n\x1b[31mforged")
    'as733\\n\\x1b[31mforged'
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def say(*lines: str, err: bool = False) -> None:
    """Write lines to standard output, or to standard error: each is one line there.

    Tabs stay, since they separate columns; escape them in a name that is in a column.
    """
    stream = sys.stderr if err else sys.stdout
    for line in lines:
        stream.write("\t".join(map(printable, line.split("\t"))) + "\n")
    stream.flush()


def shortened(text: str | bytes, most: int = SHORT) -> str:
    """Return at most `most` characters of a text, with `…` if some are missing.

    Args:
        text: text, or bytes in UTF-8, of which only as many as needed are decoded.

    >>> shortened("as733"), shortened(b"x" * 1_000_000, 5)
    ('as733', 'xxxx…')
    """
    if isinstance(text, bytes):
        text = text[: 4 * (most + 1)].decode(errors="replace")
    return text if len(text) <= most else f"{text[: most - 1]}…"
