"""The measures of a partition on a level graph are those of the adjacency."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from stream_icd.methods.bp.level_graph import finest_level
from stream_icd.methods.bp.likelihood import mixing_of, modularity_of
from stream_icd.methods.bp.partition import measured
from stream_icd.methods.quality.partition import description_length, modularity


@pytest.mark.parametrize("seed", range(6))
def test_they_equal_description_length_and_modularity(seed: int) -> None:
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((60, 60)) < 0.1, 1) * rng.uniform(0.5, 2, (60, 60))
    upper[:, -1] = 0  # an isolated node
    adjacency = csr_array(upper + upper.T)
    labels = 3 * rng.integers(0, 5, 60).astype(np.int32)  # some labels are unused
    partition = measured(finest_level(adjacency), labels)
    assert partition.bits == pytest.approx(description_length(adjacency, labels))
    assert modularity_of(finest_level(adjacency), labels) == pytest.approx(
        modularity(adjacency, labels)
    )
    assert partition.mixing == pytest.approx(mixing_of(adjacency, labels))
    assert len(set(labels.tolist())) == partition.labels.max() + 1


def test_without_edges_both_are_zero() -> None:
    graph = finest_level(csr_array((3, 3), dtype=float))
    partition = measured(graph, np.arange(3, dtype=np.int32))
    assert (partition.bits, partition.mixing, modularity_of(graph, partition.labels)) == (
        0.0,
        0.0,
        0.0,
    )
