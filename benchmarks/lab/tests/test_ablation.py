"""Each ablation leaves out its part, in training as in detection, and the page compares."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from benchmarks.lab import ablation
from benchmarks.lab.ablated import ABLATIONS
from benchmarks.lab.ablation import main
from benchmarks.lab.ablation_page import full_size_table, trained_table
from benchmarks.shared.graphs import training_sets
from benchmarks.shared.graphs.data_sets import BenchmarkGraph, DataSet
from benchmarks.shared.pages import sections
from stream_icd.learning.training.icd.training_graph import TrainingGraph
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.icd.encoder.contract import Differentiable, encoder
from stream_icd.methods.icd.features import model_features
from stream_icd.methods.icd.recipe import Recipe
from stream_icd.methods.model import Model
from stream_icd.methods.synthetic.gn import generate_gn

SECTIONS = ("trained", "untrained")

RECIPE = Recipe(
    name="toy",
    encoder={"widths": (16, 8, 4), "initialisation": "xavier"},
    discriminator_widths=(4, 1),
)


@pytest.fixture(scope="module")
def graph() -> LabelledGraph:
    planted = generate_gn(np.random.default_rng(0), 60, 3, p_in=0.4, p_out=0.05)
    return LabelledGraph(planted.adjacency(), planted.communities)


def embedded(model: Model, graph: TrainingGraph, neighbourhood: str) -> np.ndarray:
    weights = {name: torch.from_numpy(weight) for name, weight in model.weights.items()}
    seen = getattr(graph, neighbourhood)
    trained = encoder(model.recipe.encoder)
    assert isinstance(trained, Differentiable)
    return trained.forward(weights, graph.features, seen).numpy()


@pytest.mark.parametrize("name", ABLATIONS)
def test_training_and_detection_read_the_same(graph: LabelledGraph, name: str) -> None:
    left, model = ABLATIONS[name], Model(RECIPE)
    prepared = left.prepared(graph, TrainingGraph.of(graph, RECIPE), RECIPE)
    trained = embedded(model, prepared, "neighbourhood")
    np.testing.assert_allclose(trained, left.embed(model, graph.adjacency), atol=1e-5)


def test_without_features_nodes_of_the_same_neighbourhood_are_the_same() -> None:
    ring = np.roll(np.eye(12), 1, axis=1)
    rows = ABLATIONS["without Feat"].embed(Model(RECIPE), csr_array(ring + ring.T))
    np.testing.assert_allclose(rows, np.broadcast_to(rows[0], rows.shape), atol=1e-5)
    assert np.abs(rows).max() > 0.1


def test_without_gnn_a_node_is_mapped_from_its_own_features(graph: LabelledGraph) -> None:
    left, model = ABLATIONS["without GNN"], Model(RECIPE)
    rows = model_features(graph.adjacency, RECIPE).toarray()
    for layer in range(2):
        rows = np.tanh(rows @ model.weights[f"layer.{layer}"])
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    np.testing.assert_allclose(left.embed(model, graph.adjacency), rows, atol=1e-5)
    prepared = left.prepared(graph, TrainingGraph.of(graph, RECIPE), RECIPE)
    np.testing.assert_allclose(embedded(model, prepared, "label_induced"), rows, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "loss"),
    [("without FR", "alpha"), ("without CR", "beta"), ("without AL", "adversarial")],
)
def test_without_a_loss_only_that_one_is_gone(name: str, loss: str) -> None:
    left = ABLATIONS[name].recipe(RECIPE, seed=3)
    assert not getattr(left.losses, loss)
    assert left.changed(losses={loss: getattr(RECIPE.losses, loss)}, seed=RECIPE.seed) == RECIPE


def test_one_command_trains_and_writes_both_tables(
    graph: LabelledGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def test_graphs() -> Iterator[BenchmarkGraph]:
        yield from 2 * [BenchmarkGraph(graph.adjacency, graph.labels)]

    monkeypatch.setattr(sections, "DOCS", tmp_path)
    (tmp_path / "measured").mkdir()
    monkeypatch.setattr(ablation, "PRESETS", {"GN.3": "GN-0.3"})
    monkeypatch.setattr(ablation, "data_sets", lambda _: {"GN.3": DataSet("GN.3", test_graphs)})
    chosen = {name: ABLATIONS[name] for name in ("full", "without FR")}
    monkeypatch.setattr(ablation, "ABLATIONS", chosen)
    only = training_sets.small_sets(None, 3)["GN.3"]
    monkeypatch.setattr(ablation, "small_sets", lambda *_: {"GN.3": only})
    for part in ("N_VALIDATION", "N_TEST"):
        monkeypatch.setattr(training_sets, part, 1)
    marks = (f"<!-- benchmarks/lab/ablation.py {of} -->\n<!-- end -->\n" for of in SECTIONS)
    (tmp_path / "measured" / "encoder.md").write_text("".join(marks))
    given = ["--seeds", "2", "--folder", str(tmp_path), "--variants", "ICD-M"]
    main([*given, "--full-size", "2", "--steps", "2", "--page"])
    page = (tmp_path / "measured" / "encoder.md").read_text()
    assert page.count("| without FR | 2 |") == 1
    assert page.count("(96.3,") == page.count("(47.3,") == 1


def test_the_tables_compare_with_the_published_values() -> None:
    cell, whole = ("ICD-M", "GN.3", "without FR"), ("ICD-M", "GN.3", "full")
    keys = ("nmi", "ac", "modularity", "ncut", "ami", "rank")
    high, low = dict.fromkeys(keys, 70.0), dict.fromkeys(keys, 50.0)
    published = {
        (key, variant, parts, name): value
        for (variant, name, parts), value in ((whole, 90.0), (cell, 60.0))
        for key in keys
    }
    seeds = {
        whole: [high | {"steps": 9, "untrained": low}] * 2,
        cell: [low | {"steps": 9, "untrained": high}] * 2,
    }
    trained = trained_table(seeds, published)
    assert trained.endswith("| 70.0 ± 0.0 | 50.0 ± 0.0 | 50.0 ± 0.0 | -20.0 | -30.0 | +10.0 |\n")
    untrained = full_size_table({cell: [low, high | {"nmi": 69.98}]}, published)
    assert untrained.endswith(f"| 60.0 |{3 * ' 60.0 (60.0, +0.0) |'} 60 (60) |\n")
