"""Everything the authors' scripts do otherwise can be asked for, and a recipe says what it has."""

from __future__ import annotations

import pytest

from benchmarks.shared.training.published import as_scripts
from stream_icd.core.errors import BadSettings
from stream_icd.methods.icd.presets import OPTIONS, as_published, deviations, preset

PAPER = as_published(preset("GN-0.3"))


@pytest.mark.parametrize("name", OPTIONS)
def test_each_option_can_be_as_in_the_scripts_alone(name: str) -> None:
    recipe = as_scripts(PAPER, name)
    assert OPTIONS[name].value(recipe) == OPTIONS[name].scripts
    others = [option for option in OPTIONS.values() if option is not OPTIONS[name]]
    assert all(other.value(recipe) == other.paper for other in others)


def test_all_of_the_scripts_at_once() -> None:
    recipe = as_scripts(preset("GN-0.3"))
    assert all(option.value(recipe) == option.scripts for option in OPTIONS.values())
    assert all("authors' scripts" in text for text in deviations(recipe).values())
    assert len(deviations(recipe)) == 7


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


def test_an_unknown_difference_is_told_which_there_are() -> None:
    with pytest.raises(BadSettings, match="coarsening"):
        as_scripts(PAPER, "colour")
