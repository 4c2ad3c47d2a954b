"""What a stream that was disturbed came to: what was sent beside what its readers saw."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from math import nan


@dataclass(frozen=True, slots=True)
class Item:
    """One snapshot, or its result: they are equal when the result is that snapshot's."""

    graph: str
    snapshot_id: str
    n_nodes: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a stream.

    Attributes:
        sent: snapshots, in the order in which they were sent.
        seen: every record that a reader of committed records finds in the communities topic, in
            order within a graph; nothing is dropped that came twice.
        removed: what the fault took from the topic before a detector had read it.
        dead_letters: records in the dead-letter topic.
        next_after_s: seconds from the end of the fault to the next result that was seen.
        all_after_s: seconds from the end of the fault until all were seen.
        stopped_with: exit status and error of a program that was to stop, or nothing.
    """

    sent: tuple[Item, ...]
    seen: tuple[Item, ...]
    removed: tuple[Item, ...] = ()
    dead_letters: int = 0
    next_after_s: float = nan
    all_after_s: float = nan
    stopped_with: str = ""

    @property
    def expected(self) -> tuple[Item, ...]:
        """What readers are to see, once."""
        return tuple(item for item in self.sent if item not in set(self.removed))

    @property
    def lost(self) -> int:
        return (Counter(self.expected) - Counter(self.seen)).total()

    @property
    def repeated(self) -> int:
        return len(self.seen) - len(set(self.seen))

    @property
    def exactly_once(self) -> bool:
        """Of each graph all results, each once, in the order of its snapshots."""
        return by_graph(self.seen) == by_graph(self.expected) and not self.dead_letters

    @property
    def at_least_once(self) -> bool:
        """The same, after dropping what came again."""
        firsts = dict.fromkeys(self.seen)
        return by_graph(firsts) == by_graph(self.expected) and not self.dead_letters


def by_graph(items: Iterable[Item]) -> dict[str, list[Item]]:
    graphs: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        graphs[item.graph].append(item)
    return dict(graphs)
