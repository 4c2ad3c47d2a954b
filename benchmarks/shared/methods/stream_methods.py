"""Methods that follow a stream window by window, and the one-line baseline: a decayed sum."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from benchmarks.shared.streams.known_streams import KnownWindow, names_of
from benchmarks.shared.streams.stream_scores import Found
from stream_icd.core.snapshot import Snapshot
from stream_icd.methods.model import Model

Labels = NDArray[np.int32]
Follow = Callable[[Sequence[KnownWindow]], list[Found]]
"""Goes through the windows of a stream."""

Find = Callable[[csr_array, int], Labels]
"""Communities of a graph, of which the number of classes is known."""

Remember = Callable[..., Any]
"""`detect_remembering`, or a function with its arguments and its result."""

LEAST_WEIGHT = 0.001
"""Edges of the decayed sum that weigh less are dropped."""


def remembering(detect: Remember, model: Model, *, k_given: bool = False) -> Follow:
    """Follow with a detector that hands its memory on from window to window."""

    def follow(windows: Sequence[KnownWindow]) -> list[Found]:
        memory, found = None, []
        for window in windows:
            started = time.process_time()
            k = (window.n_classes,) if k_given else ()
            result = detect(window.snapshot, model, memory, *k)
            spent = time.process_time() - started
            memory = result.memory
            found.append(
                Found(
                    result.communities,
                    result.community_ids,
                    1000 * spent,
                    getattr(result, "horizon", None),
                )
            )
        return found

    return follow


def decayed(find: Find, decay: float) -> Follow:
    """Detect on the decayed sum of the windows as on one graph; 0: each window alone."""

    def follow(windows: Sequence[KnownWindow]) -> list[Found]:
        found, graphs = [], decayed_sums([one.snapshot for one in windows], decay)
        for window in windows:
            started = time.process_time()
            adjacency, places = next(graphs)
            labels = find(adjacency, window.n_classes)[places]
            spent = time.process_time() - started
            communities = np.unique(labels, return_inverse=True)[1].astype(np.int32)
            found.append(Found(communities, None, 1000 * spent))
        return found

    return follow


def at_once(find: Callable[..., list[Labels]]) -> Follow:
    """Follow with a peer that gets all windows at once; the same time for each window."""

    def follow(windows: Sequence[KnownWindow]) -> list[Found]:
        snapshots = [window.snapshot for window in windows]
        all_nodes = nodes_of(snapshots)
        nodes = [all_nodes.get_indexer(names_of(snapshot)) for snapshot in snapshots]
        adjacencies = [snapshot.adjacency() for snapshot in snapshots]
        started = time.process_time()
        labels = find(adjacencies, nodes=nodes)
        spent = 1000 * (time.process_time() - started) / len(windows)
        return [Found(label, None, spent) for label in labels]

    return follow


def decayed_sums(
    windows: Sequence[Snapshot], decay: float
) -> Iterator[tuple[csr_array, NDArray[np.int64]]]:
    """After each window A ← λA + B, and where the nodes of the window are in it.

    The graph has the nodes of the window, and those with an edge that is left.
    """
    all_nodes = nodes_of(windows)
    total = csr_array((len(all_nodes), len(all_nodes)))
    for window in windows:
        own = all_nodes.get_indexer(names_of(window))
        total = (decay * total + _spread(window, own, len(all_nodes))).tocsr()
        total.data[total.data < LEAST_WEIGHT] = 0
        total.eliminate_zeros()
        present = np.diff(total.indptr) > 0
        present[own] = True
        nodes = np.flatnonzero(present)
        graph = total[nodes][:, nodes]
        graph.sort_indices()
        yield graph, np.searchsorted(nodes, own)


def _spread(window: Snapshot, places: NDArray[np.int64], n_nodes: int) -> csr_array:
    """The adjacency of a window among the nodes of all windows."""
    weights = np.ones(window.n_edges) if window.weights is None else window.weights
    half = coo_array((weights, tuple(places[window.edges])), (n_nodes, n_nodes))
    return (half + half.T).tocsr()


def nodes_of(windows: Sequence[Snapshot]) -> pd.Index:
    """The nodes of all windows, ascending."""
    return pd.Index(np.unique(np.concatenate([names_of(window) for window in windows])))
