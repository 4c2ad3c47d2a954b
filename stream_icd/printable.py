"""Names and texts from outside, made fit to be shown: on a terminal, and in a line of a log.

A name on the wire is any text (docs/wire.md). Everything that shows one to a person escapes it
here, so that no name moves the cursor, ends a line, or fills the screen.
"""

from __future__ import annotations

SHORT = 120


def printable(text: str) -> str:
    r"""The text with whatever does not print written as an escape, as in a Python string.

    >>> printable("as733\n\x1b[31mforged")
    'as733\\n\\x1b[31mforged'
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def shortened(text: str | bytes, most: int = SHORT) -> str:
    """At most so many characters of a text, and a sign that some are missing.

    Args:
        text: bytes are taken for UTF-8; only as many as are needed are decoded.

    >>> shortened("as733"), shortened(b"x" * 1_000_000, 5)
    ('as733', 'xxxx…')
    """
    if isinstance(text, bytes):
        text = text[: 4 * (most + 1)].decode(errors="replace")
    return text if len(text) <= most else f"{text[: most - 1]}…"
