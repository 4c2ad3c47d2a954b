"""The communities of the evidence by another method than bp, such as the paper's.

The evidence is a graph, so any method can find its communities. A method says nothing of beliefs:
each node is in one community for certain.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.sparse import csr_array

from stream_icd.core.arrays import NOBODY, Ids, Labels
from stream_icd.methods.bp.partition import common_nodes, match_labels
from stream_icd.methods.bp.posterior import Posterior

Find = Callable[[csr_array, int | None, Labels, Labels | None], Labels]
"""Finds the communities of a graph, K of them if K is given. Then come the communities that its
nodes had, `(n,)`, `NOBODY` for new ones, and labels that some nodes are known to have
(`bp.known.Known`), or None: a method may start from them."""


def followed(known: Posterior, labels: Labels, rows: Ids) -> tuple[Labels, Ids]:
    """Return labels for all nodes of which something is known, and which of them are idle.

    labels: `(n,)` the communities that were found; `NOBODY` for nodes without edges. These stay in
        their community before; those of the window, `rows`, are alone if they had none.
    """
    n_found = int(labels.max(initial=NOBODY)) + 1
    idle = np.flatnonzero((labels < 0) & (known.likeliest >= 0))
    labels = labels.copy()
    labels[idle] = _followed(known.likeliest, labels, n_found)[known.likeliest[idle]]
    new = rows[labels[rows] < 0]
    labels[new] = int(labels.max(initial=NOBODY)) + 1 + np.arange(len(new))
    return labels, idle


def _followed(before: Labels, labels: Labels, n_labels: int) -> Labels:
    """Return the label that nodes without one get from their community before, `(K before,)`.

    It is the one that continues the community, or that has at least half of all its nodes. If there
    is none, they get a label of their own, from `n_labels` on.
    """
    n_before = int(before.max(initial=NOBODY)) + 1
    old, new, counts = common_nodes(before, labels)
    into = n_labels + np.arange(n_before, dtype=np.int32)
    most = 2 * counts >= np.bincount(before[before >= 0], minlength=n_before)[old]
    into[old[most]] = new[most]
    continued = match_labels(labels, before, n_labels, n_before)
    into[continued[continued < n_before]] = np.flatnonzero(continued < n_before)
    return into
