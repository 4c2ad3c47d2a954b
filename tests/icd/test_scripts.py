"""Everything the authors' scripts do otherwise can be asked for, and a recipe says what it has."""

from __future__ import annotations

import pytest

from stream_icd.errors import BadSettings
from stream_icd.icd.presets import preset
from stream_icd.icd.recipe import Recipe
from stream_icd.icd.scripts import DIFFERENCES, as_scripts, deviations

PAPER = preset("GN-0.3").changed(
    clustering="scikit-learn",
    encoder={"normalise_rows": False, "initialisation": "xavier"},
    losses={"rows": None},
)


def test_the_papers_own_recipe_deviates_in_nothing() -> None:
    assert deviations(PAPER) == {}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_each_difference_can_be_asked_for_alone(name: str) -> None:
    difference = DIFFERENCES[name]
    recipe = as_scripts(PAPER, name)
    assert difference.value(recipe) == difference.scripts
    others = [d for d in DIFFERENCES.values() if d is not difference]
    assert all(other.value(recipe) == other.paper for other in others)


def test_all_of_the_scripts_at_once() -> None:
    recipe = as_scripts(PAPER)
    assert all(d.value(recipe) == d.scripts for d in DIFFERENCES.values())
    assert all("authors' scripts" in text for text in deviations(recipe).values())
    assert len(deviations(recipe)) == len(DIFFERENCES) - 1  # K-means is the same in both


@pytest.mark.parametrize(
    "changes",
    [
        {"clustering": "fast"},
        {"encoder": {"initialisation": "orthogonal"}},
        {"losses": {"rows": 9}},
    ],
)
def test_what_is_ours_is_said_to_be_ours(changes: dict[str, object]) -> None:
    (text,) = deviations(PAPER.changed(**changes)).values()
    assert text.endswith("ours")


def test_an_unknown_difference_is_told_which_there_are(recipe: Recipe) -> None:
    with pytest.raises(BadSettings, match="coarsening"):
        as_scripts(recipe, "colour")
