"""A graph together with its planted communities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stream_icd.core.arrays import Ids, Labels
from stream_icd.core.errors import BadSettings

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_MOST_NODES = 50_000_000
"""Of a generated graph; a snapshot has at most as many rows (`Limits.rows`)."""


@dataclass(frozen=True, eq=False)
class PlantedGraph:
    """An undirected simple graph whose communities are known."""

    n_nodes: int  # ids are 0..n_nodes-1, and isolated nodes count
    edges: Ids  # (2, E) int64, edges[0] < edges[1], each pair once, in lexicographic order
    communities: Labels  # (n_nodes,) int32, labels 0..K-1, none empty

    @classmethod
    def of_pairs(cls, pairs: Ids, communities: Labels) -> PlantedGraph:
        """The graph of node pairs (2, E), each once, in any order and direction."""
        n_nodes, low, high = len(communities), pairs.min(axis=0), pairs.max(axis=0)
        # Each pair as one number: one sort orders them by both ends.
        edges = np.stack(np.divmod(np.sort(low * n_nodes + high), n_nodes))
        return cls(n_nodes, edges, communities)

    @classmethod
    def shuffled(cls, rng: np.random.Generator, pairs: Ids, communities: Labels) -> PlantedGraph:
        """The same with random node ids, so that an id tells nothing about a community."""
        new_id = rng.permutation(len(communities))
        shuffled = np.empty_like(communities)
        shuffled[new_id] = communities
        return cls.of_pairs(new_id[pairs], shuffled)

    @property
    def n_communities(self) -> int:
        """K, the number of planted communities."""
        return int(self.communities.max()) + 1

    def adjacency(self) -> csr_array:
        """Symmetric 0/1 adjacency, (n_nodes, n_nodes) float64, canonical, zero diagonal."""
        from stream_icd.core.symmetric import symmetric  # a producer of graphs needs no numba

        low, high = self.edges
        return symmetric(low, high, np.ones(len(low)), self.n_nodes)


def check_n_nodes(n_nodes: int) -> None:
    """Raise `BadSettings` for more nodes than `_MOST_NODES`."""
    if n_nodes > _MOST_NODES:
        raise BadSettings(f"n_nodes={n_nodes} is too many; the limit is {_MOST_NODES:,}")
