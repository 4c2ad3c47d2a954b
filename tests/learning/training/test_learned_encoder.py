"""What teaches the encoder `edges`, also in hindsight; a model gets it only if that helps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle

import numpy as np
import pytest
from scipy.sparse import csr_array, diags_array

from stream_icd.core.arrays import NOBODY
from stream_icd.core.errors import BadSettings
from stream_icd.learning.training.icd import learn_edges as edges_module
from stream_icd.learning.training.icd import proved_encoder
from stream_icd.learning.training.icd.learn_edges import (
    Effort,
    LabelledAdjacency,
    LearnedEdges,
    learn_edges,
)
from stream_icd.learning.training.icd.proved_encoder import (
    EncoderProof,
    newest_graphs,
    with_edges,
    with_weights,
)
from stream_icd.learning.training.icd.taught import Taught, in_hindsight, taught_by
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.icd.clustering import cluster
from stream_icd.methods.icd.encoder.contract import Weights, digest, initial_weights
from stream_icd.methods.icd.encoder.edges import Edges
from stream_icd.methods.icd.features import model_features
from stream_icd.methods.icd.recipe import EDGES, Recipe
from stream_icd.methods.memory.detect import detect_window
from stream_icd.methods.model import Model
from stream_icd.methods.quality.agreement import ami, nmi
from stream_icd.methods.synthetic.gn import generate_gn
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_lfr
from stream_icd.registry.find import open_model
from stream_icd.streaming.detection.detect import detect
from tests.testbed.lessons import drifting_windows, moment

BP = "bp, no encoder"
BP_NUMBERS = open_model("lfr").model.bp
RECIPE = Recipe(name="mixed", encoder=EDGES)
MODEL = Model(RECIPE, BP_NUMBERS)


def mixed(seed: int, *, wrong: bool = False) -> Taught:
    """500 nodes, more than half of whose edges leave their community."""
    settings = LfrSettings(500, max_degree=50, max_community=60, mixing=0.55)
    made = generate_lfr(np.random.default_rng(seed), settings)
    labels = made.communities
    if wrong:
        labels = np.random.default_rng(0).permutation(labels)
    return Taught(LabelledGraph(made.adjacency()), labels, "labels")


def pair(taught: Taught) -> LabelledAdjacency:
    return taught.graph.adjacency, taught.labels


def k_means_nmi(taught: Taught, weights: Weights) -> float:
    adjacency, labels = pair(taught)
    embedding = Edges(RECIPE.encoder).embed(weights, model_features(adjacency, RECIPE), adjacency)
    return nmi(labels, cluster(embedding, int(labels.max()) + 1))


@pytest.fixture(scope="module")
def edges() -> LearnedEdges:
    """What two graphs taught."""
    return learn_edges([pair(mixed(seed)) for seed in (1, 2)], RECIPE, validation=[pair(mixed(3))])


def test_learning_helps_on_graphs_that_it_has_not_seen(edges: LearnedEdges) -> None:
    before, after = (
        np.mean([k_means_nmi(mixed(seed), weights) for seed in (8, 9)])
        for weights in (initial_weights(RECIPE), edges.weights)
    )
    assert after > before + 0.05
    assert edges.rounds[-1].after < 0.6 * edges.rounds[0].before
    shapes = Edges(RECIPE.encoder).weight_shapes()
    assert {name: weight.shape for name, weight in edges.weights.items()} == shapes
    assert all(weight.dtype == np.float32 for weight in edges.weights.values())


def test_other_numbers_of_the_communities_change_nothing(edges: LearnedEdges) -> None:
    pairs = (pair(mixed(seed)) for seed in (1, 2))
    renumbered = [(adjacency, (7 * labels + 1) % 7001) for adjacency, labels in pairs]
    again = learn_edges(renumbered, RECIPE, validation=[pair(mixed(3))])
    assert digest(again.weights) == digest(edges.weights)  # also those of a second run


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
    adjacency, labels = pair(mixed(1))
    known = np.random.default_rng(0).random(len(labels)) < 0.5
    learned = learn_edges([(adjacency, np.where(known, labels, NOBODY))], RECIPE)
    i, j = np.triu(adjacency.toarray()).nonzero()
    assert learned.n_examples == (known[i] & known[j]).sum()
    before, after = (k_means_nmi(mixed(9), of) for of in (initial_weights(RECIPE), learned.weights))
    assert after > before
    with pytest.raises(BadSettings, match="1 graphs has two labelled ends"):
        learn_edges([(adjacency, np.full_like(labels, NOBODY))], RECIPE)


def test_what_learned_from_no_weights_does_not_run_wild_on_a_graph_that_has_some(
    edges: LearnedEdges,
) -> None:
    adjacency, _ = pair(mixed(9))
    rows, columns = adjacency.nonzero()
    nearly = csr_array((1 + (rows + columns) % 6 / 1000, (rows, columns)), adjacency.shape)
    before, after = (
        Edges(RECIPE.encoder).weigh(edges.weights, model_features(graph, RECIPE), graph).log_odds
        for graph in (adjacency, nearly)
    )
    assert np.abs(after - before).max() < 1


def test_when_the_time_is_up_what_was_given_is_kept(edges: LearnedEdges) -> None:
    late = learn_edges([pair(mixed(1))], RECIPE, start=edges.weights, effort=Effort(0))
    assert digest(late.weights) == digest(edges.weights)
    assert [one.steps for one in late.rounds] == [0] * len(late.rounds)


def test_what_is_learned_on_is_never_worse_on_the_validation_graphs(edges: LearnedEdges) -> None:
    wrong, validation = [pair(mixed(1, wrong=True))], [pair(mixed(3))]
    again = learn_edges(wrong, RECIPE, validation=validation, start=edges.weights)
    assert again.rounds[-1].after <= edges.rounds[-1].after + 1e-6


def test_the_papers_losses_cannot_train_it() -> None:
    by_losses = pytest.importorskip(
        "stream_icd.learning.training.icd.train_encoder", exc_type=ImportError
    )
    with pytest.raises(BadSettings, match="learns from labels"):
        by_losses.Adversaries(RECIPE.changed(discriminator_widths=(64, 1)))


@pytest.mark.parametrize(("second", "power"), [(0.91, 1), (0.89, 0)])
def test_bp_does_without_the_encoder_if_it_is_worse_on_any_validation_graph(
    monkeypatch: pytest.MonkeyPatch, second: float, power: float
) -> None:
    """A better mean of two graphs is often chance: bp scores .9 on both without the encoder."""
    scores = {(0.0, 0.0): cycle([0.9]), (1.0, 0.0): cycle([0.99, second])}
    other = cycle([0.5])
    monkeypatch.setattr(
        edges_module, "_agreement", lambda _graph, how, _seed: next(scores.get(how, other))
    )
    validation = [pair(mixed(2)), pair(mixed(3))]
    learned = learn_edges([pair(mixed(1))], RECIPE, validation=validation)
    assert learned.weights["power"][0] == power


@pytest.fixture(scope="module")
def learned() -> tuple[Model, EncoderProof]:
    return with_edges(MODEL, [mixed(seed) for seed in range(1, 5)])


def test_weights_that_help_are_kept_with_the_better_method(
    learned: tuple[Model, EncoderProof],
) -> None:
    model, proof = learned
    assert proof.state == "learned"
    assert (proof.n_taught, proof.n_validation, proof.by_turns) == (4, 4, True)
    of = {one.name: one.mean for one in proof.scores}
    first, *_, last = of
    assert (first, last) == (BP, "icd, untrained encoder")
    assert of[proof.chosen] == max(of.values())
    assert "on 4 graphs, each after learning from others" in proof.section()
    assert of[proof.chosen] > of[BP] + 0.02
    assert proof.chosen.startswith(model.method)
    other = mixed(8)
    ours, plain = (
        ami(other.labels, detect(other.graph.adjacency, one).communities) for one in (model, MODEL)
    )
    assert ours > plain


def test_labels_that_mean_nothing_leave_the_encoder_untrained() -> None:
    wrong = [mixed(seed, wrong=True) for seed in range(1, 4)]
    model, proof = with_edges(MODEL, [*wrong, mixed(4)])
    assert (proof.state, proof.chosen) == ("not trained", BP)
    assert model.trained is None  # so its seed's weights are not called learned
    assert model.method == "bp"
    said = "It is **not trained**. Nothing that 4 graphs taught was a sure gain on them."
    assert said in proof.section()


def test_the_parents_weights_stay_if_the_time_is_up_or_nothing_teaches(
    learned: tuple[Model, EncoderProof],
) -> None:
    parent = replace(learned[0], bp=open_model("gn").model.bp, method="icd")
    graphs = [mixed(seed) for seed in range(1, 5)]
    late, proof = with_edges(MODEL, graphs, parent=parent, effort=Effort(0))
    assert (proof.state, proof.stopped) == ("its parent's", True)
    assert digest(late.weights) == digest(parent.weights)
    assert late.bp == BP_NUMBERS
    assert "The time was up before learning ended." in proof.section()
    kept, proof = with_edges(MODEL, [], parent=parent)
    assert (proof.state, kept.trained, kept.method) == ("its parent's", parent.trained, "icd")
    other = replace(parent, recipe=Recipe(name="hops"), trained=None)
    for taught, before in ((graphs, None), ([], None), ([], other)):
        model, proof = with_edges(MODEL, taught, parent=before, effort=Effort(0))
        assert (proof.state, model.trained, model.method) == ("not trained", None, "bp")
        assert proof.stopped == bool(taught)


def test_weights_of_the_papers_losses_are_kept_also_if_bp_is_better() -> None:
    small = Recipe(name="a", encoder={"widths": (32, 8)}, discriminator_widths=(8, 1))
    plain, weights = Model(small, BP_NUMBERS), Model(small.changed(seed=1)).weights
    model, proof = with_weights(plain, weights, [mixed(1)])
    assert (proof.state, proof.chosen, model.method) == ("learned", BP, "bp")
    assert model.trained is weights
    model, proof = with_weights(plain, None, [mixed(1)])
    assert (proof.state, model.trained) == ("not trained", None)


def test_more_small_graphs_than_large_ones_teach() -> None:
    def graphs(n_nodes: int, n_graphs: int) -> list[LabelledGraph]:
        path = np.ones(n_nodes - 1)
        adjacency = csr_array(diags_array([path, path], offsets=[-1, 1]))
        return [LabelledGraph(adjacency)] * n_graphs

    assert [len(newest_graphs(graphs(100, n))) for n in (0, 3, 60)] == [0, 3, 40]
    assert len(newest_graphs(graphs(100_000, 60))) == 10
    assert len(newest_graphs(graphs(10_001, 60))) == 20


@pytest.fixture(scope="module")
def windows() -> list[LabelledGraph]:
    """Four windows of 600 nodes, half of whose edges leave their community."""
    return drifting_windows(1, 4, LfrSettings(600, max_degree=40, max_community=60, mixing=0.5))


def bare(windows: list[LabelledGraph]) -> list[LabelledGraph]:
    return [replace(window, labels=None) for window in windows]


def test_later_windows_show_the_communities_of_the_first(windows: list[LabelledGraph]) -> None:
    first = windows[0]
    found, *_ = in_hindsight(windows)
    when_it_came = detect(first.adjacency, open_model("default").model).communities
    assert found is not None
    assert first.labels is not None
    assert ami(first.labels, found) > ami(first.labels, when_it_came) + 0.02


def test_a_graph_without_communities_has_no_labels_and_known_ones_are_not_replaced(
    windows: list[LabelledGraph],
) -> None:
    made = generate_gn(np.random.default_rng(0), 250, 1, 0.04)
    random = LabelledGraph(made.adjacency(), None, moment(0, range(250), "random"))
    assert in_hindsight([random]) == [None]
    taught = taught_by([random, *bare(windows[:3]), windows[3]])
    assert [one.graph.moment for one in taught] == [one.moment for one in windows]
    assert [one.by for one in taught] == ["hindsight"] * 3 + ["labels"]
    assert taught[-1].labels is windows[3].labels


def test_each_graph_has_a_memory_of_its_own_and_windows_of_one_time_have_none(
    windows: list[LabelledGraph],
) -> None:
    others = [replace(one, moment=moment(at, range(600), "h")) for at, one in enumerate(windows)]
    mixed = [one for both in zip(windows, others, strict=True) for one in both]
    alone = in_hindsight(windows)
    for place, labels in enumerate(in_hindsight(mixed)):
        np.testing.assert_array_equal(labels, alone[place // 2])
    same = [replace(window, moment=moment(0, range(600))) for window in windows[:2]]
    for labels, window in zip(in_hindsight(same), same, strict=True):
        np.testing.assert_array_equal(labels, in_hindsight([window])[0])


def test_the_number_of_communities_that_a_window_states_is_used(
    windows: list[LabelledGraph],
) -> None:
    given = [
        replace(one, moment=replace(one.moment, n_communities=9)) for one in windows if one.moment
    ]
    for labels in in_hindsight(given):
        assert labels is not None
        assert len(np.unique(labels)) == 9


def path(number: int, nodes: Sequence[int | str], labels: list[int]) -> Taught:
    """A window of a path through these nodes."""
    adjacency = csr_array(np.eye(len(nodes), k=1) + np.eye(len(nodes), k=-1))
    graph = LabelledGraph(adjacency, None, moment(number, nodes))
    return Taught(graph, np.array(labels, np.int32), "labels")


@pytest.fixture
def sums(monkeypatch: pytest.MonkeyPatch) -> list[LabelledAdjacency]:
    """What the encoder learns from besides the windows, each time `with_edges` is called."""
    found = list[LabelledAdjacency]()

    def noted(graphs: list[LabelledAdjacency], *_: object, **__: object) -> LearnedEdges:
        found[:] = [(graph, labels) for graph, labels in graphs if not np.isin(graph.data, 1).all()]
        return LearnedEdges({}, (), 0)

    monkeypatch.setattr(proved_encoder, "learn_edges", noted)
    return found


NO_TEST = path(9, [1, 2], [0, 0])
"""The newest window validates, and is in no sum."""


def test_a_sum_of_windows_has_the_weights_that_memory_has(sums: list[LabelledAdjacency]) -> None:
    windows = [path(0, [1, 2, 3], [0, 0, 1]), path(1, [2, 3, 5], [0, 1, -1])]
    memory = None
    for one in windows:
        graph = one.graph
        given = graph.adjacency, graph.moment.nodes, graph.moment.window, BpParameters(search=True)
        memory = detect_window(*given, memory).memory
    expected = memory.hypotheses[0].evidence
    with_edges(MODEL, [*windows, NO_TEST])
    ((adjacency, labels),) = sums
    assert adjacency.data.tolist() == expected.weights.tolist()
    assert adjacency.indices.tolist() == expected.indices.tolist()
    assert labels.tolist() == [0, 0, 1, -1]  # of 1, 2, 3, 5


def test_the_newest_sums_come_first_within_the_limit(
    sums: list[LabelledAdjacency], monkeypatch: pytest.MonkeyPatch
) -> None:
    windows = [*(path(at, [10 * at, 10 * at + 1], [0, 0]) for at in range(4))]
    with_edges(MODEL, [*windows, NO_TEST])
    assert [one.nnz for one, _ in sums] == [8, 6, 4]
    monkeypatch.setattr(proved_encoder, "_MOST_ENTRIES", 0)
    with_edges(MODEL, [*windows, NO_TEST])
    assert [one.nnz for one, _ in sums] == [8]  # the windows have 8 together
    # A single window and ids of another kind have no sums.
    for lonely in ([windows[0]], [path(0, [1, 2], [0, 0]), path(1, "ab", [0, 0])]):
        with_edges(MODEL, [*lonely, NO_TEST])
        assert sums == []
