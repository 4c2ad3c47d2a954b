"""A recipe is right or refused, and survives TOML."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
import tomli_w

from stream_icd.core.errors import BadSettings
from stream_icd.methods.icd.encoder.registry import encoder
from stream_icd.methods.icd.presets import PRESETS, preset
from stream_icd.methods.icd.recipe import Recipe, recipe_from_toml, recipe_values


@pytest.mark.parametrize("variant", ["ICD-M", "ICD-C"])
@pytest.mark.parametrize("data_set", PRESETS)
def test_every_preset_survives_toml(data_set: str, variant: Any) -> None:
    recipe = preset(data_set, variant)
    assert recipe_from_toml(tomli_w.dumps(recipe_values(recipe)).encode()) == recipe
    assert encoder(recipe.encoder).weight_shapes()


def test_presets_are_the_papers_table() -> None:
    recipe = preset("L(f,0.6)", "ICD-C")
    assert recipe.encoder.widths == (4096, 2048, 512, 256)
    assert recipe.discriminator_widths == (256, 128, 64, 16, 1)
    assert (recipe.losses.alpha, recipe.losses.beta) == (1, 1000)
    assert (recipe.schedule.repeats, recipe.schedule.samples) == (2, 1000)
    assert recipe.optimiser.learning_rate == 5e-5
    assert recipe.schedule.epochs == 100


def test_a_recipe_needs_no_encoder_of_its_own() -> None:
    recipe = Recipe(name="mine", split=(0.0, 0.8, 0.2))
    assert tomllib.loads(tomli_w.dumps(recipe_values(recipe))) == {
        "name": "mine",
        "split": [0.0, 0.8, 0.2],
    }
    assert recipe_from_toml(tomli_w.dumps(recipe_values(recipe)).encode()) == recipe
    assert not recipe.trains_encoder


def test_what_a_file_leaves_out_never_changes() -> None:
    recipe = recipe_from_toml(b'name = "mine"')
    assert recipe.encoder.model_dump() == {
        "kind": "hops",
        "widths": (4096, 512),
        "initialisation": "hadamard",
        "normalise_rows": True,
        "smoothing": 0,
        "coarsening_exponent": -0.5,
    }
    assert (recipe.variant, recipe.clustering, recipe.seed) == ("ICD-M", "fast", 0)
    assert (recipe.split, recipe.every_kind, recipe.data) == ((0.8, 0.1, 0.1), False, "")
    encoder_alone = recipe_from_toml(b'name = "mine"\nencoder.widths = [8, 4]').encoder
    assert encoder_alone.model_dump() == {
        "kind": "gcn",
        "widths": (8, 4),
        "initialisation": "orthogonal",
        "normalise_rows": True,
        "smoothing": 0,
        "coarsening_exponent": -0.5,
    }


def test_an_unknown_preset_is_told_which_there_are() -> None:
    with pytest.raises(BadSettings, match=r"GN-0\.3"):
        preset("GN-0.5")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"variant": "ICD-X"}, "variant"),
        ({"name": ""}, "name"),
        ({"seed": -1}, "seed"),
        ({"unheard_of": 1}, "unheard_of"),
        ({"encoder": {"widths": (128,)}}, "widths"),
        ({"encoder": {"widths": (128, 0, 32)}}, "widths"),
        ({"encoder": {"widths": (128, 64)}}, "make both equal"),
        ({"discriminator_widths": (32, 16)}, "must be 1"),
        ({"losses": {"alpha": -1}}, "alpha"),
        ({"losses": {"rows": 0}}, "rows"),
        ({"optimiser": {"kind": "sgd"}}, "kind"),
        ({"optimiser": {"learning_rate": 0}}, "learning_rate"),
        ({"schedule": {"samples": 0}}, "samples"),
        ({"split": (0.8, 0.1, 0.2)}, "split"),
    ],
)
def test_a_wrong_value_is_refused_by_name(
    recipe: Recipe, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(BadSettings, match=words):
        recipe.changed(**changes)


def test_a_recipe_never_changes(recipe: Recipe) -> None:
    with pytest.raises(Exception, match="frozen"):
        recipe.seed = 5  # type: ignore[misc]


@pytest.mark.parametrize(
    "content",
    [
        b"name = ",
        b"seed = 1",
        b"",
        b"name = '\xff'",
        b"a = " + 5000 * b"[",
        b"a = " + 5000 * b"1",
    ],
    ids=["cut off", "too little", "empty", "no UTF-8", "deep", "a long number"],
)
def test_what_is_no_recipe_is_refused(content: bytes) -> None:
    with pytest.raises(BadSettings):
        recipe_from_toml(content)


@pytest.mark.parametrize("field", ["seed", "schedule.epochs", "encoder.smoothing"])
def test_a_number_that_python_does_not_write_out_is_refused(field: str) -> None:
    huge = f'name = "mine"\n{field} = 0x{"f" * 5000}\nencoder.widths = [8, 4]'
    with pytest.raises(BadSettings, match=r"got a number of thousands of digits"):
        recipe_from_toml(huge.encode())
