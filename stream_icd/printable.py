"""Make names and texts from outside safe to show on a terminal and in a line of a log; find names.

A name on the wire can be any text (docs/wire.md). All code that shows a name escapes it here, so
that no name can move the cursor, end a line, or fill the screen. Commands write their lines with
`say`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

SHORT = 120
SHOWN = 10
"""How many names a message lists."""


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


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most similar to `name`, or None when none is similar.

    >>> nearest("as773", ["as733", "taxi"])
    'as733'
    >>> nearest("mails", ["as733", "taxi"]) is None
    True
    """
    from difflib import get_close_matches  # only errors need it

    return next(iter(get_close_matches(name, list(known), 1, cutoff=0.75)), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of an error message: `; did you mean X?`, or "" if no name is similar.

    >>> did_you_mean("as773", ["as733", "taxi"])
    '; did you mean as733?'
    """
    found = nearest(name, known)
    return f"; did you mean {printable(found)}?" if found else ""


def listed(names: Sequence[str]) -> str:
    """Return the first names, escaped, and how many more there are.

    >>> listed(["as733", "taxi"])
    'as733, taxi'
    >>> listed([str(number) for number in range(1_011)])
    '0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 1,001 more'
    """
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return ", ".join(map(printable, names[:SHOWN])) + more
