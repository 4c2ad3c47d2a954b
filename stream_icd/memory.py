"""What a detector remembers of a graph between windows: who was believed to be where."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_icd.errors import BadMemory
from stream_icd.snapshot import Window

N_BELIEFS = 4
"""Communities that are remembered of each node, the likeliest ones."""

NO_COMMUNITY = -1
"""In the place of a community id where a node has fewer than `N_BELIEFS`."""


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """The beliefs of a graph's last window.

    Communities have ids that last: 0, 1, 2, ... over the life of the graph, none given twice.

    Attributes:
        window: the window that was seen last.
        nodes: the source's own ids, `(n_nodes,)`, ascending; of that window, and of earlier ones
            whose nodes are not forgotten yet.
        communities: ids, `(n_nodes, N_BELIEFS)` int64, likeliest first, then `NO_COMMUNITY`.
        beliefs: their probabilities, `(n_nodes, N_BELIEFS)` float32; they add up to 1 at most.
        mixing: μ, share of the edge weight between communities in the last window.
        stay: η, share of the nodes that stayed in their community; 0 after the first window.
        next_id: the first community id that was never given.
        believed: whether belief propagation had the last word in that window, or modularity.

    Raises:
        BadMemory: a value out of its range, or arrays that do not fit each other.
    """

    window: Window
    nodes: pa.Array
    communities: NDArray[np.int64]
    beliefs: NDArray[np.float32]
    mixing: float
    stay: float
    next_id: int
    believed: bool = False

    def __post_init__(self) -> None:
        shape = (len(self.nodes), N_BELIEFS)
        if self.communities.shape != shape or self.beliefs.shape != shape:
            raise BadMemory(
                f"{len(self.nodes)} nodes need communities and beliefs of shape {shape}, not "
                f"{self.communities.shape} and {self.beliefs.shape}"
            )
        for name, share in (("mixing", self.mixing), ("stay", self.stay)):
            if not 0 <= share <= 1:
                raise BadMemory(f"{name} must be in 0..1, not {share}")
        lowest = self.communities.min(initial=NO_COMMUNITY)
        if lowest < NO_COMMUNITY or self.communities.max(initial=NO_COMMUNITY) >= self.next_id:
            raise BadMemory(
                f"community ids must be in {NO_COMMUNITY}..{self.next_id - 1} (next_id - 1), not "
                f"{lowest}..{self.communities.max()}"
            )
        if not ((self.beliefs >= 0) & (self.beliefs <= 1)).all():
            raise BadMemory("beliefs are probabilities: they must be in 0..1")

    @property
    def n_nodes(self) -> int:
        """Number of nodes that something is remembered of."""
        return len(self.nodes)
