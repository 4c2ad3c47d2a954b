"""Which snapshots are complete: a source that fails for a while shows only a part of its nodes.

A topology of the Internet that loses half of its nodes for some days, and has them again later, was
not collected completely. What seems to happen to its communities on these days did not happen.
"""

from __future__ import annotations

from collections.abc import Sequence

PART = 2 / 3
"""Fraction of the nodes of its neighbours below which a snapshot is incomplete."""

NEAR = 30
"""How many snapshots before and after one are its neighbours: a longer gap is a change."""


def complete_places(sizes: Sequence[int]) -> list[int]:
    """Return the positions of the complete snapshots, ascending.

    A snapshot is incomplete if it has less than `PART` of the nodes of some snapshot among the
    `NEAR` before it, and of some among the `NEAR` after it. So a system that grows or shrinks for
    good is complete; for the last snapshots, only those before them tell.

    Args:
        sizes: number of nodes of each snapshot, in time order.
    """
    return [at for at in range(len(sizes)) if not _is_incomplete(sizes, at)]


def _is_incomplete(sizes: Sequence[int], at: int) -> bool:
    before, after = sizes[max(0, at - NEAR) : at], sizes[at + 1 : at + 1 + NEAR]
    sides = [max(side) for side in (before, after) if side]
    return bool(before) and sizes[at] < PART * min(sides)
