"""How probable the communities of a window's nodes are, with all that is known of the graph."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from stream_icd.core.arrays import NOBODY, Ids
from stream_icd.methods.bp.level_graph import LevelGraph, Rows, compact, entries_at, level_of
from stream_icd.methods.bp.memberships import Memberships, memberships_given_others
from stream_icd.methods.memory.memory import Memory


def memberships_in(after: Memory, rows: Ids, evidence: Callable[[], LevelGraph]) -> Memberships:
    """Return the memberships of the nodes `rows` after a window, `(len(rows),)`.

    Seconds are numbered as the communities of what is known. If the filter leads, they are its
    beliefs. Otherwise the sum in which the communities were found says how probable they are, and
    if modularity found them in the window alone, the window.

    evidence: gives `evidence_of` these nodes, which beliefs do not need.
    """
    known = after.known
    if by_beliefs(after):
        own, second = known.shares[rows, 0], known.shares[rows, 1]
        return Memberships(own, known.communities[rows, 1], second)
    labels = compact(known.likeliest[rows])[0]
    numbers = np.full(len(rows) + 1, NOBODY, np.int32)  # the last for -1
    numbers[labels] = known.likeliest[rows]
    found = memberships_given_others(evidence(), labels)
    return found._replace(seconds=numbers[found.seconds])


def by_beliefs(after: Memory) -> bool:
    """Return whether what is known says how probable it is: the beliefs of the filter."""
    return after.known.believed and after.hypotheses[after.leader].kind.by == "filter"


def evidence_of(after: Memory, rows: Ids, window: Rows, exponent: float) -> LevelGraph:
    """Return the edges of the nodes `rows` in which their communities were found.

    window, exponent: the edges of these nodes, and of their weights.
    """
    lead = after.hypotheses[after.leader]
    if lead.kind.by == "filter":
        return level_of(window.comparable(exponent))
    summed = lead if lead.kind.by == "sum" else after.hypotheses[0]
    return level_of(entries_at(summed.evidence.comparable(summed.kind.between), rows))
