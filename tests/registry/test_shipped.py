"""Models are found by name or by folder, and a wrong name says which there are."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from stream_icd.core.errors import BadSettings, ModelNotFound
from stream_icd.core.store.store import Store
from stream_icd.methods.quality.agreement import nmi
from stream_icd.methods.synthetic.gn import generate_gn
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_lfr
from stream_icd.methods.synthetic.planted_graph import PlantedGraph
from stream_icd.registry.find import models_folder, open_model, shipped_models
from stream_icd.registry.model import models_in, read_model, save_model
from stream_icd.streaming.detection.detect import detect

MOST_BYTES = 100_000
"""Of a shipped model: a recipe, a card and a few lines; its weights come from a seed."""


def test_a_wrong_name_lists_the_right_ones() -> None:
    with pytest.raises(ModelNotFound, match="one of the shipped models: as, "):
        open_model("nonesuch")


def test_models_that_differ_anywhere_differ_in_version(tmp_path: Path) -> None:
    original = open_model("lfr")
    copy = tmp_path / "lfr"
    shutil.copytree(models_folder() / "lfr", copy)
    assert open_model(copy).version == open_model(str(copy)).version == original.version
    recipe = (copy / "recipe.toml").read_text()
    changed = recipe.replace("resolution = ", "resolution = 1")
    assert changed != recipe
    (copy / "recipe.toml").write_text(changed)
    assert open_model(str(copy)).version != original.version


def test_where_a_model_lies_changes_no_version(tmp_path: Path) -> None:
    shutil.copytree(models_folder() / "lfr", tmp_path / "renamed")
    assert open_model(str(tmp_path / "renamed")).version == open_model("lfr").version


def test_one_byte_of_a_recipe_changes_the_version(tmp_path: Path) -> None:
    shutil.copytree(models_folder() / "lfr", tmp_path / "lfr")
    with (tmp_path / "lfr" / "recipe.toml").open("ab") as recipe:
        recipe.write(b"\n")
    name, _, digest = open_model(str(tmp_path / "lfr")).version.partition("@")
    before = open_model("lfr").version.partition("@")
    assert (name, digest != before[2]) == (before[0], True)


def test_a_model_comes_back_from_any_store(store: Store) -> None:
    model = open_model("lfr").model
    place = store.below("mine").uri
    save_model(model, place)
    opened = open_model(place)
    assert opened.version.startswith("lfr@")
    assert opened.model.bp == model.bp
    assert all(np.array_equal(opened.model.weights[n], w) for n, w in model.weights.items())
    assert list(models_in(store)) == ["mine"]
    with pytest.raises(ModelNotFound, match="beside it: mine"):
        read_model(store.below("yours"))
    with pytest.raises(BadSettings, match="new folder"):
        save_model(model, place)


@pytest.mark.parametrize("name", shipped_models())
def test_every_shipped_model_opens_is_small_and_has_a_card(name: str) -> None:
    folder = models_folder() / name
    assert open_model(name).model.recipe.name
    assert sum(file.stat().st_size for file in folder.iterdir()) <= MOST_BYTES
    card = (folder / "card.md").read_text()
    assert "untrained control" in card


@pytest.mark.parametrize(
    ("name", "generate", "least_nmi"),
    [
        ("gn", partial(generate_gn, p_in=0.3), 0.9626),
        ("lfr", partial(generate_lfr, settings=LfrSettings(mixing=0.3)), 0.9721),
        ("lfr", partial(generate_lfr, settings=LfrSettings(mixing=0.6)), 0.5607),
    ],
)
def test_the_encoder_of_a_shipped_model_is_as_good_as_the_papers(
    name: str, generate: Callable[[np.random.Generator], PlantedGraph], least_nmi: float
) -> None:
    """The paper's ICD-M, means of 200 graphs: table "NMI and AC" of its appendix."""
    planted = generate(np.random.default_rng(7))
    model = open_model(name).model
    n_communities = len(np.unique(planted.communities))
    found = detect(planted.adjacency(), model, n_communities, method="icd").communities
    assert nmi(planted.communities, found) >= least_nmi
