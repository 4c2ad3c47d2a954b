"""The communities of one window, numbered by their members alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_icd.node_ids import places

Positions = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """Nodes in ascending order, and the community of each.

    Attributes:
        nodes: `(n_nodes,)`.
        labels: `(n_nodes,)` in 0..K-1.
        names: the original number of each community, `(K,)`.
        sizes: members of each, `(K,)`.
    """

    nodes: pa.Array
    labels: Positions
    names: Positions
    sizes: Positions

    @property
    def n_communities(self) -> int:
        return len(self.names)


def by_first_node(nodes: pa.Array, labels: NDArray[np.int32]) -> Partition:
    """Number communities by their smallest node, independent of labels and order."""
    nodes, ordered = _ascending(nodes, labels)
    names, first, inverse, sizes = np.unique(
        ordered, return_index=True, return_inverse=True, return_counts=True
    )
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return Partition(nodes, rank[inverse], names[order].astype(np.int64), sizes[order])


def by_name(nodes: pa.Array, communities: NDArray[np.int64]) -> Partition:
    """Number communities in the order of their stable ids."""
    nodes, ordered = _ascending(nodes, communities)
    if ordered.max(initial=0) > 10 * len(ordered):
        names, inverse, sizes = np.unique(ordered, return_inverse=True, return_counts=True)
        return Partition(nodes, inverse, names, sizes)
    counts = np.bincount(ordered)  # ten times faster, if there are not too many unused ids
    names = np.flatnonzero(counts)
    place = np.cumsum(counts > 0) - 1
    return Partition(nodes, place[ordered], names, counts[names])


def shared_nodes(old: Partition, new: Partition) -> tuple[Positions, Positions]:
    """Return the positions of the shared nodes in `old.nodes` and `new.nodes`, `(n_shared,)` each.

    Integer ids and string ids are never equal.
    """
    at = places(new.nodes, old.nodes)
    there = np.flatnonzero(at >= 0)
    return at[there], there


def _ascending(nodes: pa.Array, values: NDArray[np.integer]) -> tuple[pa.Array, Positions]:
    import pyarrow.compute as pc

    if pa.types.is_integer(nodes.type) and _is_ascending(nodes.to_numpy()):
        return nodes, values.astype(np.int64)
    order = pc.sort_indices(nodes)
    return nodes.take(order), values[order.to_numpy()].astype(np.int64)


def _is_ascending(nodes: NDArray[np.integer]) -> bool:
    return bool((nodes[1:] > nodes[:-1]).all())
