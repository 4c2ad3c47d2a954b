"""Models are found by name or by folder, and a wrong name says which there are."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from stream_icd.errors import ModelNotFound
from stream_icd.registry.shipped import open_model, shipped_models

MOST_BYTES = 6 * 1000 * 1000


def test_a_wrong_name_lists_the_right_ones() -> None:
    with pytest.raises(ModelNotFound, match="one of the shipped: as, "):
        open_model("nonesuch")


def test_models_that_differ_anywhere_differ_in_version(tmp_path: Path) -> None:
    original = open_model("lfr")
    copy = tmp_path / "lfr"
    shutil.copytree(shipped_models()["lfr"], copy)
    assert open_model(str(copy)).version == original.version
    recipe = (copy / "recipe.toml").read_text()
    changed = recipe.replace("resolution = ", "resolution = 1")
    assert changed != recipe
    (copy / "recipe.toml").write_text(changed)
    assert open_model(str(copy)).version != original.version


@pytest.mark.parametrize("name", shipped_models())
def test_every_shipped_model_opens_is_small_and_has_a_card(name: str) -> None:
    folder = shipped_models()[name]
    assert open_model(name).model.recipe.name
    assert sum(file.stat().st_size for file in folder.iterdir()) <= MOST_BYTES
    card = (folder / "card.md").read_text()
    assert "untrained control" in card
