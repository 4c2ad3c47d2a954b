"""Small graphs with known communities, shared by the model's tests."""

from __future__ import annotations

import numpy as np
import pytest

from stream_icd.icd.labelled_graph import LabelledGraph
from stream_icd.icd.recipe import Recipe
from stream_icd.synthetic.gn import generate_gn


def make_graph(seed: int, n_nodes: int = 300, n_communities: int = 15) -> LabelledGraph:
    """Communities plain enough that every sound method finds most of them."""
    rng = np.random.default_rng(seed)
    planted = generate_gn(rng, n_nodes, n_communities, p_in=0.5, p_out=0.02)
    return LabelledGraph(planted.adjacency(), planted.communities)


@pytest.fixture(scope="session")
def graph() -> LabelledGraph:
    """300 nodes in 15 communities."""
    return make_graph(seed=0)


@pytest.fixture(scope="session")
def history() -> list[LabelledGraph]:
    """Six graphs of one system."""
    return [make_graph(seed) for seed in range(1, 7)]


@pytest.fixture(scope="session")
def recipe() -> Recipe:
    """A recipe that trains in a second or two."""
    return Recipe(
        name="toy",
        encoder={"widths": (128, 64, 32)},
        discriminator_widths=(32, 16, 1),
        schedule={"epochs": 2, "samples": 10},
        losses={"rows": 100},
        optimiser={"learning_rate": 1e-3},
    )
