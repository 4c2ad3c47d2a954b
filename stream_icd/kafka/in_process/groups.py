"""Groups: their members, partition assignments and committed offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from stream_icd.kafka.port import GroupMetadata, GroupMovedOn, Offsets, Partitions, TopicPartition

Owned = frozenset[TopicPartition]


@dataclass(eq=False, slots=True)
class Membership:
    """One member, from its group's view.

    Attributes:
        patience_s: the maximum time between two polls.
        id: "" before it has joined.
        polled: the time of its last poll.
        generation: the last generation that it took part in; -1 before the first.
        owned: the partitions that it has not given back.
    """

    name: str
    patience_s: float
    topic: str = ""
    id: str = ""
    polled: float = 0.0
    generation: int = -1
    owned: Owned = frozenset()


@dataclass(slots=True)
class Group:
    """Members share their topic's partitions evenly; each keeps as many of its own as possible.

    A partition goes to another member only after its previous member gave it back or was removed.
    Each change begins a new generation, and requests from an older one are refused.
    """

    name: str
    generation: int = 0
    members: dict[str, Membership] = field(default_factory=dict)
    committed: Offsets = field(default_factory=dict)
    _wanted: dict[str, Owned] = field(default_factory=dict)
    _joined: int = 0

    def join(self, member: Membership, there: Sequence[TopicPartition]) -> None:
        """Add a member, and share the partitions that are `there` among all members."""
        self._joined += 1
        member.id, member.generation = f"{member.name}-{self._joined}", -1
        self.members[member.id] = member
        self.share(member.topic, there)

    def leave(self, member: Membership, there: Sequence[TopicPartition]) -> None:
        if self.members.pop(member.id, None) is not None:
            self._wanted.pop(member.id, None)
            self.share(member.topic, there)

    def share(self, topic: str, there: Sequence[TopicPartition]) -> None:
        """Begin a generation in which the topic's members share the partitions."""
        self.generation += 1
        readers = [member for member in self.members.values() if member.topic == topic]
        self._wanted |= shared({member.id: member.owned for member in readers}, there)

    def change(self, member: Membership) -> tuple[Owned, Owned]:
        """The partitions that a member must give back, and those that it may take now."""
        wanted = self._wanted[member.id]
        others = (other for other in self.members.values() if other is not member)
        taken = {partition for other in others for partition in other.owned}
        return member.owned - wanted, wanted - member.owned - taken

    def check(self, group: GroupMetadata) -> None:
        """Raise GroupMovedOn unless the caller is a member in the current generation."""
        if group.member_id not in self.members or group.generation != self.generation:
            raise GroupMovedOn(
                f"group {self.name} is in generation {self.generation}, and not in "
                f"{group.generation} of member {group.member_id!r}"
            )


def shared(owned: Mapping[str, Owned], there: Partitions) -> dict[str, Owned]:
    """Assign partitions to members: evenly (counts differ by at most one), with few moves.

    >>> a, b, c = (TopicPartition("t", number) for number in range(3))
    >>> shares = shared({"old": frozenset({a, b, c}), "new": frozenset()}, [a, b, c])
    >>> shares["old"] == {a, b}, shares["new"] == {c}
    (True, True)
    """
    if not owned:
        return {}
    least, more = divmod(len(there), len(owned))
    most_first = sorted(owned, key=lambda member: (-len(owned[member]), member))
    quota = {member: least + (place < more) for place, member in enumerate(most_first)}
    kept = {m: sorted(owned[m] & frozenset(there))[: quota[m]] for m in most_first}
    free = sorted(set(there) - {p for partitions in kept.values() for p in partitions})
    for member in most_first:
        lacking = quota[member] - len(kept[member])
        kept[member] += free[:lacking]
        free = free[lacking:]
    return {member: frozenset(partitions) for member, partitions in kept.items()}
