"""Known labels of some nodes as seeds of K-means."""

from __future__ import annotations

import numpy as np

from stream_icd.core.arrays import NOBODY, Labels
from stream_icd.core.errors import BadSettings
from stream_icd.methods.bp.level_graph import compact
from stream_icd.methods.bp.partition import match_labels
from stream_icd.methods.icd.clustering import seeded
from stream_icd.methods.icd.row_blocks import Floats32


def enough(k: int, known: Labels, n_communities: int | None) -> int:
    """Return K for nodes with edges: one for each of their labels at least.

    Raises `BadSettings` if K is given, and there are more labels.
    """
    n_labels = len(np.unique(known[known >= 0]))
    if n_communities is not None and n_labels > k:
        raise BadSettings(
            f"{n_communities} communities are too few for {n_labels} known labels: give a higher "
            "n_communities, or none"
        )
    return max(k, n_labels)


def clustered(
    embedding: Floats32, found: Labels, known: Labels, fixed: bool, threads: int
) -> tuple[Labels, Labels]:
    """Return clusters by K-means that starts from known labels, and each label's cluster.

    A label is the cluster that most of its rows are in. One that gets none takes the place of the
    smallest cluster, and its centre is that of its rows.

    Args:
        found: clusters without what is known, `(n,)`, 0..K-1, none empty.
        known: labels, `(n,)`, at most K of them; `NOBODY` where unknown.
        fixed: known rows stay in the cluster of their label; others may change it.

    The second result is `(L,)`, `NOBODY` for labels without rows.
    """
    k, n_labels = int(found.max()) + 1, int(known.max(initial=NOBODY)) + 1
    of_label = match_labels(known, found, n_labels, k)
    used = np.bincount(known[known >= 0], minlength=n_labels) > 0
    new = np.flatnonzero(used & (of_label >= k))
    sizes = np.bincount(found, minlength=k)
    sizes[of_label[used & (of_label < k)]] = len(found) + 1  # these go on
    given_up = np.argsort(sizes, kind="stable")[: len(new)]
    of_label[new], of_label[~used] = given_up, NOBODY
    certain = np.append(of_label, np.int32(NOBODY))[known]
    start = np.where(np.isin(found, given_up), np.int32(NOBODY), found)
    start = np.where(certain >= 0, certain, start)
    return seeded(embedding, start, k, certain if fixed else None, threads), of_label


def with_isolated(
    communities: Labels, known: Labels, of_label: Labels, fixed: bool
) -> tuple[Labels, Labels]:
    """Return the communities, and that of each label, also of labels of nodes without edges.

    known: of each node, `(n,)`, 0..L-1, each of at least one node, `NOBODY` where unknown.
    fixed: these nodes, too, are in the community of their label.
    """
    nodes = np.flatnonzero(known >= 0)
    labels, first = np.unique(known[nodes], return_index=True)
    of_label = np.append(of_label, np.full(len(labels) - len(of_label), NOBODY, np.int32))
    alone = of_label[labels] == NOBODY
    of_label[labels[alone]] = communities[nodes[first[alone]]]
    if not fixed:
        return communities, of_label
    communities[nodes] = of_label[known[nodes]]
    after = compact(communities)[0]
    numbers = np.full(int(communities.max()) + 1, NOBODY, np.int32)
    numbers[communities] = after
    return after, numbers[of_label]
