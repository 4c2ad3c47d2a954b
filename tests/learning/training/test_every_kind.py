"""A model for graphs of every kind is learned from a mixture."""

from __future__ import annotations

from pathlib import Path

from stream_icd.commands.programs.training_data import training_graphs
from stream_icd.learning.training.card import write_model
from stream_icd.learning.training.train_model import train_model
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.icd.recipe import Recipe
from stream_icd.registry.find import open_model

MIXTURE = "lfr:mixing=0.1,nodes=300,graphs=3 + gn:p_in=0.6,nodes=300,communities=50,graphs=2"


def test_a_mixture_takes_its_kinds_in_turns() -> None:
    graphs = training_graphs(MIXTURE)
    known = [graph.n_communities for graph in graphs]
    assert len(graphs) == 5
    assert (known[1], known[3]) == (50, 50)
    assert 50 not in (known[0], known[2], known[4])


def test_the_model_of_a_mixture_can_be_read_and_its_card_says_so(tmp_path: Path) -> None:
    recipe = Recipe(name="any", split=(0.0, 0.8, 0.2)).changed(data=MIXTURE, every_kind=True)
    trained = train_model(training_graphs(MIXTURE), recipe)
    write_model(trained, tmp_path / "any")
    assert (
        open_model(str(tmp_path / "any")).model.bp
        == trained.fit.parameters
        == BpParameters(search=True)
    )
    card = (tmp_path / "any" / "card.md").read_text()
    assert "description length chooses the resolution and the method for each graph" in card
