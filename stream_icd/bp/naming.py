"""Match the current communities to the last window's by their nodes.

Belief propagation may move all nodes of one community into another and keep the label of the
smaller one. So labels are assigned again at the end, by the nodes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_icd.bp.level_graph import Labels
from stream_icd.graphs.compiled import compiled

NOBODY = -1
"""The remembered community of a node that has none."""


def names_by_most(labels: Labels, names: Labels, n_labels: int, n_names: int) -> Labels:
    """A name for each label, (n_labels,): the one that most of its nodes had, or `NOBODY`.

    No name is given twice: pairs of label and name with the most common nodes go first.

    labels, names: (n,) of each node, 0..n_labels-1 and 0..n_names-1, or negative for none.
    """
    both = (labels >= 0) & (names >= 0)
    pairs, counts = np.unique(
        labels[both].astype(np.int64) * n_names + names[both], return_counts=True
    )
    order = np.argsort(-counts, kind="stable")
    return _first_come(pairs[order], n_labels, n_names)


@compiled()
def _first_come(pairs: NDArray[np.int64], n_labels: int, n_names: int) -> Labels:
    name_of, free = np.full(n_labels, NOBODY, np.int32), np.ones(n_names, np.bool_)
    for pair in pairs:
        label, name = pair // n_names, pair % n_names
        if name_of[label] < 0 and free[name]:
            name_of[label], free[name] = name, False
    return name_of


def renamed(labels: Labels, remembered: Labels, n_remembered: int, n_labels: int) -> Labels:
    """New names of the labels 0..n_labels-1, (n_labels,), each given once.

    Labels below n_remembered exchange names among themselves, by the nodes of each remembered
    community. A label without such nodes keeps its own name if that is free and no node of the
    remembered community is present. Else it names another community: it gets a new name, from
    n_labels on; if it has no nodes, any that is free. Other labels keep theirs.
    """
    continuing = np.where(labels < n_remembered, labels, NOBODY)
    names = np.append(
        names_by_most(continuing, remembered, n_remembered, n_remembered),
        np.arange(n_remembered, n_labels, dtype=np.int32),
    )
    free = np.ones(n_remembered, np.bool_)
    free[names[:n_remembered][names[:n_remembered] >= 0]] = False
    has_nodes, present = (
        np.bincount(one[one >= 0], minlength=n_remembered) > 0 for one in (continuing, remembered)
    )
    own = np.flatnonzero((names[:n_remembered] < 0) & free & ~(has_nodes & present))
    names[own], free[own] = own, False
    other = np.flatnonzero((names[:n_remembered] < 0) & has_nodes)
    names[other] = n_labels + np.arange(len(other))
    idle = np.flatnonzero(names < 0)
    names[idle] = np.flatnonzero(free)[: len(idle)]
    return names


def successors(labels: Labels, remembered: Labels, n_remembered: int) -> Labels:
    """The current label of each remembered community, (n_remembered,), or `NOBODY`.

    Its own label if it still has nodes, or if none of its nodes is present; else the community
    that has more than half of its nodes.
    """
    found = np.ones(n_remembered, np.bool_)
    found[remembered[remembered >= 0]] = False
    found[labels[labels < n_remembered]] = True
    now = np.where(found, np.arange(n_remembered), NOBODY).astype(np.int32)
    lost = remembered >= 0
    lost[lost] = ~found[remembered[lost]]
    n_labels = int(labels.max(initial=0)) + 1
    pairs, counts = np.unique(
        remembered[lost].astype(np.int64) * n_labels + labels[lost], return_counts=True
    )
    sizes = np.bincount(remembered[lost], minlength=n_remembered)
    most = 2 * counts > sizes[pairs // n_labels]
    now[pairs[most] // n_labels] = pairs[most] % n_labels
    return now
