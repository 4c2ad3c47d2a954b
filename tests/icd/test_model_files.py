"""A saved model comes back bit for bit, and anything else is refused by name."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from stream_icd.errors import (
    BadSettings,
    ModelDamaged,
    ModelForeign,
    ModelNotFound,
    ModelTooNew,
)
from stream_icd.icd.model import (
    RECIPE_FILE,
    WEIGHTS_FILE,
    Model,
    initial_model,
    load_model,
    save_model,
)
from stream_icd.icd.recipe import Recipe
from stream_icd.icd.refined.parameters import RefinedParameters

REFINED = RefinedParameters(resolution=2.5, mixing=0.3)


@pytest.fixture
def saved(recipe: Recipe, tmp_path: Path) -> Path:
    folder = tmp_path / "toy"
    save_model(Model(recipe, initial_model(recipe).weights, REFINED), folder)
    return folder


def test_a_model_comes_back_as_it_was(saved: Path, recipe: Recipe) -> None:
    model, original = load_model(saved), initial_model(recipe)
    assert model.recipe == recipe
    assert model.refined == REFINED
    assert model.weights.keys() == original.weights.keys()
    assert all(np.array_equal(model.weights[n], original.weights[n]) for n in model.weights)


def test_a_model_folder_holds_two_plain_files(saved: Path) -> None:
    assert {path.name for path in saved.iterdir()} == {WEIGHTS_FILE, RECIPE_FILE}


def test_a_recipe_file_says_what_is_not_the_papers(saved: Path) -> None:
    head = tomllib.loads((saved / RECIPE_FILE).read_text())
    assert "modules/layers.py" in head["deviations"]["encoder.normalise_rows"]


def test_a_model_is_never_overwritten(saved: Path, recipe: Recipe) -> None:
    with pytest.raises(BadSettings, match="new folder"):
        save_model(initial_model(recipe), saved)


def test_a_missing_model_is_told_what_is_there(saved: Path) -> None:
    with pytest.raises(ModelNotFound, match="toy"):
        load_model(saved.with_name("tyo"))


def test_every_truncation_of_the_weights_is_damage(saved: Path) -> None:
    path = saved / WEIGHTS_FILE
    content = path.read_bytes()
    for length in (0, 1, 8, 100, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(ModelDamaged, match="SHA-256"):
            load_model(saved)


def test_one_changed_bit_of_the_weights_is_damage(saved: Path) -> None:
    path = saved / WEIGHTS_FILE
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    with pytest.raises(ModelDamaged, match="SHA-256"):
        load_model(saved)


def test_missing_weights_are_damage(saved: Path) -> None:
    (saved / WEIGHTS_FILE).unlink()
    with pytest.raises(ModelDamaged, match="missing"):
        load_model(saved)


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new", "error", "words"),
    [
        ("format = 1", "format = 2", ModelTooNew, "upgrade"),
        ("format = 1", "", ModelForeign, "stream_icd"),
        ("format = 1", 'format = "one"', ModelForeign, "stream_icd"),
        ("sha256", "sha512", ModelForeign, "stream_icd"),
        ("[recipe]", "[recipe", ModelDamaged, "TOML"),
        ('kind = "gcn"', 'kind = "other"', ModelDamaged, "gcn"),
        ('name = "toy"', "name = 5", ModelDamaged, "name"),
        ('variant = "ICD-M"', 'variant = "ICD-X"', ModelDamaged, "variant"),
        ("    128,\n", "    130,\n", ModelDamaged, "do not fit"),
        ("mixing = 0.3", "mixing = 1.3", ModelDamaged, "mixing"),
        ("mixing = 0.3", "mixture = 0.3", ModelDamaged, "mixture"),
        ("[refined]", "[other]", ModelForeign, "stream_icd"),
    ],
)
def test_an_altered_recipe_is_refused_for_what_it_is(
    saved: Path, old: str, new: str, error: type[Exception], words: str
) -> None:
    edit(saved / RECIPE_FILE, old, new)
    with pytest.raises(error, match=words):
        load_model(saved)


def test_bytes_that_are_no_text_are_damage(saved: Path) -> None:
    (saved / RECIPE_FILE).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ModelDamaged, match="TOML"):
        load_model(saved)


def test_weights_that_are_no_safetensors_are_damage(saved: Path) -> None:
    import hashlib

    content = b"not safetensors at all"
    old = hashlib.sha256((saved / WEIGHTS_FILE).read_bytes()).hexdigest()
    (saved / WEIGHTS_FILE).write_bytes(content)
    edit(saved / RECIPE_FILE, old, hashlib.sha256(content).hexdigest())
    with pytest.raises(ModelDamaged, match="safetensors"):
        load_model(saved)


def test_loading_and_detecting_never_imports_torch_or_sklearn(saved: Path) -> None:
    program = f"""
import sys
import tomllib
import numpy as np
from stream_icd.icd.detection import detect
from stream_icd.icd.graphs import as_adjacency
from stream_icd.icd.model import load_model
ring = np.arange(12)
adjacency = as_adjacency((np.stack([ring, (ring + 1) % 12]), 12))
for mode in ("refined", "faithful"):
    found = detect(adjacency, load_model({str(saved)!r}), 3, mode=mode).communities
    assert found.shape == (12,)
loaded = {{"torch", "sklearn", "matplotlib"}} & sys.modules.keys()
assert not loaded, loaded
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
