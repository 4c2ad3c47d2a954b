"""Stable ids of communities: who is who by their nodes, and what became of those that ended."""

from __future__ import annotations

import numpy as np

from stream_icd.bp.dynamic.posterior import NOBODY, Ids, majority, match_labels
from stream_icd.bp.multilevel.level_graph import Labels


def ids_for(labels: Labels, before: Labels, ids_before: Ids, next_id: int) -> tuple[Ids, int]:
    """Return an id for each community, `(K,)`, and the first id not used yet.

    Args:
        labels: of each node, in 0..K-1 or `NOBODY`.
        before: the labels of the same nodes in the last window, places in `ids_before`.
    """
    n_labels = int(labels.max(initial=NOBODY)) + 1
    names = match_labels(labels, before, n_labels, len(ids_before))
    ids = np.append(ids_before, NOBODY)[names]  # [-1] is NOBODY's
    new = np.flatnonzero(names == NOBODY)
    ids[new] = next_id + np.arange(len(new))
    return ids, next_id + len(new)


def replaced_ids(labels: Labels, ids: Ids, before: Labels, ids_before: Ids) -> Ids:
    """Return the ids that ended, `(m, 2)`, ascending, each with the id it is now part of.

    That is the community with more than half of its nodes; `NOBODY` if there is none.

    Args:
        labels: of each node, places in `ids`.
        before: the labels that they had, places in `ids_before`; `NOBODY` if they are new.
    """
    n_before = len(ids_before)
    sizes = np.bincount(before[before >= 0], minlength=n_before)
    ended = (sizes > 0) & ~np.isin(ids_before, ids)
    into = majority(before, labels, n_before)[ended]
    found = np.stack([ids_before[ended], np.append(ids, NOBODY)[into]], axis=1)
    return found[np.argsort(found[:, 0])]
