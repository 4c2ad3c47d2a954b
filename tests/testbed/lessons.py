"""Small windows of a stream with known communities, for tests of retraining."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stream_icd.core.communities import Labels
from stream_icd.core.snapshot import Snapshot
from stream_icd.methods.synthetic.gn import generate_gn
from stream_icd.sources.generated import planted_snapshots

GRAPH = "small"


def small_windows(
    count: int, seed: int = 0, p_in: float = 0.6, communities: int = 8
) -> list[tuple[Snapshot, Labels]]:
    """Windows of 160 nodes, a minute each, whose communities are independent and clear.

    They do not state K: with it, nearly any model finds them.
    """
    rng = np.random.default_rng(seed)
    graphs = (generate_gn(rng, 160, communities, p_in) for _ in range(count))
    return [
        (replace(snapshot, n_communities=None), labels)
        for snapshot, labels in planted_snapshots(graphs, GRAPH, "test")
    ]
