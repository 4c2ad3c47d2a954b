"""Edge weights: their unit changes nothing, and no edge outweighs a graph, in either method."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream_icd.core.errors import BadInput
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.graphs.weights import comparable_weights
from stream_icd.methods.icd.recipe import Recipe
from stream_icd.methods.model import Method, Model
from stream_icd.methods.quality.agreement import nmi
from stream_icd.methods.synthetic.gn import generate_gn
from stream_icd.methods.synthetic.planted_graph import PlantedGraph
from stream_icd.streaming.detection.detect import detect, embed
from tests.methods.bp.graphs import graph_of

Floats = NDArray[np.float64]

PARAMETERS = {"modularity": BpParameters(), "beliefs": BpParameters(4.0, 0.4, iterations=1)}
BOTH_METHODS = pytest.mark.parametrize(
    ("method", "parameters"), [("bp", "modularity"), ("bp", "beliefs"), ("icd", "modularity")]
)


@cache
def planted() -> PlantedGraph:
    return generate_gn(np.random.default_rng(4), 300, 10, p_in=0.5, p_out=0.02)


@cache
def model(parameters: str) -> Model:
    recipe = Recipe(name="toy", encoder={"widths": (64, 32)}, discriminator_widths=(32, 1))
    return Model(recipe, PARAMETERS[parameters])


def weighted(weights: Floats) -> csr_array:
    return graph_of(planted().n_nodes, planted().edges, weights)


def drawn_weights(seed: int) -> Floats:
    """Few, and many of them equal; or all different, with heavy tails."""
    rng, n_edges = np.random.default_rng(seed), planted().edges.shape[1]
    return rng.integers(1, 5, n_edges) / 7 if seed % 2 else rng.pareto(1.0, n_edges) + 0.01


def found(adjacency: csr_array, method: Method, parameters: str, k: int | None = None) -> list[int]:
    return detect(adjacency, model(parameters), k, method=method).communities.tolist()


@BOTH_METHODS
@settings(max_examples=10, deadline=None)
@given(
    factor=st.floats(1e-6, 1e6) | st.integers(-20, 20).map(lambda power: 2.0**power),
    seed=st.integers(0, 99),
    k=st.sampled_from([None, 4, 15]),
)
def test_the_unit_of_the_weights_changes_nothing(
    method: Method, parameters: str, factor: float, seed: int, k: int | None
) -> None:
    weights = drawn_weights(seed)
    expected = found(weighted(weights), method, parameters, k)
    assert found(weighted(weights * factor), method, parameters, k) == expected


@pytest.mark.parametrize("exponent", [0.5, 0.75, 1.0])
def test_many_weights_of_few_digits_are_as_comparable_as_in_another_unit(exponent: float) -> None:
    """Those of 16 bits are made comparable once each; a third of them has more bits."""
    weights = np.random.default_rng(0).integers(1, 90, 30_000) / 4
    in_thirds = comparable_weights(weights / 3, exponent)
    np.testing.assert_allclose(comparable_weights(weights, exponent), in_thirds, rtol=1e-6)


@BOTH_METHODS
def test_communities_are_found_whatever_the_weights_are(method: Method, parameters: str) -> None:
    truth, n_edges = planted().communities, planted().edges.shape[1]
    ones, rng = np.ones(n_edges), np.random.default_rng(1)
    expected = found(weighted(ones), method, parameters)
    for weight in (0.1, 1e300):  # equal weights are no weights
        assert found(weighted(weight * ones), method, parameters) == expected
    one_heavy, heavy_tails = ones.copy(), rng.pareto(0.5, n_edges) + 1
    one_heavy[0] = 1e308
    assert nmi(truth, np.array(found(weighted(one_heavy), method, parameters))) > 0.95
    assert nmi(truth, np.array(found(weighted(heavy_tails), method, parameters, 10))) > 0.9
    whole_range = 10.0 ** rng.uniform(-308, 308, n_edges)
    assert set(found(weighted(whole_range), method, parameters, 10)) == set(range(10))


@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf])
def test_a_weight_that_is_none_is_refused(weight: float) -> None:
    adjacency = csr_array(np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [1.0, 1.0, 0.0]]))
    adjacency.data[1] = weight
    with pytest.raises(BadInput, match="finite"):
        detect(adjacency, model("beliefs"), 2)
    with pytest.raises(BadInput, match="finite"):
        embed(adjacency, model("beliefs"))
