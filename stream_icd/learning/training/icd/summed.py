"""Sums of labelled windows, as memory keeps them: what the encoder is to weight on a stream.

Weights learned from single windows throw evidence away that a sum has. So learning also sees sums.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array

from stream_icd.core.arrays import NOBODY, Labels
from stream_icd.core.node_ids import common_type
from stream_icd.learning.training.icd.fit_edges import Taught
from stream_icd.methods.bp.level_graph import rows_of
from stream_icd.methods.graphs.weights import comparable_weights
from stream_icd.methods.memory.evidence import grown
from stream_icd.methods.memory.horizon import SIDE_BY_SIDE

_Pair = tuple[csr_array, Labels]

_MOST_ENTRIES = 400_000
"""Of the sums of small windows together; of larger ones, as many as the windows have."""


def summed(taught: Sequence[Taught]) -> list[_Pair]:
    """Return sums of the windows so far of each graph, `(n, n)`, with the newest known labels.

    taught: in time order. Graphs of no stream have no sums, and the first window's sum is itself.
    The newest sums come first, while all together have at most as many entries as the windows, or
    `_MOST_ENTRIES`: more would take more time to learn from than the windows.
    """
    by_graph = defaultdict[str, list[Taught]](list)
    for one in taught:
        if one.graph.moment is not None:
            by_graph[one.graph.moment.graph].append(one)
    room = max(sum(one.graph.adjacency.nnz for one in taught), _MOST_ENTRIES)
    found = list[_Pair]()
    for windows in by_graph.values():
        for adjacency, labels in reversed(_sums(windows)[1:]):
            room -= adjacency.nnz
            if room < 0:
                return found
            found.append((adjacency, labels))
    return found


def _sums(windows: Sequence[Taught]) -> list[_Pair]:
    """The sum after each window of a graph."""
    of_windows = [one.graph.moment.nodes for one in windows if one.graph.moment is not None]
    kind, first = SIDE_BY_SIDE[0], of_windows[0]
    if any(common_type(first, nodes) is None for nodes in of_windows):
        return []
    ids = [nodes.to_numpy(zero_copy_only=False) for nodes in of_windows]
    names = np.unique(np.concatenate(ids))
    shape = len(names), len(names)
    total, labels, found = rows_of(csr_array(shape)), np.full(len(names), NOBODY, np.int32), []
    for one, nodes in zip(windows, ids, strict=True):
        at = np.searchsorted(names, nodes)
        entries = one.graph.adjacency.tocoo()
        weights = comparable_weights(entries.data, kind.within)
        window = csr_array((weights, (at[entries.row], at[entries.col])), shape)
        window.sort_indices()
        total = grown(total, kind.decay, rows_of(window))
        labels = labels.copy()
        labels[at] = np.where(one.labels >= 0, one.labels, labels[at])
        found.append((csr_array((total.weights, total.indices, total.indptr), shape), labels))
    return found
