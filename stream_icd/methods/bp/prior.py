"""What is remembered of each node's community, and how much it weighs: the prior of beliefs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_icd.core.compiled import compiled

N_KEPT = 4
"""Communities kept per node. Eight took twice as long and gave no better result."""

OVERCONFIDENCE = 3.25
"""Exponent of η in `trusted`; chosen on streams in which 2 to 40 % of the nodes move."""

MOST_TRUST = 0.9
"""Upper limit of the weight of remembered beliefs, with news and without: with a higher one, moves
of nodes are detected windows later."""


class Prior(NamedTuple):
    """Remembered beliefs of each node: `communities` (n, N_KEPT), unused places last and -1.

    `shares` (n, N_KEPT) are their probabilities; their sum is at most 1.
    """

    communities: NDArray[np.int32]
    shares: NDArray[np.float32]


def uninformed_prior(n_nodes: int) -> Prior:
    """The empty recollection, for the first window."""
    return Prior(np.full((n_nodes, N_KEPT), -1, np.int32), np.zeros((n_nodes, N_KEPT), np.float32))


@compiled()
def trusted(stay: float) -> float:
    """The weight of remembered beliefs in the prior, below η: `OVERCONFIDENCE`, `MOST_TRUST`."""
    trust: float = stay**OVERCONFIDENCE
    return min(trust, MOST_TRUST)
