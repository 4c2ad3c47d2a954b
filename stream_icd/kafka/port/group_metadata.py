"""What a member knows of its group, and shows to have a transaction fenced (KIP-447)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """A moment's view.

    Attributes:
        generation: grows with each rebalance; -1 before the first.
        member_id: what the group calls the member; "" before it has joined.
        stable: it is a member now, and no rebalance is under way.
    """

    group: str
    generation: int
    member_id: str
    stable: bool

    @property
    def is_settled(self) -> bool:
        """Whether the member knows its group's generation, and nothing is about to change it."""
        return self.stable and self.generation >= 0
