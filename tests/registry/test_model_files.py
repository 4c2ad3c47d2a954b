"""A saved model comes back bit for bit, shipped ones are small, and others are refused by name."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from safetensors.numpy import save

from stream_icd.core.errors import (
    BadSettings,
    ModelDamaged,
    ModelError,
    ModelForeign,
    ModelNotFound,
    ModelTooNew,
)
from stream_icd.core.store.store import Store, open_store
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.graphs.adjacency import as_adjacency
from stream_icd.methods.icd.recipe import UNTRAINED, Recipe
from stream_icd.methods.model import Method, Model
from stream_icd.methods.quality.agreement import nmi
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_lfr
from stream_icd.registry.find import folder_of, open_model, shipped_models
from stream_icd.registry.model import (
    RECIPE_FILE,
    WEIGHTS_FILE,
    models_in,
    read_model,
    save_model,
    version_of,
)
from stream_icd.streaming.detection.detect import detect

BP = BpParameters(resolution=2.5, mixing=0.3)


@pytest.fixture
def saved(recipe: Recipe, tmp_path: Path) -> Path:
    folder = tmp_path / "toy"
    save_model(Model(recipe, BP), folder)
    return folder


@pytest.fixture
def seeded(recipe: Recipe, tmp_path: Path) -> Path:
    folder = tmp_path / "seeded"
    save_model(Model(recipe.changed(encoder={"initialisation": "hadamard"}), BP), folder)
    return folder


def load_model(folder: Path) -> Model:
    model = read_model(open_store(str(folder))).model
    assert model.weights  # those that a seed makes are made, and checked, when they are asked for
    return model


def head_of(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / RECIPE_FILE).read_text())


def assert_same_weights(model: Model, other: Model) -> None:
    assert model.weights.keys() == other.weights.keys()
    assert all(np.array_equal(model.weights[name], w) for name, w in other.weights.items())


def test_a_model_comes_back_from_two_plain_files(saved: Path, recipe: Recipe) -> None:
    model = load_model(saved)
    assert (model.recipe, model.bp) == (recipe, BP)
    assert_same_weights(model, Model(recipe))
    assert {path.name for path in saved.iterdir()} == {WEIGHTS_FILE, RECIPE_FILE}
    assert "modules/layers.py" in head_of(saved)["deviations"]["encoder.normalise_rows"]


def test_weights_are_stored_unless_a_seed_makes_them(seeded: Path, tmp_path: Path) -> None:
    assert [path.name for path in seeded.iterdir()] == [RECIPE_FILE]
    assert head_of(seeded)["weights"] == "seed"
    model = load_model(seeded)
    assert model.bp == BP
    assert_same_weights(model, Model(model.recipe))
    model.weights["layer.1"][3, 5] += 1e-6  # it is trained a little
    save_model(model, tmp_path / "trained")
    assert (tmp_path / "trained" / WEIGHTS_FILE).is_file()
    assert_same_weights(load_model(tmp_path / "trained"), model)


def test_a_model_for_bp_is_one_short_file(tmp_path: Path) -> None:
    for zero in (BpParameters(4.0, size_spread=0.0), BpParameters(stay=0.0)):
        folder = tmp_path / str(zero.stay)
        save_model(Model(Recipe(name="zero"), zero), folder)
        assert load_model(folder).bp == zero  # numbers that are 0 come back as 0
    short = tmp_path / "short"
    save_model(Model(Recipe(name="short"), BP), short)
    assert [path.name for path in short.iterdir()] == [RECIPE_FILE]
    head = head_of(short)
    assert head.keys() == {"format", "weights", "sha256", "recipe", "bp"}
    assert (head["format"], head["recipe"]) == (3, {"name": "short"})
    adjacency = generate_lfr(np.random.default_rng(0), LfrSettings(200, mixing=0.3)).adjacency()
    named = Recipe(name="long", encoder=UNTRAINED, discriminator_widths=(512, 1))
    models = load_model(short), Model(named, BP)
    for method in get_args(Method):
        labels = [detect(adjacency, model, 9, method=method).communities for model in models]
        assert np.array_equal(*labels)


def test_a_model_says_its_method_and_whether_its_encoder_leads(
    recipe: Recipe, tmp_path: Path
) -> None:
    for method in get_args(Method):  # older models are for bp
        save_model(Model(recipe, BP, method=method, leads=method == "icd"), tmp_path / method)
        model = load_model(tmp_path / method)
        assert (model.method, model.leads) == (method, method == "icd")
    assert "method" not in head_of(tmp_path / "bp")
    by_bp, by_icd = (version_of(open_store(str(tmp_path / name))) for name in ("bp", "icd"))
    assert by_bp != by_icd
    edit(tmp_path / "icd" / RECIPE_FILE, 'method = "icd"', 'method = "cid"')
    with pytest.raises(ModelDamaged, match="method is 'cid', not bp or icd"):
        load_model(tmp_path / "icd")


def test_weights_that_are_cut_altered_or_missing_are_damage(saved: Path) -> None:
    path = saved / WEIGHTS_FILE
    content = path.read_bytes()
    changed = bytearray(content)
    changed[-5] ^= 1  # one bit
    for wrong in (*(content[:length] for length in (0, 8, len(content) - 1)), bytes(changed)):
        path.write_bytes(wrong)
        with pytest.raises(ModelDamaged, match="SHA-256"):
            load_model(saved)
    path.unlink()
    with pytest.raises(ModelDamaged, match="missing"):
        load_model(saved)
    for name in (WEIGHTS_FILE, RECIPE_FILE):
        with (saved / name).open("ab") as file:
            file.truncate(2**40)  # a hole: nothing is written
        with pytest.raises(ModelDamaged, match=rf"{name} has {2**40} bytes; at most"):
            load_model(saved)


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new", "error", "words"),
    [
        ("format = 1", "format = 4", ModelTooNew, "upgrade"),
        ("format = 1", "format = 2", ModelDamaged, "weights = None"),
        ("format = 1", "", ModelForeign, "stream_icd"),
        ("format = 1", "format = -5", ModelDamaged, "format -5; formats are 1 to 3"),
        ("format = 1", "format = true", ModelForeign, "stream_icd"),
        ("format = 1", "format = 0x" + 9000 * "f", ModelDamaged, "integer of more than 64 bits"),
        ('sha256 = "', 'sha256 = 5 #"', ModelDamaged, "sha256 is 5, not 64 hexadecimal digits"),
        ("format = 1", f"{'a.' * 50}a = 1\nformat = 1", ModelDamaged, "more than 10 deep"),
        ("format = 1", f"a = {'[' * 9000}{']' * 9000}\nformat = 1", ModelDamaged, "TOML"),
        ("sha256", "sha512", ModelForeign, "stream_icd"),
        ('variant = "ICD-M"', 'variant = "ICD-X"', ModelDamaged, "variant"),
        ("    128,\n", "    130,\n", ModelDamaged, "do not fit"),
        ("mixing = 0.3", "mixing = 1.3", ModelDamaged, "mixing"),
        ("mixing = 0.3", "mixture = 0.3", ModelDamaged, "mixture"),
        ("iterations = 10", "iterations = 1000000000", ModelDamaged, "iterations.*1000"),
        ("sweeps = 8", 'sweeps = "8"', ModelDamaged, "sweeps"),
        ("resolution = 2.5", "resolution = inf", ModelDamaged, "resolution"),
        ("smoothing = 0", "smoothing = 1000000000", ModelDamaged, "smoothing.*100.*1000000000"),
        ("learning_rate = 0.001", "learning_rate = inf", ModelDamaged, "learning_rate"),
        ("    128,\n", "    1000000000,\n", ModelDamaged, "widths.*65536"),
        ("    128,\n    64,\n", "    65536,\n    65536,\n", ModelDamaged, "268435456"),
        ("seed = 0", "seed = 1" + 5000 * "0", ModelDamaged, "TOML"),
    ],
)
def test_an_altered_recipe_is_refused_for_what_it_is(
    saved: Path, old: str, new: str, error: type[Exception], words: str
) -> None:
    edit(saved / RECIPE_FILE, old, new)
    with pytest.raises(error, match=words):
        load_model(saved)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("format = 2", "format = 1", "model.safetensors is missing"),
        ('weights = "seed"', 'weights = "seed 2"', "seed 2.*must be"),
        ("seed = 0", "seed = 1", "seed 1 makes weights of SHA-256"),
        ("    128,\n", "    130,\n", "seed 0 makes weights of SHA-256"),
    ],
)
def test_a_seed_that_makes_other_weights_is_damage(
    seeded: Path, old: str, new: str, words: str
) -> None:
    edit(seeded / RECIPE_FILE, old, new)
    with pytest.raises(ModelDamaged, match=words):
        load_model(seeded)


def replace_weights(folder: Path, content: bytes) -> None:
    """Other weights, whose hash the recipe names."""
    old = hashlib.sha256((folder / WEIGHTS_FILE).read_bytes()).hexdigest()
    (folder / WEIGHTS_FILE).write_bytes(content)
    edit(folder / RECIPE_FILE, old, hashlib.sha256(content).hexdigest())


def safetensors(kind: str, n_bytes: int) -> bytes:
    """Two numbers of another type."""
    weight = {"dtype": kind, "shape": [2], "data_offsets": [0, 2 * n_bytes]}
    text = json.dumps({"layer.0": weight}).encode()
    return len(text).to_bytes(8, "little") + text + bytes(2 * n_bytes)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (safetensors("BF16", 2), "BF16.*F32"),
        (safetensors("F64", 8), "F64.*F32"),
        (b"not safetensors at all", "safetensors"),
        (np.nan, r"layer\.1 holds .*1e\+06"),
        (1e30, r"layer\.1 holds .*1e\+06"),
    ],
)
def test_weights_of_another_type_or_out_of_range_are_damage_that_names_them(
    saved: Path, recipe: Recipe, wrong: bytes | float, words: str
) -> None:
    content = wrong
    if isinstance(wrong, float):
        weights = Model(recipe).weights
        weights["layer.1"][3, 5] = wrong
        content = save(weights)
    replace_weights(saved, content)
    with pytest.raises(ModelDamaged, match=words):
        load_model(saved)


def test_whatever_is_changed_in_a_model_it_is_refused_by_name_or_works(saved: Path) -> None:
    """Bytes of both files are changed at random, the hash kept right: no other error escapes."""
    rng = random.Random(0)
    texts = [(saved / name).read_bytes() for name in (RECIPE_FILE, WEIGHTS_FILE)]
    ring = np.arange(12)
    adjacency = as_adjacency((np.stack([ring, (ring + 1) % 12]), 12))
    n_refused, n_examples = 0, 40
    for _ in range(n_examples):
        head, weights = (bytearray(text) for text in texts)
        mutate(head if rng.random() < 0.5 else weights, rng)
        digests = (hashlib.sha256(w).hexdigest().encode() for w in (texts[1], weights))
        (saved / WEIGHTS_FILE).write_bytes(weights)
        (saved / RECIPE_FILE).write_bytes(bytes(head).replace(*digests))
        try:
            model = load_model(saved)
        except ModelError:
            n_refused += 1
            continue
        for method in ("bp", "icd"):
            labels = detect(adjacency, model, 3, method=method).communities  # type: ignore[arg-type]
            assert set(labels) == {0, 1, 2}
    assert n_examples / 3 < n_refused < n_examples


def mutate(content: bytearray, rng: random.Random) -> None:
    """Change some bytes: near the start most often, where headers and settings are."""
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(min(len(content), rng.choice([600, 2000, len(content)])))
        match rng.randrange(4):
            case 0:
                content[at] = rng.randrange(256)
            case 1:
                del content[at : at + rng.randrange(9)]
            case 2:
                content[at:at] = rng.choice([b"9", b"nan", b"-", b"[", b'"', b"1e9", b"\n"])
            case _:
                content[at] ^= 1 << rng.randrange(8)


def test_loading_and_detecting_never_imports_torch_or_sklearn(saved: Path) -> None:
    program = f"""
import sys
import numpy as np
from stream_icd.streaming.detection.detect import detect
from stream_icd.methods.graphs.adjacency import as_adjacency
from stream_icd.registry.find import open_model
ring = np.arange(12)
adjacency = as_adjacency((np.stack([ring, (ring + 1) % 12]), 12))
for method in ("bp", "icd"):
    assert detect(adjacency, open_model({str(saved)!r}).model, 3, method=method).communities.size
loaded = {{"torch", "sklearn", "matplotlib"}} & sys.modules.keys()
assert not loaded, loaded
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_models_that_differ_anywhere_differ_in_version(tmp_path: Path) -> None:
    original = open_model("lfr").version
    copy = tmp_path / "renamed"  # where a model lies changes no version
    shutil.copytree(folder_of("lfr").root, copy)
    assert open_model(copy).version == open_model(str(copy)).version == original
    with (copy / "recipe.toml").open("ab") as recipe:
        recipe.write(b"\n")
    changed = open_model(copy).version
    assert (changed[:4], changed != original) == ("lfr@", True)


def test_a_model_comes_back_from_any_store_and_is_never_overwritten(store: Store) -> None:
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
    """It is a recipe, a card and a few lines; its weights come from a seed."""
    folder = Path(folder_of(name).root)
    assert open_model(name).model.recipe.name
    assert sum(file.stat().st_size for file in folder.iterdir()) <= 100_000
    card = (folder / "card.md").read_text()
    assert "untrained control" in card


def test_the_encoder_of_a_shipped_model_is_as_good_as_the_papers() -> None:
    """The paper's ICD-M, mean of 200 graphs: table "NMI and AC" of its appendix."""
    planted = generate_lfr(np.random.default_rng(7), LfrSettings(mixing=0.3))
    n_communities = len(np.unique(planted.communities))
    model = open_model("lfr").model
    labels = detect(planted.adjacency(), model, n_communities, method="icd").communities
    assert nmi(planted.communities, labels) >= 0.9721
