"""A model's folder: recipe, weights, lineage, and what it says to people.

The weights are in a file of safetensors, or come from a seed.
"""

from __future__ import annotations

import hashlib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from math import prod
from typing import Any, NamedTuple, Self, get_args

import numpy as np
import pyarrow as pa
import tomli_w
from numpy.typing import NDArray
from safetensors import SafetensorError, deserialize
from safetensors.numpy import save

from stream_icd.core.errors import (
    BadSettings,
    ModelDamaged,
    ModelForeign,
    ModelNotFound,
    ModelTooNew,
    RegistryDamaged,
)
from stream_icd.core.lineage import Lineage
from stream_icd.core.store.store import Store, open_store
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.icd.encoder.contract import Weights, digest, encoder, initial_weights
from stream_icd.methods.icd.presets import deviations
from stream_icd.methods.icd.recipe import Recipe
from stream_icd.methods.model import Method, Model
from stream_icd.registry.json_file import read_json

_STORED, _SEEDED, _SHORT = 1, 2, 3
"""Versions of the layout on disk: weights in a file; from the recipe's seed; the same, and the
recipe leaves out defaults. A reader rejects later versions."""

_MOST_TEXT_BYTES = 2**20

_MOST_DEPTH = 10
"""Maximum number of tables and lists inside one another in a recipe; ours have three."""

_SHA256 = re.compile("[0-9a-f]{64}")

_MOST_MAGNITUDE = 1e6
"""Maximum absolute value of a weight; far larger ones overflow in the first layer."""

WEIGHTS_FILE = "model.safetensors"
RECIPE_FILE = "recipe.toml"
LINEAGE_FILE = "lineage.json"
LINEAGE_FORMAT = 1
ABOUT_FILE, CARD_FILE = "about.toml", "card.md"
_UNSAID = "not said"


@dataclass(frozen=True, slots=True, eq=False)
class VersionedModel:
    """A model and the name under which its results are published."""

    version: str  # see `version_of`
    model: Model
    proved_on: frozenset[str] = frozenset()  # graphs that it is known to fit; see `_proved_on`


def save_model(
    model: Model, folder: str | os.PathLike[str], beside: Mapping[str, bytes] | None = None
) -> None:
    """Write a model to a folder, a path or a URI, and other files `beside` it, by name.

    The recipe is written last and holds the weights' SHA-256: without it, a folder is no model yet.
    Raises `BadSettings` if the folder holds a model already: a model never changes once written.
    """
    target = open_store(os.fspath(folder))
    # A detector may have it open, and its version is the hash of its recipe.
    if target.exists(RECIPE_FILE):
        raise BadSettings(f"{target.place} already holds a model; save this one to a new folder")
    for name, content in {**(beside or {}), **PackedModel.of(model).files}.items():
        target.put(name, pa.py_buffer(content))


@dataclass(frozen=True, slots=True, eq=False)
class PackedModel:
    """The files of a model, ready to be written to a folder."""

    version: str  # see `version_of`
    files: dict[str, bytes]  # by name; the recipe, which completes the model, comes last

    @classmethod
    def of(cls, model: Model) -> Self:
        """Pack a model; weights that the recipe's seed reproduces need no file."""
        files, head = {}, dict[str, Any]()
        if _can_be_made_again(model.recipe, model.weights):
            layout = _SHORT if model.recipe.discriminator_widths is None else _SEEDED
            head |= {"format": layout, "weights": "seed", "sha256": digest(model.weights)}
        else:
            weights = save({name: np.ascontiguousarray(w) for name, w in model.weights.items()})
            head |= {"format": _STORED, "sha256": hashlib.sha256(weights).hexdigest()}
            files[WEIGHTS_FILE] = weights
        if model.method != "bp":  # what a recipe that names none means, as older ones do
            head["method"] = model.method
        if model.leads:
            head["leads"] = True
        head["recipe"] = model.recipe.values()
        if model.recipe.discriminator_widths is not None:
            head["deviations"] = deviations(model.recipe)  # from the paper, and why: for readers
        # Numbers that are 0 say something, and 0 == False.
        head["bp"] = {
            name: v for name, v in asdict(model.bp).items() if v is not None and v is not False
        }
        files[RECIPE_FILE] = tomli_w.dumps(head).encode()
        return cls(_version(model.recipe, files[RECIPE_FILE]), files)


def _can_be_made_again(recipe: Recipe, weights: Weights) -> bool:
    """Whether the recipe's seed reproduces these weights, bit for bit, on every machine.

    This holds for untrained Hadamard weights. Orthogonal weights come from a matrix factorisation,
    whose last bits depend on the linear algebra library.
    """
    if recipe.encoder.initialisation != "hadamard":
        return False
    initial = initial_weights(recipe)
    return all(np.array_equal(initial[name], weights[name]) for name in initial)


def read_model(store: Store) -> VersionedModel:
    """Read and check the model in a folder.

    Neither torch is imported nor code from the files run. Weights that a seed makes are made and
    checked when the encoder is used (`Model.weights`). Sizes are checked before anything is read.

    Raises `ModelNotFound` if there is no recipe; `ModelForeign` if it is not one of ours;
    `ModelTooNew` if a later version wrote it; `ModelDamaged` if a file is truncated or altered, a
    value is out of its range, or weights do not fit the recipe; `StoreUnreachable`.
    """
    values, model, version = _read_head(store)
    if values["format"] == _STORED:
        trained = _read_weights(store, model.recipe, values["sha256"])
        model = replace(model, trained=trained)
    elif values.get("weights") == "seed":
        model = replace(model, sha256=values["sha256"])
    else:
        raise ModelDamaged(
            f"{store.place}/{RECIPE_FILE}: weights = {values.get('weights')!r}; in this format it "
            'must be "seed"'
        )
    return VersionedModel(version, model, _proved_on(store))


def version_of(store: Store) -> str:
    """The version of the model in a folder; its weights are not read.

    It is the name in the recipe plus the start of the recipe's SHA-256, such as `as@b4b47a3e`. The
    recipe holds the SHA-256 of the weights, so models that differ anywhere differ in version.
    Raises errors of `read_model`.
    """
    return _read_head(store).version


def models_in(store: Store) -> dict[str, Store]:
    """Name of each folder in a store that holds a model, and that folder."""
    names = (name for name in store.folders() if store.exists(f"{name}/{RECIPE_FILE}"))
    return {name: store.below(name) for name in names}


def differences(before: Store, after: Store) -> Iterator[tuple[str, Any, Any]]:
    """Yield each setting of which two models differ: its dotted name, and both values.

    A value is None if a model does not have the setting. Other weights are a difference too: the
    recipe holds their hash. Raises errors of `read_model`.
    """
    first, second = (dict(_flat(_read_head(folder).values)) for folder in (before, after))
    for name in sorted({*first, *second}):
        if first.get(name) != second.get(name):
            yield name, first.get(name), second.get(name)


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """All settings of a recipe, by dotted name such as `recipe.encoder.kind`."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _version(recipe: Recipe, content: bytes) -> str:
    return f"{recipe.name}@{hashlib.sha256(content).hexdigest()[:8]}"


class _Head(NamedTuple):
    """What `recipe.toml` says."""

    values: dict[str, Any]
    model: Model  # without its weights
    version: str


def _read_head(store: Store) -> _Head:
    if not store.exists(RECIPE_FILE):
        names = ", ".join(models_in(store.above())) or "none"
        raise ModelNotFound(f"no model in {store.place}; beside it: {names}")
    path, content = f"{store.place}/{RECIPE_FILE}", _read_file(store, RECIPE_FILE)
    try:
        values = tomllib.loads(content.decode())
    except (ValueError, RecursionError) as error:  # from both decoders, and from very long numbers
        raise ModelDamaged(f"{path} is not TOML: {error}") from error
    _check_values(path, values)
    layout = values.get("format")
    if type(layout) is not int or not {"sha256", "recipe", "bp"} <= values.keys():
        raise ModelForeign(f"{path} is not a model of stream_icd: no format, sha256, recipe")
    if layout < _STORED:
        raise ModelDamaged(f"{path} has format {layout}; formats are {_STORED} to {_SHORT}")
    if layout > _SHORT:
        raise ModelTooNew(
            f"{path} has format {layout} and this version reads up to {_SHORT}; upgrade stream-icd"
        )
    if not (isinstance(values["sha256"], str) and _SHA256.fullmatch(values["sha256"])):
        raise ModelDamaged(f"{path}: sha256 is {values['sha256']!r:.80}, not 64 hexadecimal digits")
    method = values.get("method", "bp")
    if method not in get_args(Method):
        methods = " or ".join(get_args(Method))
        raise ModelDamaged(f"{path}: method is {method!r:.80}, not {methods}")
    leads = values.get("leads", False)
    if not isinstance(leads, bool):
        raise ModelDamaged(f"{path}: leads is {leads!r:.80}, not true or false")
    try:
        recipe = Recipe.model_validate(values["recipe"])
        bp = BpParameters(**values["bp"])
        model = Model(recipe, bp, method=method, leads=leads)
        return _Head(values, model, _version(recipe, content))
    except (BadSettings, TypeError) as error:
        raise ModelDamaged(f"{path}: {error}") from error


def _check_values(path: str, values: Mapping[str, Any]) -> None:
    """Raise `ModelDamaged` if tables are too deep, as dotted keys may be, or an integer is longer
    than the 64 bits of TOML's: it may be too long to be shown."""
    level: list[Any] = [values]
    for _ in range(_MOST_DEPTH):
        inside = (table.values() if isinstance(table, dict) else table for table in level)
        level = [value for values in inside for value in values]
        if any(isinstance(value, int) and value.bit_length() > 64 for value in level):
            raise ModelDamaged(f"{path} has an integer of more than 64 bits")
        level = [value for value in level if isinstance(value, dict | list)]
    if level:
        raise ModelDamaged(f"{path} has tables more than {_MOST_DEPTH} deep; a recipe has three")


@dataclass(frozen=True, slots=True)
class About:
    """A short description for lists of models, in plain text, at most a sentence each.

    It says which graphs the model is for, what it learned from, and how good it is on which graphs.
    """

    purpose: str = _UNSAID
    learned_on: str = _UNSAID
    figures: str = _UNSAID

    def to_toml(self) -> bytes:
        """The content of `about.toml`."""
        return tomli_w.dumps(asdict(self)).encode()

    @classmethod
    def read(cls, store: Store) -> Self:
        """Read it from a model's folder, empty if there is none; raises `ModelDamaged`."""
        if not store.exists(ABOUT_FILE):
            return cls()
        text = _read_text(store, ABOUT_FILE)
        try:
            values = tomllib.loads(text)
            about = cls(**values)
        except (ValueError, TypeError, RecursionError) as error:
            raise ModelDamaged(f"{store.place}/{ABOUT_FILE}: {error}") from error
        if not all(isinstance(value, str) for value in values.values()):
            raise ModelDamaged(f"{store.place}/{ABOUT_FILE}: its values must be texts")
        return about


def read_card(store: Store) -> str:
    """The model card in a folder, as Markdown; raises `ModelDamaged`, also if there is none."""
    return _read_text(store, CARD_FILE)


def _read_text(store: Store, name: str) -> str:
    try:
        return _read_file(store, name).decode()
    except UnicodeDecodeError as error:
        raise ModelDamaged(f"{store.place}/{name}: {error}") from error


def _read_file(store: Store, name: str, most_bytes: int = _MOST_TEXT_BYTES) -> bytes:
    """One file of a model's folder; raises `ModelDamaged` if it is missing or too large."""
    path, size = f"{store.place}/{name}", store.size(name)
    if size > most_bytes:
        raise ModelDamaged(f"{path} has {size} bytes; at most {most_bytes} fit this model")
    try:
        content = store.read(name, size)
    except FileNotFoundError as error:
        raise ModelDamaged(f"{path} is missing: copy the whole folder of the model") from error
    if content is None:
        raise ModelDamaged(f"{path} changed while it was read")
    return content


def _read_weights(store: Store, recipe: Recipe, expected_hash: str) -> Weights:
    path, shapes = f"{store.place}/{WEIGHTS_FILE}", encoder(recipe.encoder).weight_shapes()
    n_bytes = 4 * sum(map(prod, shapes.values()))
    content = _read_file(store, WEIGHTS_FILE, n_bytes + _MOST_TEXT_BYTES)  # its header is small
    # Before it is parsed: an altered weight is still a number.
    actual_hash = hashlib.sha256(content).hexdigest()
    if actual_hash != expected_hash:
        raise ModelDamaged(f"{path} has SHA-256 {actual_hash}; its recipe says {expected_hash}")
    try:
        tensors = dict(deserialize(content))  # type: ignore[no-untyped-call]
    except SafetensorError as error:
        raise ModelDamaged(f"{path} is not a safetensors file: {error}") from error
    kinds = {name: (tensor["dtype"], tuple(tensor["shape"])) for name, tensor in tensors.items()}
    expected = {name: ("F32", shape) for name, shape in shapes.items()}
    if kinds != expected:
        raise ModelDamaged(f"{path}: weights {kinds} do not fit the recipe's {expected}")
    return {name: _weight(path, name, shapes[name], tensor) for name, tensor in tensors.items()}


def _weight(
    path: str, name: str, shape: tuple[int, ...], tensor: dict[str, Any]
) -> NDArray[np.float32]:
    weight = np.frombuffer(tensor["data"], "<f4").reshape(shape).astype(np.float32, copy=False)
    if not (abs(weight) <= _MOST_MAGNITUDE).all():  # also rejects NaN
        worst = weight.ravel()[np.argmin(abs(weight.ravel()) <= _MOST_MAGNITUDE)]
        raise ModelDamaged(
            f"{path}: {name} holds {worst}; weights are from -{_MOST_MAGNITUDE:g} "
            f"to {_MOST_MAGNITUDE:g}"
        )
    return weight


def _proved_on(folder: Store) -> frozenset[str]:
    """The graphs that a model learned from before a gate promoted it.

    These need no further check whether the model fits them. A lineage that is missing or damaged
    proves nothing.
    """
    if not folder.exists(LINEAGE_FILE):
        return frozenset()
    try:
        lineage = read_json(folder, LINEAGE_FILE, Lineage, LINEAGE_FORMAT)
    except RegistryDamaged:
        return frozenset()
    if lineage.gate is None or not lineage.gate.passed or lineage.data is None:
        return frozenset()
    return frozenset(lineage.data.graphs)
