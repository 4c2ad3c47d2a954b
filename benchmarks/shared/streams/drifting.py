"""Results of one graph whose communities drift, as a detector would publish them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa

from stream_icd.core.communities import STAGES, Communities
from stream_icd.core.snapshot import Window

NODES, K, MOVED = 5000, 80, 100
START = datetime(2026, 1, 1, tzinfo=UTC)


def results(n: int, seed: int = 0) -> Iterator[Communities]:
    """Results of one graph: in each window some nodes have moved to another community."""
    rng = np.random.default_rng(seed)
    labels = np.arange(NODES, dtype=np.int32) % K
    nodes = pa.array(np.arange(NODES))
    for at in range(n):
        window = Window(START + timedelta(minutes=at), START + timedelta(minutes=at + 1))
        yield Communities(
            graph="drifting",
            snapshot_id=f"drifting/{at:06}",
            window=window,
            nodes=nodes,
            labels=labels,
            n_edges=25_000,
            model="benchmark@1",
            modularity=0.67,
            ncut=20.0,
            milliseconds=dict.fromkeys(STAGES, 5.0),
            detected_at=window.end,
            evidence="strong",
            bits_saved=1.9,
        )
        labels = labels.copy()
        labels[rng.integers(K, NODES, MOVED)] = rng.integers(0, K, MOVED)
