"""Choose the windows to learn from, and the newer ones that prove what was learned."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from stream_icd.errors import BadSettings

One = TypeVar("One")


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many windows to use.

    Attributes:
        newest: windows to learn from, directly before those that prove.
        older: windows to learn from, drawn at random from all earlier ones.
        prove: the newest windows of all, which nothing is learned from.
        least: fewest windows to learn from, also after a change of the law.

    Raises:
        BadSettings: a number is out of range.
    """

    newest: int = 6
    older: int = 2
    prove: int = 8
    least: int = 3

    def __post_init__(self) -> None:
        if not (1 <= self.least <= self.newest and self.older >= 0 and self.prove >= 4):
            raise BadSettings(
                f"{self}: need 1 <= least <= newest, older of at least 0, and prove of at least 4"
            )


@dataclass(frozen=True, slots=True)
class Chosen(Generic[One]):
    """The chosen windows; those of a graph in time order."""

    learn: tuple[One, ...]
    prove: tuple[One, ...]


@dataclass(frozen=True, slots=True)
class TooFew:
    """There are too few windows; the reason says how many are missing."""

    reason: str


def choose_windows(
    windows: Sequence[tuple[str, One]],
    sizes: Sizes,
    seed: int,
    *,
    unseen: Sequence[int],
    since: Sequence[int] | None = None,
) -> Chosen[One] | TooFew:
    """Choose windows: the newest prove, those before them teach, with a sample of older ones.

    The choice depends on windows and seed only, never on when or how often it is made.

    Args:
        windows: those of a graph in time order, each with a name that identifies it.
        unseen: positions of the windows that the champion did not learn from; only these can prove
            anything.
        since: positions of the windows since the law changed, the only ones that are used then;
            None if it did not change.
    """
    prove, after = sizes.prove, "" if since is None else " after the change"
    if len(unseen) < prove:
        return TooFew(f"{len(unseen)} of {prove} windows that the champion did not learn from")
    usable = range(len(windows)) if since is None else sorted(since)
    if len(usable) < prove + sizes.least:
        return TooFew(f"{len(usable)} of {prove + sizes.least} windows{after}")
    proving = sorted(set(unseen) & set(usable))[-prove:]
    if len(proving) < prove:
        return TooFew(
            f"{len(proving)} of {prove} windows{after} that the champion did not learn from"
        )
    rest = sorted(set(usable) - set(proving))
    older = [windows[at] for at in rest[: -sizes.newest]] if since is None else []
    taught = [windows[at] for at in rest[-sizes.newest :]]
    return Chosen(
        tuple(one for _, one in (*_sample(older, sizes.older, seed), *taught)),
        tuple(windows[at][1] for at in proving),
    )


def _sample(windows: Sequence[tuple[str, One]], count: int, seed: int) -> list[tuple[str, One]]:
    """Draw windows at random, in time order; a longer stream keeps most of the earlier sample."""

    def rank(at: int) -> bytes:
        return hashlib.sha256(f"{seed} {windows[at][0]}".encode()).digest()

    return [windows[at] for at in sorted(heapq.nsmallest(count, range(len(windows)), key=rank))]
