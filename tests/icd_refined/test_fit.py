"""Learning from labelled graphs: what is learned, and that it helps on graphs not seen."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array, triu

from stream_icd.errors import BadSettings
from stream_icd.icd.labelled_graph import LabelledGraph
from stream_icd.icd.refined.fit import fit_parameters
from stream_icd.icd.refined.parameters import RefinedParameters
from stream_icd.icd.refined.refine import refine
from stream_icd.quality.nmi import nmi
from stream_icd.synthetic.lfr import generate_lfr
from stream_icd.synthetic.planted_graph import PlantedGraph


def labelled(graph: PlantedGraph) -> LabelledGraph:
    return LabelledGraph(graph.adjacency(), graph.communities)


def lfr(seed: int, mixing: float, n_nodes: int = 1500) -> PlantedGraph:
    return generate_lfr(np.random.default_rng(seed), n_nodes=n_nodes, mixing=mixing)


@pytest.mark.parametrize("mixing", [0.5, 0.6])
def test_what_is_learned_beats_the_defaults_on_a_graph_not_seen(mixing: float) -> None:
    parameters = fit_parameters([labelled(lfr(seed, mixing)) for seed in range(3)])
    assert parameters.mixing == pytest.approx(mixing, abs=0.02)
    learned, default = [], []
    for unseen in (lfr(seed, mixing) for seed in range(100, 105)):
        adjacency, k = unseen.adjacency(), unseen.n_communities
        learned.append(nmi(unseen.communities, refine(adjacency, parameters, k)))
        default.append(nmi(unseen.communities, refine(adjacency, RefinedParameters(), k)))
    assert np.mean(learned) > np.mean(default) + 0.01


def test_fitting_is_repeatable_and_passes_over_what_it_cannot_use() -> None:
    useful = labelled(lfr(1, 0.4))
    without_edges = LabelledGraph(csr_array((3, 3)), np.zeros(3, np.int32))
    fitted = fit_parameters([useful])
    assert fit_parameters([without_edges, LabelledGraph(useful.adjacency), useful]) == fitted


def test_fitting_without_labels_is_refused() -> None:
    with pytest.raises(BadSettings, match="labels"):
        fit_parameters([LabelledGraph(lfr(1, 0.4).adjacency())])


def test_what_is_learned_holds_on_smaller_graphs_too() -> None:
    """The finest resolutions are as good on the graphs at hand, and fail on smaller ones."""
    at_hand = [
        labelled(generate_lfr(np.random.default_rng(seed), n_nodes=4000, mixing=0.3))
        for seed in range(4)
    ]
    parameters = fit_parameters(at_hand)
    assert parameters.resolution <= 32
    for seed in range(50, 54):
        smaller = generate_lfr(np.random.default_rng(seed), n_nodes=2000, mixing=0.3)
        found = refine(smaller.adjacency(), parameters, smaller.n_communities)
        assert nmi(smaller.communities, found) > 0.985


def with_weights(graph: LabelledGraph, inside: float, between: float, seed: int) -> LabelledGraph:
    """Exponential weights of these means, inside communities and between them."""
    assert graph.labels is not None
    upper = triu(graph.adjacency).tocoo()
    same = graph.labels[upper.row] == graph.labels[upper.col]
    rng = np.random.default_rng(seed)
    upper.data = rng.exponential(np.where(same, inside, between)) + 1e-6
    adjacency = csr_array(upper + upper.T)
    adjacency.sort_indices()
    return LabelledGraph(adjacency, graph.labels)


@pytest.mark.parametrize(("inside", "exponent"), [(1.0, 0.0), (20.0, 1.0)])
def test_how_much_weights_count_is_learned(inside: float, exponent: float) -> None:
    graphs = [with_weights(labelled(lfr(seed, 0.5, 800)), inside, 1.0, seed) for seed in range(2)]
    parameters = fit_parameters(graphs)
    assert parameters.weight_exponent == exponent
    if exponent:  # heavy edges are mostly inside: less of the weight lies between communities
        assert parameters.mixing is None or parameters.mixing < 0.3
