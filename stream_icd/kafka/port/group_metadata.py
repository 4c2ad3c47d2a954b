"""A member's view of its group, which also lets the broker fence transactions (KIP-447)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """A member's view of its group at one moment.

    Attributes:
        generation: grows with each rebalance; -1 before the first.
        member_id: the member's id in the group; "" before it has joined.
        stable: it is a member now, and no rebalance is in progress.
    """

    group: str
    generation: int
    member_id: str
    stable: bool

    @property
    def is_settled(self) -> bool:
        """Whether the member knows the group's generation and no rebalance is in progress."""
        return self.stable and self.generation >= 0
