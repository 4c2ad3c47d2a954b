"""Known names for error messages: the first ones, and the one that was probably meant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from stream_icd.printable import printable

SHOWN = 10
"""How many names a message lists."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most similar to `name`, or None when none is similar.

    >>> nearest("as773", ["as733", "taxi"])
    'as733'
    >>> nearest("mails", ["as733", "taxi"]) is None
    True
    """
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
