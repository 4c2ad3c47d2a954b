"""Finding a model: by the name of one that is shipped, or by its folder."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from stream_icd.errors import ModelNotFound
from stream_icd.icd.model import RECIPE_FILE, Model, load_model


@dataclass(frozen=True, slots=True, eq=False)
class VersionedModel:
    """A model and the name under which its results are published.

    Attributes:
        version: folder name and the beginning of the recipe's SHA-256, such as `as@5b1f09c2`.
            The recipe holds the weights' own, so models that differ anywhere differ in version.
    """

    version: str
    model: Model


def models_folder() -> Path:
    """The folder of the shipped models: inside an installed package, or beside it in a checkout."""
    package = Path(str(files("stream_icd")))
    installed = package / "models"
    return installed if installed.is_dir() else package.parent / "models"


def shipped_models() -> dict[str, Path]:
    """Name of each shipped model, and its folder."""
    recipes = sorted(models_folder().glob(f"*/{RECIPE_FILE}"))
    return {recipe.parent.name: recipe.parent for recipe in recipes}


def open_model(name: str) -> VersionedModel:
    """Load a model by the name of a shipped one, or by the path of its folder.

    Raises:
        ModelNotFound: neither a shipped model nor a folder; the message lists the shipped ones.
        ModelDamaged, ModelForeign, ModelTooNew: the files cannot be used.
    """
    shipped = shipped_models()
    folder = shipped.get(name, Path(name))
    if not folder.is_dir():
        raise ModelNotFound(
            f"no model {name!r}: give a folder, or one of the shipped: {', '.join(shipped)}"
        )
    model = load_model(folder)
    digest = hashlib.sha256((folder / RECIPE_FILE).read_bytes()).hexdigest()
    return VersionedModel(f"{folder.resolve().name}@{digest[:8]}", model)
