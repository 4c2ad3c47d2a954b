"""Which graphs train, which validate, and which test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from stream_icd.errors import BadSettings

Graph = TypeVar("Graph")
Three = tuple[Sequence[Graph], Sequence[Graph], Sequence[Graph]]


def split_in_order(graphs: Sequence[Graph], shares: tuple[float, float, float]) -> Three[Graph]:
    """The first graphs train, the next validate, the last test, as in the paper (section 5.1).

    In order, so that what is later in time never trains what is judged on earlier graphs.

    Raises:
        BadSettings: too few graphs for each share above 0 to get one.

    >>> split_in_order("abcdefghij", (0.8, 0.1, 0.1))
    ('abcdefgh', 'i', 'j')
    """
    first = round(len(graphs) * shares[0])
    second = round(len(graphs) * (shares[0] + shares[1]))
    parts = graphs[:first], graphs[first:second], graphs[second:]
    if any(share > 0 and not part for share, part in zip(shares, parts, strict=True)):
        raise BadSettings(
            f"{len(graphs)} graphs are too few to split by {shares}: each part needs at least one"
        )
    return parts
