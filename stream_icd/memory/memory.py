"""A detector's memory of a graph between windows: the believed community of each node."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_icd.bp.pull import MOST as MOST_PULL
from stream_icd.errors import BadMemory
from stream_icd.node_ids import widened
from stream_icd.snapshot import Window

N_BELIEFS = 4
"""How many communities are remembered of each node: the likeliest ones."""

NO_COMMUNITY = -1
"""Fills the place of a community id if a node has fewer than `N_BELIEFS`."""

MOST_IDS = 10**15 - 1
"""Maximum of `next_id`: 15 digits, as all numbers of the contract (docs/wire.md) have at most."""

MOST_READ_IDS = MOST_IDS - 2**28
"""The same in bytes from outside, so that memory can continue from any that are accepted: one
window adds fewer ids. No stream reaches it."""


ROUNDING = 1e-3
"""By how much beliefs about a node may exceed 1 in total: they are 32-bit sums of many."""


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """The beliefs of a graph's last window.

    Communities have stable ids: 0, 1, 2, ... over the life of the graph, never reused.

    Attributes:
        window: the last window.
        nodes: the source's own ids, `(n_nodes,)`, ascending (`node_ids.widened`): nodes of that
            window, and nodes of earlier windows that are not yet forgotten.
        communities: ids, `(n_nodes, N_BELIEFS)` int64, likeliest first, then `NO_COMMUNITY`; no id
            twice for a node.
        beliefs: their probabilities, `(n_nodes, N_BELIEFS)` float32; they add up to 1 at most, and
            are 0 where there is no community.
        mixing: μ, share of the edge weight between communities in the last window.
        stay: η, share of the nodes that stayed in their community; 0 after the first window.
        next_id: the first community id not yet used, at most `MOST_IDS`.
        believed: whether belief propagation, not modularity, decided the result of that window.
        pull: how strongly communities hold their members where modularity decides, in mean edge
            weights, at most `bp.pull.MOST`; 0 if not estimated yet.
        rival: other communities of that window, `(n_nodes,)` int32, -1 for none, which the next
            window compares with these: parts of them, or communities found without memory. None:
            there is nothing to compare.
        n_present: number of nodes of the last window; 0 if it is not known.

    Raises:
        BadMemory: a value is out of range, or the arrays do not match.
    """

    window: Window
    nodes: pa.Array
    communities: NDArray[np.int64]
    beliefs: NDArray[np.float32]
    mixing: float
    stay: float
    next_id: int
    believed: bool = False
    pull: float = 0.0
    rival: NDArray[np.int32] | None = None
    n_present: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "nodes", widened(self.nodes))
        shape = (len(self.nodes), N_BELIEFS)
        if self.communities.shape != shape or self.beliefs.shape != shape:
            raise BadMemory(
                f"{len(self.nodes)} nodes need communities and beliefs of shape {shape}, not "
                f"{self.communities.shape} and {self.beliefs.shape}"
            )
        if self.rival is not None:
            self._check_rival(self.rival)
        if not 0 <= self.pull <= MOST_PULL:
            raise BadMemory(f"pull must be in 0..{MOST_PULL}, not {self.pull}")
        for name, share in (("mixing", self.mixing), ("stay", self.stay)):
            if not 0 <= share <= 1:
                raise BadMemory(f"{name} must be in 0..1, not {share}")
        if not 0 <= self.next_id <= MOST_IDS:
            raise BadMemory(f"next_id must be in 0..{MOST_IDS}, not {self.next_id}")
        lowest = self.communities.min(initial=NO_COMMUNITY)
        if lowest < NO_COMMUNITY or self.communities.max(initial=NO_COMMUNITY) >= self.next_id:
            raise BadMemory(
                f"community ids must be in {NO_COMMUNITY}..{self.next_id - 1} (next_id - 1), not "
                f"{lowest}..{self.communities.max()}"
            )
        self._check_nodes()
        self._check_beliefs()

    def _check_nodes(self) -> None:
        import pyarrow.compute as pc

        if len(self.nodes) > 1 and not pc.all(pc.less(self.nodes[:-1], self.nodes[1:])).as_py():
            raise BadMemory("the ids of the nodes must ascend, none twice")

    def _check_beliefs(self) -> None:
        if not ((self.beliefs >= 0) & (self.beliefs <= 1)).all():
            raise BadMemory("beliefs are probabilities: they must be in 0..1")
        if (self.beliefs.sum(axis=1) > 1 + ROUNDING).any():
            raise BadMemory("the beliefs about a node must add up to 1 at most")
        if self.beliefs[self.communities == NO_COMMUNITY].any():
            raise BadMemory("there is a belief without a community")
        ids = np.sort(self.communities, axis=1)
        if ((np.diff(ids) == 0) & (ids[:, 1:] != NO_COMMUNITY)).any():
            raise BadMemory("a community is named twice for a node")

    def _check_rival(self, rival: NDArray[np.int32]) -> None:
        if rival.shape != (self.n_nodes,):
            raise BadMemory(f"{self.n_nodes} nodes need as many in rival, not {rival.shape}")
        if not NO_COMMUNITY <= rival.min(initial=0) <= rival.max(initial=0) < max(self.n_nodes, 1):
            raise BadMemory(f"rival must be in {NO_COMMUNITY}..{self.n_nodes - 1}")

    @property
    def n_nodes(self) -> int:
        """Number of remembered nodes."""
        return len(self.nodes)
