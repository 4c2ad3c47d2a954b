"""What a network that aggregates features sees where all features are alike (Xu et al. 2019,
section 5): nothing by a mean or an attention, degrees by a sum.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import coo_array

from benchmarks.lab.methods import gat, gin, graphsage
from benchmarks.lab.neural import first_weights, tensor_of, torch_alone
from stream_icd.methods.graphs.adjacency import as_adjacency
from stream_icd.methods.synthetic.gn import generate_gn

GRAPH = generate_gn(np.random.default_rng(0), 100, 4, 0.5, 0.02).adjacency()
WIDTH = 16
ALIKE = torch.ones(GRAPH.shape[0], WIDTH)


@pytest.mark.parametrize("network", [graphsage, gat])
def test_a_mean_or_an_attention_sees_nothing(network: object) -> None:
    with torch_alone(0), torch.no_grad():
        shapes = network.shapes(WIDTH)  # type: ignore[attr-defined]
        embedding = network.embed(first_weights(shapes), network.prepare(GRAPH), ALIKE)  # type: ignore[attr-defined]
    torch.testing.assert_close(embedding, embedding[:1].expand_as(embedding))


def test_a_sum_sees_degrees_and_nothing_else() -> None:
    """Two triangles and a ring of six: each node has two neighbours."""
    triangles = [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)]
    rows, columns = np.array(triangles + [(6 + v, 6 + (v + 1) % 6) for v in range(6)]).T
    regular = as_adjacency(coo_array((np.ones(12), (rows, columns)), shape=(12, 12)))
    with torch_alone(0), torch.no_grad():
        weights = first_weights(gin.shapes(WIDTH))
        alike = gin.embed(weights, tensor_of(regular), ALIKE[:12])
        apart = gin.embed(weights, tensor_of(GRAPH), ALIKE)
    torch.testing.assert_close(alike, alike[:1].expand_as(alike))
    assert float(apart.std(dim=0).max()) > 1e-2
