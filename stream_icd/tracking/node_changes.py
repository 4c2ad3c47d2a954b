"""The community changes of one node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from stream_icd.events import CommunityEvent, CommunityEvents
from stream_icd.snapshot import Window


@dataclass(frozen=True, slots=True, eq=False)
class NodeChange:
    """A change of one node's community; communities are named by stable ids.

    Attributes:
        graph, snapshot_id, window, model: the result that shows the change.
        node: the source's own id, as the caller gave it.
        before: its community in the window before; None if it was absent, or is seen for the
            first time.
        after: its community now; None if it is absent.
        events: the events of these two communities.
        revision: the revision of the result.
        window_events: all events of the window.
    """

    graph: str
    snapshot_id: str
    window: Window
    model: str
    node: int | str
    before: int | None
    after: int | None
    events: tuple[CommunityEvent, ...]
    revision: str
    window_events: CommunityEvents

    def members_of(self, community: int | None) -> pa.Array:
        """The nodes of a community of the window, ascending; empty if it is absent."""
        return self.window_events.members_of(community)


def node_changes(tracked: Iterable[CommunityEvents], node: int | str) -> Iterator[NodeChange]:
    """Yield the node's first community, then each change, in each graph; ignore late windows."""
    places: dict[str, int | None] = {}
    for one in tracked:
        if one.late:
            continue
        before, after = places.get(one.graph), one.community_of(node)
        if before == after:
            continue
        places[one.graph] = after
        concerned = [community for community in (before, after) if community is not None]
        events = tuple(e for e in one.events if any(map(e.concerns, concerned)))
        yield NodeChange(
            graph=one.graph,
            snapshot_id=one.snapshot_id,
            window=one.window,
            model=one.model,
            node=node,
            before=before,
            after=after,
            events=events,
            revision=one.revision,
            window_events=one,
        )
