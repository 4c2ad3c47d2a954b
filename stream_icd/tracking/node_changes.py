"""One node's way from community to community."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from stream_icd.events import CommunityEvent, CommunityEvents
from stream_icd.snapshot import Window


@dataclass(frozen=True, slots=True, eq=False)
class NodeChange:
    """A node is in another community than before; communities are named by stable ids.

    Attributes:
        graph, snapshot_id, window, model: where that shows.
        node: the source's own id, as it was asked for.
        before: its community in the window before; None where it was not there, or is seen for
            the first time.
        after: its community now; None where it is not there.
        events: what happened to the two.
        revision: as the result's.
        window_events: all that happened in the window.
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
        """The nodes of a community of the window, ascending; none where it is not there."""
        return self.window_events.members_of(community)


def node_changes(tracked: Iterable[CommunityEvents], node: int | str) -> Iterator[NodeChange]:
    """Where the node is at first, then each change, in each graph. Late windows change nothing."""
    places: dict[str, int | None] = {}
    for one in tracked:
        if one.late:
            continue
        before, after = places.get(one.graph), one.community_of(node)
        if before == after:
            continue
        places[one.graph] = after
        concerned = {before, after} - {None}
        events = tuple(
            e for e in one.events if any(e.concerns(c) for c in concerned if c is not None)
        )
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
