"""Find a model by the name of a shipped one, or by its folder's path or URI."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from stream_icd.errors import ModelNotFound
from stream_icd.registry.model import VersionedModel, models_in, proved_on, read_model
from stream_icd.store.store import Store, open_store


def models_folder() -> Path:
    """The folder of the shipped models: in the installed package, or next to it in a checkout."""
    package = Path(str(files("stream_icd")))
    installed = package / "models"
    return installed if installed.is_dir() else package.parent / "models"


def shipped_models() -> dict[str, Store]:
    """The folder of each shipped model, by name."""
    return models_in(open_store(str(models_folder())))


def folder_of(name: str) -> Store:
    """The folder of a shipped model by name, or of any model by path or URI.

    Raises:
        ModelNotFound: neither a shipped model nor a folder; the message lists the shipped ones.
        BadSettings, StoreUnreachable: as `open_store`.
    """
    shipped = shipped_models()
    if name in shipped:
        return shipped[name]
    folder = open_store(name)
    if not folder.is_there():
        raise ModelNotFound(
            f"no model {name!r}: give a folder, or one of the shipped models: "
            f"{', '.join(shipped)}; stream-icd models list shows what each is for"
        )
    return folder


def open_model(name: str) -> VersionedModel:
    """Load a model by the name of a shipped one, or by its folder: a path, or a URI.

    Raises:
        ModelDamaged, ModelForeign, ModelTooNew: the files cannot be used.
        ModelNotFound, BadSettings, StoreUnreachable: as `folder_of`.
    """
    folder = folder_of(name)
    model, version = read_model(folder)
    return VersionedModel(version, model, proved_on(folder))
