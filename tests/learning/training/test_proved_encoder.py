"""A model gets an encoder only if that helps, and the method that it is better with."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array, diags_array

from stream_icd.learning.training.card import encoder_section
from stream_icd.learning.training.icd.proved_encoder import (
    EncoderProof,
    newest,
    with_edges,
    with_weights,
)
from stream_icd.learning.training.icd.taught import Taught
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.icd.encoder.contract import digest
from stream_icd.methods.icd.recipe import EDGES, Recipe
from stream_icd.methods.model import Model
from stream_icd.methods.quality.agreement import ami
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_lfr
from stream_icd.registry.find import open_model
from stream_icd.streaming.detection.detect import detect

BP = "bp, no encoder"
BP_NUMBERS = open_model("lfr").model.bp
MODEL = Model(Recipe(name="mixed", encoder=EDGES), BP_NUMBERS)


def mixed(seed: int, *, wrong: bool = False) -> Taught:
    """500 nodes, more than half of whose edges leave their community."""
    settings = LfrSettings(500, max_degree=50, max_community=60, mixing=0.55)
    made = generate_lfr(np.random.default_rng(seed), settings)
    labels = made.communities
    if wrong:
        labels = np.random.default_rng(0).permutation(labels)
    return Taught(LabelledGraph(made.adjacency()), labels, "labels")


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
    assert "on 4 graphs, each after learning from others" in encoder_section(proof)
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
    assert said in encoder_section(proof)


def test_the_parents_weights_stay_if_the_time_is_up(
    learned: tuple[Model, EncoderProof],
) -> None:
    parent = replace(learned[0], bp=open_model("gn").model.bp)
    graphs = [mixed(seed) for seed in range(1, 5)]
    late, proof = with_edges(MODEL, graphs, parent=parent, seconds=0)
    assert (proof.state, proof.stopped) == ("its parent's", True)
    assert digest(late.weights) == digest(parent.weights)
    assert late.bp == BP_NUMBERS
    assert "The time was up before learning ended." in encoder_section(proof)
    late, proof = with_edges(MODEL, graphs, seconds=0)
    assert (proof.state, proof.stopped, late.trained) == ("not trained", True, None)


def test_without_anything_to_learn_from_the_encoder_is_the_parents(
    learned: tuple[Model, EncoderProof],
) -> None:
    parent = replace(learned[0], method="icd")
    model, proof = with_edges(MODEL, [], parent=parent)
    assert (proof.state, model.trained, model.method) == ("its parent's", parent.trained, "icd")
    model, proof = with_edges(MODEL, [])
    assert (proof.state, model.trained, model.method) == ("not trained", None, "bp")
    other = replace(parent, recipe=Recipe(name="hops"), trained=None)
    assert with_edges(MODEL, [], parent=other)[1].state == "not trained"


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

    assert [len(newest(graphs(100, n))) for n in (0, 3, 60)] == [0, 3, 40]
    assert len(newest(graphs(100_000, 60))) == 10
    assert len(newest(graphs(10_001, 60))) == 20
