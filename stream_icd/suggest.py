"""The known name that somebody probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most similar to `name`, or None when none is similar.

    >>> nearest("as773", ["as733", "taxi"])
    'as733'
    >>> nearest("mails", ["as733", "taxi"]) is None
    True
    """
    return next(iter(get_close_matches(name, list(known), 1, cutoff=0.75)), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of an error message: `; did you mean X?`, or nothing when no name is similar.

    >>> did_you_mean("as773", ["as733", "taxi"])
    '; did you mean as733?'
    """
    found = nearest(name, known)
    return f"; did you mean {found}?" if found else ""
