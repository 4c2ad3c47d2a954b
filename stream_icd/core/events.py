"""Lifecycle events of a graph's communities between two windows, and their stable ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import pyarrow as pa

from stream_icd.core.arrays import NOBODY, Ids
from stream_icd.core.errors import BadEvents
from stream_icd.core.node_ids import places
from stream_icd.core.snapshot import Window, checked_ids

_OVERHEAD, _AN_EVENT = 2000, 500
"""Bytes of the Python objects of a window, measured, and about so many of an event."""

EventKind = Literal["born", "grown", "shrunk", "merged", "split", "continued", "died", "returned"]
EVENT_KINDS: tuple[EventKind, ...] = get_args(EventKind)
CHANGES: tuple[EventKind, ...] = ("born", "merged", "split", "died")
"""Kinds that change which communities there are."""


@dataclass(frozen=True, slots=True)
class CommunityEvent:
    """One lifecycle event of one community; communities are named by stable ids.

    Attributes:
        kind: A community of the window was born, returned, merged, split, or else has grown, shrunk
            or continued; one that merged and split in one window has both events. One that returned
            was absent, and has the id that it had before.
        community: the affected one: the result of a merger, or what was split.
        label: its label in the communities message of the window; None if it is absent.
        size: members now; 0 if it no longer exists.
        size_before: members when it was last seen; 0 if it is new, or if that is not known.
        overlap: Jaccard index with itself as last seen, on the nodes present both times; None
            if it is new or gone.
        parents: the merged communities; or those that a new one came from, if any.
        children: what a split one became.
        away: number of windows it was absent before, or at least so many if it returned.
        bits: strength: how many bits more the edges of the window need if the event is undone. For
            a birth without parents: if the community were one with that it is linked to most; for
            growth, shrinkage and deaths: if the nodes that came, or left, were where they were.
            None if that is not known, or fewer than three nodes changed together.
        name: what its members have in common, such as `mostly RU, UA`, if the tracker names it.
    """

    kind: EventKind
    community: int
    label: int | None
    size: int
    size_before: int
    overlap: float | None = None
    parents: tuple[int, ...] = ()
    children: tuple[int, ...] = ()
    away: int = 0
    bits: float | None = None
    name: str | None = None

    def concerns(self, community: int) -> bool:
        """Whether that community is affected or took part."""
        return community in (self.community, *self.parents, *self.children)


@dataclass(frozen=True, slots=True, eq=False)
class CommunityEvents:
    """The events of one snapshot, and the stable community of each of its nodes.

    `(graph, snapshot_id, model, revision)` identifies it: drop it if it is repeated. Of two
    revisions, the later one replaces the other, unless it is `late`.

    Attributes:
        graph, snapshot_id, window, model, revision, snapshot_place: as in the detector's result.
        nodes: the source's own ids, `(n_nodes,)` (`node_ids.widened`); empty when `late`.
        communities: stable id of each node's community, `(n_nodes,)` int64.
        events: at least one for each community of the window, then those of communities that
            ended; empty when `late`.
        next_community: the first stable id not yet used in this graph.
        missed: number of windows missing between the last tracked window and this one.
        late: the window is not after the last tracked one, so it was not tracked.
        model_before: the model of the last window, if it was another.
    """

    graph: str
    snapshot_id: str
    window: Window
    model: str
    nodes: pa.Array
    communities: Ids
    events: tuple[CommunityEvent, ...]
    next_community: int
    missed: int = 0
    late: bool = False
    model_before: str | None = None
    revision: str = ""
    snapshot_place: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "nodes", checked_ids(self.nodes))
        if self.communities.shape != (len(self.nodes),):
            raise BadEvents(
                f"{self.snapshot_id!r}: stable ids have shape {self.communities.shape}; "
                f"{len(self.nodes)} nodes need one each"
            )

    def identity(self) -> tuple[str, str, str, str]:
        """The identity of the message: `(graph, snapshot_id, model, revision)`."""
        return self.graph, self.snapshot_id, self.model, self.revision

    @property
    def n_bytes(self) -> int:
        """Bytes of memory, approximately."""
        arrays = int(self.nodes.nbytes) + self.communities.nbytes
        return _OVERHEAD + arrays + _AN_EVENT * len(self.events)

    def names_given(self) -> dict[int, str]:
        """The names that the tracker gave, by id."""
        return {event.community: event.name for event in self.events if event.name is not None}

    def communities_of(self, nodes: pa.Array) -> Ids:
        """The community of each of these nodes, `(n,)`; `NOBODY` if it is not there."""
        ids: Ids = np.append(self.communities, NOBODY)[places(nodes, self.nodes)]
        return ids

    def members_of(self, community: int | None) -> pa.Array:
        """The nodes of a community, ascending; empty if it is None or not in the window."""
        sought = -1 if community is None else community
        return self.nodes.take(pa.array(np.flatnonzero(self.communities == sought)))

    def community_of(self, node: int | str) -> int | None:
        """Stable id of the node's community; None if the node is not in the snapshot.

        An integer id may also be given as text: `"701"`.
        """
        at = self.place_of(node)
        return None if at < 0 else int(self.communities[at])

    def place_of(self, node: int | str) -> int:
        """Position of the node in `nodes`; -1 if the node is not in the snapshot."""
        try:
            sought = pa.scalar(node, self.nodes.type)
            if sought.as_py() != node:  # 1 for 1.5
                return -1
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            try:
                sought = pa.scalar(str(node)).cast(self.nodes.type)
            except (pa.ArrowException, UnicodeEncodeError):  # such as of bytes that are no UTF-8
                return -1
        return int(self.nodes.index(sought).as_py())
