"""Models are found by name or by folder, and a wrong name says which there are."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from stream_icd.core.errors import BadSettings, ModelNotFound
from stream_icd.core.store.store import Store
from stream_icd.methods.quality.agreement import nmi
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_lfr
from stream_icd.registry.find import folder_of, open_model, shipped_models
from stream_icd.registry.model import models_in, read_model, save_model
from stream_icd.streaming.detection.detect import detect

MOST_BYTES = 100_000
"""Of a shipped model: a recipe, a card and a few lines; its weights come from a seed."""


def test_models_that_differ_anywhere_differ_in_version(tmp_path: Path) -> None:
    original = open_model("lfr").version
    copy = tmp_path / "renamed"  # where a model lies changes no version
    shutil.copytree(folder_of("lfr").root, copy)
    assert open_model(copy).version == open_model(str(copy)).version == original
    with (copy / "recipe.toml").open("ab") as recipe:
        recipe.write(b"\n")
    changed = open_model(copy).version
    assert (changed[:4], changed != original) == ("lfr@", True)


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
    folder = Path(folder_of(name).root)
    assert open_model(name).model.recipe.name
    assert sum(file.stat().st_size for file in folder.iterdir()) <= MOST_BYTES
    card = (folder / "card.md").read_text()
    assert "untrained control" in card


def test_the_encoder_of_a_shipped_model_is_as_good_as_the_papers() -> None:
    """The paper's ICD-M, mean of 200 graphs: table "NMI and AC" of its appendix."""
    planted = generate_lfr(np.random.default_rng(7), LfrSettings(mixing=0.3))
    n_communities = len(np.unique(planted.communities))
    model = open_model("lfr").model
    found = detect(planted.adjacency(), model, n_communities, method="icd").communities
    assert nmi(planted.communities, found) >= 0.9721
