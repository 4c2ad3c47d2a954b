"""Learning the encoder edges: from labels of all nodes or some, with a limit on the time."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save
from scipy.sparse import csr_array

from stream_icd.core.errors import BadSettings
from stream_icd.learning.training.icd import learn_edges as module
from stream_icd.learning.training.icd.learn_edges import Effort, LearnedEdges, learn_edges
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.icd.clustering import cluster
from stream_icd.methods.icd.encoder.contract import Weights, digest, initial_weights
from stream_icd.methods.icd.encoder.edges import Edges
from stream_icd.methods.icd.features import model_features
from stream_icd.methods.icd.recipe import EncoderSettings, Recipe
from stream_icd.methods.quality.agreement import nmi
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_lfr

RECIPE = Recipe(
    name="mixed",
    encoder=EncoderSettings(kind="edges", widths=(1024, 32), initialisation="hadamard"),
)


def mixed(seed: int) -> LabelledGraph:
    """1,000 nodes, half of whose edges leave their community."""
    settings = LfrSettings(1000, max_degree=50, max_community=100, mixing=0.5)
    made = generate_lfr(np.random.default_rng(seed), settings)
    return LabelledGraph(made.adjacency(), made.communities)


def pair(graph: LabelledGraph) -> tuple:  # type: ignore[type-arg]
    return graph.adjacency, graph.labels


def weighed(graph: LabelledGraph, weights: Weights) -> Any:
    features = model_features(graph.adjacency, RECIPE)
    return Edges(RECIPE.encoder).weigh(weights, features, graph.adjacency)


def k_means_nmi(graph: LabelledGraph, weights: Weights) -> float:
    assert graph.labels is not None
    features = model_features(graph.adjacency, RECIPE)
    embedding = Edges(RECIPE.encoder).embed(weights, features, graph.adjacency)
    return nmi(graph.labels, cluster(embedding, graph.n_communities or 0))


@pytest.fixture(scope="module")
def learned() -> LearnedEdges:
    return learn_edges([pair(mixed(seed)) for seed in (1, 2)], RECIPE, validation=[pair(mixed(3))])


def test_learning_helps_on_graphs_that_it_has_not_seen_in_thirty_kilobytes(
    learned: LearnedEdges,
) -> None:
    before, after = (
        np.mean([k_means_nmi(mixed(seed), weights) for seed in (8, 9)])
        for weights in (initial_weights(RECIPE), learned.weights)
    )
    assert after > before + 0.05
    assert learned.rounds[-1].after < 0.6 * learned.rounds[0].before
    assert {n: w.shape for n, w in learned.weights.items()} == Edges(RECIPE.encoder).weight_shapes()
    assert all(w.dtype == np.float32 for w in learned.weights.values())
    assert len(save(learned.weights)) <= 30_000


def test_other_numbers_of_the_communities_change_nothing(learned: LearnedEdges) -> None:
    renumbered = [
        (graph.adjacency, (7 * graph.labels + 1) % 7001) for graph in (mixed(1), mixed(2))
    ]
    again = learn_edges(renumbered, RECIPE, validation=[pair(mixed(3))])
    assert digest(again.weights) == digest(learned.weights)  # the same bytes, also of a second run


def test_a_resolution_is_learned_where_labels_name_fewer_communities_than_the_edges() -> None:
    """12 communities of 25 nodes in three groups, in which there are some more edges."""
    rng, place = np.random.default_rng(0), np.arange(300) // 25
    shared = (place[:, None] == place).astype(int) + (place[:, None] // 4 == place // 4)
    upper = np.triu(rng.random((300, 300)) < np.array([0.002, 0.04, 0.5])[shared], 1)
    adjacency = csr_array((upper + upper.T).astype(float))
    fine, coarse = (
        learn_edges([(adjacency, labels.astype(np.int32))], RECIPE).weights["resolution"][0]
        for labels in (place, place // 4)
    )
    assert (fine, coarse > 0) == (0, True)


def test_nodes_without_a_label_teach_nothing() -> None:
    graph = mixed(1)
    known = np.random.default_rng(0).random(1000) < 0.5
    labels = np.where(known, graph.labels, -1).astype(np.int32)
    learned = learn_edges([(graph.adjacency, labels)], RECIPE)
    i, j = np.triu(graph.adjacency.toarray()).nonzero()
    assert learned.n_examples == (known[i] & known[j]).sum()
    assert k_means_nmi(mixed(9), learned.weights) > k_means_nmi(mixed(9), initial_weights(RECIPE))
    with pytest.raises(BadSettings, match="1 graphs has two labelled ends"):
        learn_edges([(graph.adjacency, np.full(1000, -1, np.int32))], RECIPE)


def test_what_learned_from_no_weights_does_not_run_wild_on_a_graph_that_has_some(
    learned: LearnedEdges,
) -> None:
    graph = mixed(9)
    rows, columns = graph.adjacency.nonzero()
    nearly = csr_array((1 + (rows + columns) % 6 / 1000, (rows, columns)), graph.adjacency.shape)
    before, after = (
        weighed(LabelledGraph(adjacency), learned.weights).log_odds
        for adjacency in (graph.adjacency, nearly)
    )
    assert np.abs(after - before).max() < 1


def test_when_the_time_is_up_what_was_given_is_kept(learned: LearnedEdges) -> None:
    late = learn_edges([pair(mixed(1))], RECIPE, start=learned.weights, effort=Effort(0))
    assert digest(late.weights) == digest(learned.weights)
    assert [one.steps for one in late.rounds] == [0] * len(late.rounds)


def test_what_is_learned_on_is_never_worse_on_the_validation_graphs(learned: LearnedEdges) -> None:
    wrong = mixed(1)
    labels = np.random.default_rng(0).permutation(wrong.labels)
    again = learn_edges(
        [(wrong.adjacency, labels)], RECIPE, validation=[pair(mixed(3))], start=learned.weights
    )
    assert again.rounds[-1].after <= learned.rounds[-1].after + 1e-6


def test_the_papers_losses_cannot_train_it() -> None:
    by_losses = pytest.importorskip(
        "stream_icd.learning.training.icd.train_encoder", exc_type=ImportError
    )
    with pytest.raises(BadSettings, match="learns from labels"):
        by_losses.Adversaries(RECIPE.changed(discriminator_widths=(32, 1)))


@pytest.mark.parametrize(("second", "power"), [(0.91, 1), (0.89, 0)])
def test_bp_does_without_the_encoder_if_it_is_worse_on_any_validation_graph(
    monkeypatch: pytest.MonkeyPatch, second: float, power: float
) -> None:
    """A better mean of two graphs is often chance: bp scores .9 on both without the encoder."""
    scores = {(0.0, 0.0): cycle([0.9]), (1.0, 0.0): cycle([0.99, second])}
    other = cycle([0.5])
    monkeypatch.setattr(
        module, "_agreement", lambda _graph, how, _seed: next(scores.get(how, other))
    )
    validation = [pair(mixed(2)), pair(mixed(3))]
    learned = learn_edges([pair(mixed(1))], RECIPE, validation=validation)
    assert learned.weights["power"][0] == power
