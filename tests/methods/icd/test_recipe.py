"""A recipe is right or refused, survives TOML, and says where it differs from the paper."""

from __future__ import annotations

from typing import Any

import pytest
import tomli_w

from stream_icd.commands.cli.train import _Train
from stream_icd.core.errors import BadSettings
from stream_icd.methods.icd.encoder.contract import encoder
from stream_icd.methods.icd.presets import PRESETS, as_published, deviations, preset
from stream_icd.methods.icd.recipe import Recipe


def read_again(recipe: Recipe) -> Recipe:
    return Recipe.from_toml(tomli_w.dumps(recipe.values()).encode())


@pytest.mark.parametrize("variant", ["ICD-M", "ICD-C"])
@pytest.mark.parametrize("data_set", PRESETS)
def test_every_preset_survives_toml_and_can_be_as_published(data_set: str, variant: Any) -> None:
    ours = preset(data_set, variant)
    assert read_again(ours) == ours
    assert encoder(ours.encoder).weight_shapes()
    assert deviations(ours)
    theirs = as_published(ours)
    assert deviations(theirs) == {}
    assert theirs.encoder.widths == ours.encoder.widths
    assert (theirs.variant, theirs.losses, theirs.schedule) == (variant, ours.losses, ours.schedule)


def test_presets_are_the_papers_table() -> None:
    recipe = preset("L(f,0.6)", "ICD-C")
    assert recipe.encoder.widths == (4096, 2048, 512, 256)
    assert recipe.discriminator_widths == (256, 128, 64, 16, 1)
    assert (recipe.losses.alpha, recipe.losses.beta) == (1, 1000)
    assert (recipe.schedule.repeats, recipe.schedule.samples) == (2, 1000)
    assert recipe.optimiser.learning_rate == 5e-5
    assert recipe.schedule.epochs == 100
    with pytest.raises(BadSettings, match=r"GN-0\.3"):
        preset("GN-0.5")


def test_the_command_trains_as_published_on_demand() -> None:
    of = {
        flag: _Train(encoder="GN-0.3", data="gn:mixing=0.3", as_published=flag).chosen("gn")
        for flag in (False, True)
    }
    assert (of[True].encoder.initialisation, of[True].clustering) == ("xavier", "scikit-learn")
    assert of[True] == as_published(of[False])
    with pytest.raises(BadSettings, match="give --encoder too"):
        _Train(data="gn:mixing=0.3", as_published=True).chosen("gn")


def test_a_recipe_never_changes_nor_does_what_a_file_leaves_out() -> None:
    mine = Recipe(name="mine", split=(0.0, 0.8, 0.2))
    assert mine.values() == {"name": "mine", "split": [0.0, 0.8, 0.2]}
    assert read_again(mine) == mine
    assert not mine.trains_encoder
    with pytest.raises(Exception, match="frozen"):
        mine.seed = 5  # type: ignore[misc]
    recipe = Recipe.from_toml(b'name = "mine"')
    usual = {"normalise_rows": True, "smoothing": 0, "coarsening_exponent": -0.5}
    hops = {"kind": "hops", "widths": (4096, 512), "initialisation": "hadamard"}
    assert recipe.encoder.model_dump() == {**usual, **hops}
    assert (recipe.variant, recipe.clustering, recipe.seed) == ("ICD-M", "fast", 0)
    assert (recipe.split, recipe.every_kind, recipe.data) == ((0.8, 0.1, 0.1), False, "")
    gcn = {"kind": "gcn", "widths": (8, 4), "initialisation": "orthogonal"}
    encoder_alone = Recipe.from_toml(b'name = "mine"\nencoder.widths = [8, 4]').encoder
    assert encoder_alone.model_dump() == {**usual, **gcn}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"variant": "ICD-X"}, "Recipe variant: "),
        ({"name": ""}, "name"),
        ({"unheard_of": 1}, "unheard_of"),
        ({"encoder": {"widths": (128, 0, 32)}}, "widths"),
        ({"encoder": {"widths": (128, 64)}}, "make both equal"),
        ({"encoder": {"kind": "transformer"}}, "gcn"),
        ({"discriminator_widths": (32, 16)}, "must be 1"),
        ({"losses": {"alpha": -1}}, "^LossSettings alpha: "),
        ({"losses": {"rows": 0}}, "rows"),
        ({"optimiser": {"learning_rate": 0}}, "learning_rate"),
        ({"split": (0.8, 0.1, 0.2)}, "split"),
    ],
)
def test_a_wrong_value_is_named(recipe: Recipe, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(BadSettings, match=words):
        recipe.changed(**changes)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"name = ", "not TOML"),
        (b"", "name"),
        (b"name = '\xff'", "not TOML"),
        (b"a = " + 5000 * b"[", "not TOML"),
        (b"a = " + 5000 * b"1", "not TOML"),
        (b'name = "mine"\nseed = 0x' + 5000 * b"f", "got a number of thousands of digits"),
    ],
    ids=["cut", "empty", "no UTF-8", "deep", "long", "huge"],
)
def test_what_is_no_recipe_is_refused(content: bytes, said: str) -> None:
    with pytest.raises(BadSettings, match=said):
        Recipe.from_toml(content)
