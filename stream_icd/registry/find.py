"""Find a model: a shipped one by its name, one of a registry, or one by its folder."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path

from stream_icd.core.errors import BadSettings, ModelNotFound
from stream_icd.core.store.store import Store, open_store
from stream_icd.registry.aliases import CHAMPION, PREVIOUS, champion
from stream_icd.registry.model import VersionedModel, models_in, read_model
from stream_icd.registry.versions import existing_folder, no_version, versions


def shipped_models() -> dict[str, Store]:
    """The folder of each shipped model, by name."""
    package = Path(str(files("stream_icd")))
    installed = package / "models"
    folder = installed if installed.is_dir() else package.parent / "models"  # of a checkout
    return models_in(open_store(str(folder)))


def folder_of(name: str) -> Store:
    """The folder of a shipped model by name, or of any model by path or URI.

    Raises `ModelNotFound`, which lists the shipped ones; else as `open_store`.
    """
    shipped = shipped_models()
    if name in shipped:
        return shipped[name]
    folder = open_store(name, may_be_file=True)
    if not folder.is_there():
        raise ModelNotFound(
            f"no model {name!r}: give a folder, or one of the shipped models: "
            f"{', '.join(shipped)}; stream-icd models list shows what each is for"
        )
    return folder


def open_model(name: str | os.PathLike[str]) -> VersionedModel:
    """Load a model by the name of a shipped one, or by its folder: a path, or a URI.

    Raises as `folder_of` and `read_model`.
    """
    return read_model(folder_of(os.fspath(name)))


def find_model(name: str, registry: Store | None = None) -> Store:
    """The folder of a model.

    The name is `champion`, `previous` or a version of the registry; a shipped model, a path or a
    URI; else a name that has one version in the registry. Raises `ModelNotFound`; `BadSettings` if
    it is an alias and there is no registry; `RegistryDamaged`.
    """
    if name in (CHAMPION, PREVIOUS):
        if registry is None:
            raise BadSettings(
                f"{name} is an alias of a model registry: give --registry, or set "
                "STREAM_ICD_REGISTRY"
            )
        return existing_folder(registry, find_version(registry, name))
    if registry is not None and "@" in name and "/" not in name:
        return existing_folder(registry, name)
    try:
        return folder_of(name)
    except ModelNotFound:
        if registry is None or not _named(registry, name):
            raise
        return existing_folder(registry, find_version(registry, name))


def find_version(registry: Store, text: str) -> str:
    """The version that a text means: a version, an alias, or a name that has one version.

    Raises `ModelNotFound` if there are none or several, which the message lists.
    """
    if text in (CHAMPION, PREVIOUS):
        aliases = champion(registry)
        version = aliases.champion if text == CHAMPION else aliases.previous
        if version is None:
            raise ModelNotFound(f"{registry.place} has no previous champion yet")
        return version
    named = _named(registry, text)
    if not named:
        raise no_version(registry, text)
    if len(named) > 1:
        raise ModelNotFound(f"several versions of {text!r} in {registry.place}: {', '.join(named)}")
    return named[0]


def _named(registry: Store, text: str) -> list[str]:
    return [
        version for version in versions(registry) if text in (version, version.rpartition("@")[0])
    ]
