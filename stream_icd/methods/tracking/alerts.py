"""Which alerts a window gives: the events and moves that rules ask for, once they are confirmed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_icd.core.arrays import NOBODY
from stream_icd.core.events import CommunityEvent, CommunityEvents
from stream_icd.core.printable import printable, shortened
from stream_icd.methods.tracking.confirmation import lasting_events
from stream_icd.methods.tracking.rules import MOVED, NUMBERS, Rule, Subject
from stream_icd.methods.tracking.sentences import called_by, sentence, without_consequences
from stream_icd.wire.alerts import Alert

_MOST_LISTED = 1000
"""Parents or children of one alert; sentences name three of them."""

Names = Callable[[CommunityEvents], Mapping[int, str]]
"""The names of the communities of a window, by id."""


@dataclass(frozen=True, slots=True)
class Alerting:
    """What to tell of a stream of windows: rules, and for how many windows events must hold."""

    rules: Sequence[Rule]
    lasting: int = 0
    group: str = ""
    names: Names = CommunityEvents.names_given

    @property
    def windows(self) -> int:
        """Number of a graph's last windows that `alerts` needs."""
        return self.lasting + 2

    def alerts(self, windows: Sequence[CommunityEvents]) -> Iterator[Alert]:
        """Yield the alerts of the window that is `lasting` before the last of these, oldest first.

        The first window of a graph has none: all its communities are new.
        """
        at = len(windows) - 1 - self.lasting
        if at < 1:
            return
        change = _Change(windows[at - 1], windows[at], self.names)
        # Only what held in all later windows: an alert cannot be taken back.
        events = lasting_events(windows, self.lasting).events
        for event in without_consequences(events):
            if fired := self._fired(change.subject(event)):
                yield self._alert(change, event, fired)
        if any(rule.moves for rule in self.rules):
            for move in change.moves(windows[at + 1 :]):
                if fired := self._fired(change.subject_that_moved(move)):
                    yield self._alert_of_move(change, move, fired)

    def _fired(self, subject: Subject) -> tuple[str, ...]:
        return tuple(rule.text for rule in self.rules if rule.of(subject))

    def _alert(self, change: _Change, event: CommunityEvent, fired: tuple[str, ...]) -> Alert:
        text = sentence(event, change.called, change.sizes_before, change.sizes)
        return Alert(
            **self._about(change, event.community),
            event=event.kind,
            size=event.size,
            size_before=event.size_before,
            bits=event.bits,
            parents=event.parents[:_MOST_LISTED],
            children=event.children[:_MOST_LISTED],
            rules=fired,
            text=text if event.bits is None else f"{text} ({event.bits:,.0f} bits)",
        )

    def _alert_of_move(self, change: _Change, move: _Move, fired: tuple[str, ...]) -> Alert:
        whence, where = change.called(move.before), change.called(move.now)
        return Alert(
            **self._about(change, move.now),
            event=MOVED,
            size=change.sizes[move.now],
            size_before=change.sizes_before[move.now],
            node=move.node,
            community_before=move.before,
            rules=fired,
            text=f"{printable(shortened(move.node))} moved from {whence} to {where}",
        )

    def _about(self, change: _Change, community: int) -> dict[str, Any]:
        window = change.now
        return {
            "group": self.group,
            "graph": window.graph,
            "snapshot_id": window.snapshot_id,
            "window_start": window.window.start,
            "window_end": window.window.end,
            "model": window.model,
            "community": community,
            "name": change.names.get(community),
            "confirmed": self.lasting,
        }


@dataclass(frozen=True, slots=True)
class _Move:
    """A node whose community has another id than in the window before."""

    node: str
    before: int
    now: int


@dataclass(frozen=True)
class _Change:
    """A window and the one before, as rules and sentences need them."""

    before: CommunityEvents
    now: CommunityEvents
    names_of: Names
    _watched: dict[frozenset[str], frozenset[int]] = field(default_factory=dict)

    @cached_property
    def names(self) -> Mapping[int, str]:
        """The names of the communities of both windows; that of now counts."""
        return {**self.names_of(self.before), **self.names_of(self.now)}

    @cached_property
    def sizes(self) -> Counter[int]:
        return Counter(self.now.communities.tolist())

    @cached_property
    def sizes_before(self) -> Counter[int]:
        return Counter(self.before.communities.tolist())

    def called(self, community: int) -> str:
        return called_by(self.names)(community)

    def subject(self, event: CommunityEvent) -> Subject:
        numbers = {name: getattr(event, name) for name in NUMBERS}
        parts = {name: len(getattr(event, name)) for name in ("parents", "children")}
        communities = (event.community, *event.parents, *event.children)
        return Subject(
            graph=self.now.graph,
            kind=event.kind,
            communities=communities,
            numbers=numbers | parts,
            name=self.names.get(event.community),
            among=lambda nodes: not self._with_one_of(nodes).isdisjoint(communities),
        )

    def subject_that_moved(self, move: _Move) -> Subject:
        """Return a move as rules see it; its size is that of the community now."""
        return Subject(
            graph=self.now.graph,
            kind=MOVED,
            communities=(move.before, move.now),
            numbers={"size": self.sizes[move.now]},
            name=self.names.get(move.now),
            among=lambda nodes: move.node in nodes,
        )

    def moves(self, later: Sequence[CommunityEvents]) -> Iterator[_Move]:
        """Yield the nodes that have moved since the window before, and stayed in all later ones."""
        nodes, now = self.now.nodes, self.now.communities
        before = self.before.communities_of(nodes)
        moved = (before != NOBODY) & (before != now)
        for window in later:
            # It must have stayed there since: a node may be counted elsewhere in one window.
            moved &= window.communities_of(nodes) == now
        at = np.flatnonzero(moved)
        texts = nodes.take(pa.array(at)).cast(pa.string()).to_pylist()
        for node, was, is_in in zip(texts, before[at].tolist(), now[at].tolist(), strict=True):
            yield _Move(node, was, is_in)

    def _with_one_of(self, nodes: frozenset[str]) -> frozenset[int]:
        # Once for each file of nodes: every event of the window is asked about the same nodes.
        if nodes not in self._watched:
            windows = self.before, self.now
            self._watched[nodes] = frozenset(
                chain(*(_ids_with(nodes, window) for window in windows))
            )
        return self._watched[nodes]


def _ids_with(nodes: frozenset[str], window: CommunityEvents) -> list[int]:
    sought = pa.array(sorted(nodes), pa.string())
    is_sought = pc.is_in(window.nodes.cast(pa.string()), value_set=sought).to_numpy(False)
    ids: list[int] = np.unique(window.communities[is_sought]).tolist()
    return ids
