"""Learning from past graphs: what is learned, and that it helps on graphs not seen."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import block_diag, coo_array, csr_array, triu

from stream_icd.core.errors import BadSettings
from stream_icd.learning.training.bp.fit import fit_parameters
from stream_icd.learning.training.bp.fitted import Fit
from stream_icd.methods.bp.find import find_communities
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.quality.agreement import nmi
from stream_icd.methods.synthetic.gn import generate_gn
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_lfr
from stream_icd.methods.synthetic.planted_graph import PlantedGraph


def labelled(graph: PlantedGraph) -> LabelledGraph:
    return LabelledGraph(graph.adjacency(), graph.communities)


def lfr(seed: int, mixing: float, n_nodes: int = 800) -> PlantedGraph:
    return generate_lfr(np.random.default_rng(seed), LfrSettings(n_nodes=n_nodes, mixing=mixing))


def test_what_is_learned_beats_the_defaults_on_a_graph_not_seen() -> None:
    mixing = 0.5
    fit = fit_parameters([labelled(lfr(seed, mixing)) for seed in range(2)])
    assert fit.curve[0].parameters.mixing == pytest.approx(mixing, abs=0.02)
    parameters = fit.parameters
    learned, default = [], []
    for unseen in (lfr(seed, mixing) for seed in range(100, 103)):
        adjacency, k = unseen.adjacency(), unseen.n_communities
        learned.append(nmi(unseen.communities, find_communities(adjacency, parameters, k)))
        default.append(nmi(unseen.communities, find_communities(adjacency, BpParameters(), k)))
    assert np.mean(learned) > np.mean(default) + 0.01


def test_fitting_is_repeatable_and_passes_over_what_it_cannot_use() -> None:
    useful = labelled(lfr(1, 0.4, 400))
    without_edges = LabelledGraph(csr_array((3, 3)), np.zeros(3, np.int32))
    fitted = fit_parameters([useful])
    assert fit_parameters([without_edges, LabelledGraph(useful.adjacency), useful]) == fitted


def test_nothing_to_learn_from_is_refused() -> None:
    with pytest.raises(BadSettings, match="at least one graph that has edges"):
        fit_parameters([LabelledGraph(csr_array((3, 3)), np.zeros(3, np.int32))])


@pytest.fixture(scope="module")
def learned() -> Fit:
    """From two graphs of 1,000 nodes, without labels."""
    return fit_parameters([LabelledGraph(lfr(seed, 0.5, 1000).adjacency()) for seed in range(2)])


def test_without_labels_and_k_it_learns_what_helps_on_graphs_not_seen(learned: Fit) -> None:
    assert learned.learned_from == "hidden edges"
    assert learned.parameters.mixing == pytest.approx(0.5, abs=0.03)
    found, default = [], []
    for unseen in (lfr(seed, 0.5, 1000) for seed in range(100, 102)):
        adjacency, truth = unseen.adjacency(), unseen.communities
        found.append(nmi(truth, find_communities(adjacency, learned.parameters)))
        default.append(nmi(truth, find_communities(adjacency, BpParameters())))
    assert np.mean(found) > np.mean(default) + 0.02


def test_the_curve_shows_both_criteria_at_every_resolution(learned: Fit) -> None:
    assert learned.parameters in [tried.parameters for tried in learned.curve]
    resolutions = [tried.parameters.resolution for tried in learned.curve]
    assert resolutions == sorted(resolutions)
    assert resolutions[0] <= 0.5
    assert resolutions[-1] >= 1000
    assert all(t.ami is None and t.hidden_edges is not None for t in learned.curve)
    coarsest, finest = learned.curve[0], learned.curve[-1]
    taken = next(t for t in learned.curve if t.parameters == learned.parameters)
    for extreme in (coarsest, finest):
        assert taken.hidden_edges > extreme.hidden_edges
        assert taken.description_length < extreme.description_length


def test_learning_is_the_same_on_any_number_of_threads() -> None:
    graph = LabelledGraph(generate_gn(np.random.default_rng(0), 120, 6, 0.6, 0.02).adjacency())
    assert fit_parameters([graph], threads=1) == fit_parameters([graph], threads=3)


@pytest.mark.parametrize("known", [True, False], ids=["labels", "no labels"])
def test_progress_counts_every_step_to_the_end(known: bool) -> None:
    graph = generate_gn(np.random.default_rng(0), 120, 6, 0.6, 0.02)
    reported: list[tuple[str, int, int]] = []
    one = labelled(graph) if known else LabelledGraph(graph.adjacency())
    fit_parameters([one], on_step=lambda *step: reported.append(step))
    tasks, done, totals = zip(*reported, strict=True)
    assert set(tasks) == {"learn from labels" if known else "learn from hidden edges"}
    assert list(done) == sorted(set(done))
    assert set(totals) == {done[-1]}
    assert len(done) > 20


def test_learning_ends_when_it_is_interrupted() -> None:
    graph = LabelledGraph(generate_gn(np.random.default_rng(0), 120, 6, 0.6, 0.02).adjacency())
    steps = []

    def interrupt(_task: str, done: int, _total: int) -> None:
        steps.append(done)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_parameters([graph], on_step=interrupt)
    assert len(steps) == 1


def test_many_small_communities_need_and_get_a_fine_resolution() -> None:
    """240 cliques in a ring: modularity joins them, at its own resolution and far above it."""
    n_cliques, size = 240, 5
    cliques = block_diag([np.ones((size, size)) - np.eye(size)] * n_cliques).tocsr()
    first = np.arange(n_cliques) * size
    ring = coo_array(
        (np.ones(n_cliques), (first, np.roll(first, 1) + 1)), shape=cliques.shape
    ).tocsr()
    adjacency = csr_array(cliques + ring + ring.T)
    truth = np.arange(n_cliques * size) // size
    learned = fit_parameters([LabelledGraph(adjacency)]).parameters
    assert nmi(truth, find_communities(adjacency, learned)) > 0.99
    assert nmi(truth, find_communities(adjacency, BpParameters())) < 0.9


@pytest.mark.parametrize("n_nodes", [2, 3, 6])
def test_tiny_and_structureless_graphs_teach_something_usable(n_nodes: int) -> None:
    complete = csr_array(np.ones((n_nodes, n_nodes)) - np.eye(n_nodes))
    learned = fit_parameters([LabelledGraph(complete)]).parameters
    assert find_communities(complete, learned).shape == (n_nodes,)


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


@pytest.mark.parametrize(("inside", "mixing", "exponent"), [(1.0, 0.5, 0.0), (8.0, 0.65, 1.0)])
def test_how_much_weights_count_is_learned(inside: float, mixing: float, exponent: float) -> None:
    graphs = [
        with_weights(labelled(lfr(seed, mixing, 500)), inside, 1.0, seed) for seed in range(2)
    ]
    parameters = fit_parameters(graphs).parameters
    assert parameters.weight_exponent == exponent
    if exponent:  # heavy edges are mostly inside: less of the weight lies between communities
        assert parameters.mixing is None or parameters.mixing < 0.3
