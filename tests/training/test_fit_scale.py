"""A model for graphs of every kind is learned from a mixture."""

from __future__ import annotations

from pathlib import Path

from stream_icd.graphs.labelled_graph import LabelledGraph
from stream_icd.icd.presets import default_recipe
from stream_icd.registry.model import load_model
from stream_icd.training.bp.fit_scale import SCALES, fit_scale
from stream_icd.training.card import write_model
from stream_icd.training.data import training_graphs
from stream_icd.training.train_model import train_model

MIXTURE = "lfr:mixing=0.3,nodes=600,graphs=3 + gn:p_in=0.4,nodes=600,communities=30,graphs=2"


def test_a_mixture_takes_its_kinds_in_turns() -> None:
    graphs = training_graphs(MIXTURE)
    known = [graph.n_communities for graph in graphs]
    assert len(graphs) == 5
    assert (known[1], known[3]) == (30, 30)
    assert 30 not in (known[0], known[2], known[4])


def test_what_is_learned_is_a_scale_and_the_best_on_average() -> None:
    graphs = training_graphs(MIXTURE)
    steps: list[tuple[int, int]] = []
    fit = fit_scale(graphs, progress=lambda done, total: steps.append((done, total)))
    assert fit.parameters.scale in SCALES
    scores = {tried.parameters.scale: tried.score for tried in fit.curve}
    assert scores[fit.parameters.scale] == max(score or 0 for score in scores.values())
    assert steps[-1] == (len(SCALES) * len(graphs),) * 2


def test_graphs_without_labels_count_by_the_bits_they_save() -> None:
    (graph,) = training_graphs("lfr:mixing=0.2,nodes=600,graphs=1")
    fit = fit_scale([LabelledGraph(graph.adjacency)])
    assert all(tried.score is not None and tried.score > 0.3 for tried in fit.curve)


def test_the_model_of_a_mixture_can_be_read_and_its_card_says_so(tmp_path: Path) -> None:
    recipe = default_recipe("any").changed(data=MIXTURE, every_kind=True)
    trained = train_model(training_graphs(MIXTURE), recipe)
    write_model(trained, tmp_path / "any")
    assert load_model(tmp_path / "any").bp == trained.fit.parameters
    card = (tmp_path / "any" / "card.md").read_text()
    assert "For each graph of n nodes, the description length decides" in card
    assert "(taken)" in card
