"""How many bits more the edges of a graph need with other communities than with those it has."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from stream_icd.arrays import Ids
from stream_icd.quality.description_length import code_of_sizes

Sums = NDArray[np.float64]

NOBODY = -1


@dataclass(frozen=True, slots=True, eq=False)
class Described:
    """The edges of a graph, described by its communities (`description_length`).

    Attributes:
        sums: `(3, K)`: number of nodes with edges, volume and weight within (`CommunityWeights`).
        n_edges: number of edges.
    """

    sums: Sums
    n_edges: float

    def lost_without_move(
        self, group: Sums, to_now: Sums, to_old: Sums, now: Ids, old: Ids
    ) -> Sums:
        """Return the bits that are lost if each group were where it was, `(m,)`."""
        if not len(now):
            return np.zeros(0)
        there = old != NOBODY
        source, target = self.sums[:, now], np.where(there, self.sums[:, old], 0.0)
        left, joined = source - group, target + group
        left[2] -= 2 * to_now
        joined[2] += np.where(there, 2 * to_old, 0.0)
        return self._lost([source, target], [left, joined])

    def lost_in_union(self, one: Ids, other: Ids, between: Sums) -> Sums:
        """Return the bits that are lost if two communities were one, `(m,)`; 0 if there is one."""
        first, second = self.sums[:, one], np.where(other >= 0, self.sums[:, other], 0.0)
        united = first + second
        united[2] += 2 * between
        return self._lost([first, second], [united])

    def _lost(self, now: list[Sums], instead: list[Sums]) -> Sums:
        """Return the bits that are lost with some communities instead of others, `(m,)`."""
        k = (self.sums[0] > 0).sum()
        k_instead = k + sum(one[0] > 0 for one in instead) - sum(one[0] > 0 for one in now)
        nats = sum(map(self._nats, instead)) - sum(map(self._nats, now))
        n_nodes = self.sums[0].sum()
        nats += code_of_sizes(n_nodes, k_instead) - code_of_sizes(n_nodes, k)
        bits: Sums = np.asarray(nats / np.log(2), np.float64)
        return bits

    def _nats(self, community: Sums) -> Sums:
        """Return the part of the description that belongs to each community, `(m,)`."""
        sizes, volume, within = community
        total = self.sums[1].sum()
        inside = self.n_edges * within / total
        # Never 0: the alternative may have edges outside where there are none.
        mixing = (self.n_edges * (1 - self.sums[2].sum() / total) + 0.5) / (self.n_edges + 1)
        share = np.where(inside > 0, volume, total) / total  # an empty community saves nothing
        saved = inside * np.log1p((1 - mixing) / mixing / share)
        nats: Sums = -gammaln(sizes + 1) - saved
        return nats
