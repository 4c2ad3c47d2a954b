"""What differs between two models: settings in their recipes, parameters, weights."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from stream_icd.registry.model import RECIPE_FILE, version_of
from stream_icd.store.store import Store


@dataclass(frozen=True, slots=True)
class Difference:
    """A setting that two models do not share; None if a model does not have it."""

    name: str
    before: Any
    after: Any


def differences(before: Store, after: Store) -> list[Difference]:
    """Return what differs between the recipes of two model folders, by dotted name.

    A recipe holds the hash of the weights (`sha256`), so other weights are a difference, too.

    Raises:
        ModelNotFound, ModelDamaged, ModelForeign, ModelTooNew: see `registry.model.version_of`.
    """
    first, second = flat_recipe(before), flat_recipe(after)
    names = sorted({*first, *second})
    return [
        Difference(name, first.get(name), second.get(name))
        for name in names
        if first.get(name) != second.get(name)
    ]


def flat_recipe(folder: Store) -> dict[str, Any]:
    """Return all settings of a model's recipe, by dotted name such as `recipe.encoder.kind`.

    Raises:
        ModelNotFound, ModelDamaged, ModelForeign, ModelTooNew: see `registry.model.version_of`.
    """
    version_of(folder)  # checks it
    content = folder.read(RECIPE_FILE, folder.size(RECIPE_FILE)) or b""
    return dict(_flat(tomllib.loads(content.decode())))


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
