"""The community of each node of a graph, and since when: what rows of members say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa

from stream_icd.core.arrays import Ids, Shares
from stream_icd.core.communities import Communities
from stream_icd.core.node_ids import places
from stream_icd.core.snapshot import EPOCH
from stream_icd.core.times import microseconds


@dataclass(frozen=True, slots=True)
class MemberRow:
    """A node of a graph, and the community that it is in.

    Attributes:
        node: the source's own id.
        since: start of the window in which it came into the community.
        as_of: end of the window that said this first.
        probability: how probable it is that it is in the community; None if that is not known.
        name: of the community, if it has one.
    """

    graph: str
    node: int | str
    community_id: int
    since: datetime
    as_of: datetime
    snapshot_id: str
    probability: float | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Members:
    """All nodes of a graph, as rows said last.

    Attributes:
        end: of the last window that is known, microseconds since 1970 UTC.
        nodes: `(n,)`, ascending (`node_ids.widened`).
        community_ids, since: of each node, `(n,)`; times in microseconds since 1970 UTC.
        probabilities: `(n,)`, NaN where not known.
        names: of communities, by id.
    """

    end: int
    nodes: pa.Array
    community_ids: Ids
    since: Ids
    probabilities: Shares
    names: Mapping[int, str]

    @property
    def n_bytes(self) -> int:
        of_ids = self.nodes.nbytes + self.community_ids.nbytes
        return int(of_ids + self.since.nbytes + self.probabilities.nbytes) + 100 * len(self.names)

    def changed_by(self, window: Communities, names: Mapping[int, str], least: float) -> Changes:
        """Return what a window with stable ids changes for the nodes of its graph.

        A node changes if it is new, if its community or the name of that is another one, or if its
        probability differs by `least` or more from that of its last row. All others keep what their
        rows say, so that a worker that reads these knows the same.
        """
        ids, at = window.ids_of_nodes, places(window.nodes, self.nodes)
        assert ids is not None  # the caller asks for windows with stable ids only
        was_there = at >= 0
        own = window.probabilities
        own = np.full(len(ids), np.nan, np.float32) if own is None else own
        if len(self.nodes):
            stays = was_there & (self.community_ids[at] == ids)
            published = np.where(was_there, self.probabilities[at], np.float32(np.nan))
            start = np.where(stays, self.since[at], microseconds(window.window.start - EPOCH))
        else:
            stays, published = was_there, np.full(len(ids), np.nan, np.float32)
            start = np.full(len(ids), microseconds(window.window.start - EPOCH))
        # In hundredths, as they are published: a difference of `least` counts, whatever its bits.
        differs = (np.abs(own - published) >= least - 1e-6) | (np.isnan(own) != np.isnan(published))
        renamed = [one for one in set(ids.tolist()) if names.get(one) != self.names.get(one)]
        changed = ~stays | differs | np.isin(ids, renamed)
        after = Members(
            end=microseconds(window.window.end - EPOCH),
            nodes=window.nodes,
            community_ids=ids,
            since=start,
            probabilities=np.where(changed, own, published),
            names={one: name for one, name in names.items() if name is not None},
        )
        gone = places(self.nodes, window.nodes) < 0
        return Changes(after, np.flatnonzero(changed), self.nodes.filter(pa.array(gone)))


NOTHING = Members(
    end=microseconds(datetime.min.replace(tzinfo=EPOCH.tzinfo) - EPOCH),
    nodes=pa.array([], pa.int64()),
    community_ids=np.empty(0, np.int64),
    since=np.empty(0, np.int64),
    probabilities=np.empty(0, np.float32),
    names={},
)
"""Of a graph without rows."""


@dataclass(frozen=True, slots=True, eq=False)
class Changes:
    """What a window changes: `changed`, positions among its nodes, and nodes that left."""

    after: Members
    changed: Ids
    left: pa.Array
