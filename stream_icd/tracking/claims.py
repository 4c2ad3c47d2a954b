"""The ids that a detector with memory gives to communities: when they are the stable ids.

The tracker takes the detector's ids as they are, wherever they continue those of the tracked
windows. They do not if the windows before were detected without memory, or if the detector has
lost its memory and counts from 0 again; then communities are matched by their nodes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stream_icd.arrays import Ids
from stream_icd.communities import Communities
from stream_icd.events import CommunityEvents
from stream_icd.tracking.matching import NOBODY, Overlaps
from stream_icd.tracking.partition import Partition


def claims(
    found: Communities,
    partition: Partition,
    recent: Sequence[CommunityEvents],
    last: Partition,
    between: Overlaps,
) -> Ids | None:
    """Return the id that each community claims, `(K,)`; None if they do not continue the windows.

    They do if at least half of the nodes that can have kept an id did so: of each community that
    does not claim an unused id, those that had this id in the last window, compared with those that
    had the most frequent id.

    Args:
        recent: tracked windows, oldest first, at least one.
        last: the last one of them, by stable id.
        between: its overlaps with `partition`.
    """
    claimed = _detector_ids(found, partition)
    if claimed is None:
        return None
    claims_old = claimed < recent[-1].next_community
    of_claiming = claims_old[between.new]
    most = np.zeros(len(claimed), np.int64)
    np.maximum.at(most, between.new[of_claiming], between.shared[of_claiming])
    kept = last.names[between.old] == claimed[between.new]
    return claimed if 2 * between.shared[kept].sum() >= most.sum() else None


def first_claims(
    found: Communities, partition: Partition, first_id: int, revised: CommunityEvents | None
) -> Ids | None:
    """Return the id that each community of a graph's first window claims, `(K,)`.

    None if it has no ids, or one of them was used before: it is below `first_id`, and not an id of
    the older revision of the window.
    """
    claimed = _detector_ids(found, partition)
    if claimed is None:
        return None
    unused = claimed >= first_id
    if revised is not None:
        unused |= np.isin(claimed, revised.communities)
    return claimed if unused.all() else None


def _detector_ids(found: Communities, partition: Partition) -> Ids | None:
    return None if found.community_ids is None else found.community_ids[partition.names]


def holders(claimed: Ids, old: Partition, between: Overlaps) -> Ids:
    """Return the community of an earlier window that has the claimed id, `(K,)`, or `NOBODY`.

    Not if that community still has nodes, but none in common with the one that claims its id.
    """
    place = np.minimum(np.searchsorted(old.names, claimed), old.n_communities - 1)
    found = old.names[place] == claimed
    shares = np.zeros(len(claimed), np.bool_)
    shares[between.new[between.old == place[between.new]]] = True
    gone = between.old_sizes[place] == 0
    holds: Ids = np.where(found & (shares | gone), place, NOBODY)
    return holds
