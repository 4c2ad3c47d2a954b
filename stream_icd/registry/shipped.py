"""Finding a model: by the name of one that is shipped, or by its folder."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from stream_icd.errors import ModelNotFound
from stream_icd.registry.model import RECIPE_FILE, Model, load_model


@dataclass(frozen=True, slots=True, eq=False)
class VersionedModel:
    """A model and the name under which its results are published.

    Attributes:
        version: folder name and the beginning of the recipe's SHA-256, such as `as@8168f91e`.
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
    return models_in(models_folder())


def models_in(folder: Path) -> dict[str, Path]:
    """Name of each model in a folder, and its own folder."""
    recipes = sorted(folder.glob(f"*/{RECIPE_FILE}"))
    return {recipe.parent.name: recipe.parent for recipe in recipes}


def folder_of(name: str) -> Path:
    """The folder of a shipped model, by its name, or of any model, by its path.

    Raises:
        ModelNotFound: neither a shipped model nor a folder; the message lists the shipped ones.
    """
    shipped = shipped_models()
    folder = shipped.get(name, Path(name))
    if not folder.is_dir():
        raise ModelNotFound(
            f"no model {name!r}: give a folder, or one of the shipped: {', '.join(shipped)}; "
            f"stream-icd models list says what each is for"
        )
    return folder


def version_of(folder: Path) -> str:
    """Folder name and the beginning of the recipe's SHA-256; see `VersionedModel`."""
    digest = hashlib.sha256((folder / RECIPE_FILE).read_bytes()).hexdigest()
    return f"{folder.resolve().name}@{digest[:8]}"


def open_model(name: str) -> VersionedModel:
    """Load a model by the name of a shipped one, or by the path of its folder.

    Raises:
        ModelNotFound: neither a shipped model nor a folder; the message lists the shipped ones.
        ModelDamaged, ModelForeign, ModelTooNew: the files cannot be used.
    """
    folder = folder_of(name)
    model = load_model(folder)
    return VersionedModel(version_of(folder), model)
