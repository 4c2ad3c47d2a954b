"""Method bp on the graph that a trained encoder `edges` weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import block_array, csr_array

from stream_icd.methods.bp.find import find_communities
from stream_icd.methods.bp.parameters import BpParameters, as_weighted
from stream_icd.methods.graphs.adjacency import as_adjacency
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.icd.recipe import EDGES, Recipe
from stream_icd.methods.model import Model
from stream_icd.methods.weighing import weighing
from stream_icd.streaming.detection.detect import detect

BP = BpParameters(resolution=0.01)  # finds a single community


@pytest.fixture(scope="module")
def learned() -> Model:
    """A model with a trained encoder: as if learned, but at random."""
    untrained = Model(Recipe(name="edges", encoder=EDGES), BP)
    rng = np.random.default_rng(0)
    last = rng.normal(0, 0.02, untrained.weights["last"].shape).astype(np.float32)
    return replace(untrained, trained=untrained.weights | {"last": last})


@pytest.fixture
def with_isolated(graph: LabelledGraph) -> csr_array:
    """The graph with three nodes before it that have no edges."""
    return as_adjacency(block_array([[csr_array((3, 3)), None], [None, graph.adjacency]]))


@pytest.mark.parametrize("k", [None, 9])
def test_bp_searches_the_weighted_graph(
    learned: Model, with_isolated: csr_array, k: int | None
) -> None:
    weigh = weighing(learned)
    assert weigh is not None
    weighed = weigh(with_isolated)
    assert np.array_equal(weighed.indices, with_isolated.indices)
    assert len(np.unique(weighed.data)) > 1000
    assert (weighed != weighed.T).nnz == 0
    found = detect(with_isolated, learned, k, method="bp")
    expected = find_communities(weighed, as_weighted(0.0), k)
    assert np.array_equal(found.communities, expected)
    assert found.milliseconds["encode"] > 0


def test_without_trained_weights_nothing_changes_for_bp(graph: LabelledGraph) -> None:
    for model in (Model(Recipe(name="edges", encoder=EDGES), BP), Model(Recipe(name="hops"), BP)):
        assert weighing(model) is None
        found = detect(graph.adjacency, model, method="bp")
        assert found.communities.max() == 0
        assert found.milliseconds["encode"] == 0


def test_with_a_power_of_0_bp_does_without_the_encoder(
    learned: Model, graph: LabelledGraph
) -> None:
    assert learned.trained is not None
    without = replace(learned, trained=learned.trained | {"power": np.zeros(1, np.float32)})
    assert weighing(without) is None
    assert detect(graph.adjacency, without, method="bp").communities.max() == 0
    by_icd = (detect(graph.adjacency, one, 9, method="icd") for one in (learned, without))
    assert np.array_equal(*(one.communities for one in by_icd))


def test_the_resolution_that_was_learned_is_used(learned: Model, graph: LabelledGraph) -> None:
    assert learned.trained is not None
    coarse = replace(learned, trained=learned.trained | {"resolution": np.full(1, 1e-3, "f4")})
    for method in ("bp", "icd"):
        assert detect(graph.adjacency, learned, method=method).communities.max() > 0
        assert detect(graph.adjacency, coarse, method=method).communities.max() == 0


def test_a_graph_without_edges_is_weighted_too(learned: Model) -> None:
    assert detect(csr_array((4, 4)), learned, method="bp").communities.tolist() == [0, 1, 2, 3]
