"""The versions of a registry: immutable models, each with its lineage.

    REGISTRY/versions/NAME-HASH/    the files of a model folder, and lineage.json

A version is named by its content (`registry.model.version_of`), so the same model published twice
is one version. The recipe is written last and completes the version: a writer that was killed
leaves files that no reader takes for a model, and that the next `publish` of the same model
replaces.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, unquote

import pyarrow as pa

from stream_icd.errors import ModelDamaged, ModelNotFound, RegistryDamaged
from stream_icd.lineage import Lineage
from stream_icd.registry.about import ABOUT_FILE, CARD_FILE
from stream_icd.registry.model import (
    LINEAGE_FILE,
    RECIPE_FILE,
    WEIGHTS_FILE,
    PackedModel,
    lineage_in,
    models_in,
    proved_on,
    read_model,
    write_lineage,
)
from stream_icd.registry.shipped import VersionedModel
from stream_icd.store.store import Store

VERSIONS = "versions"
_VERSION = re.compile(r".+@[0-9a-f]{8}", re.DOTALL)
MODEL_FILES = (WEIGHTS_FILE, ABOUT_FILE, CARD_FILE, RECIPE_FILE)
"""The files of a model, in the order of writing."""


@dataclass(frozen=True, slots=True)
class Published:
    """A version in the registry; `new` is False if it was there before."""

    version: str
    new: bool


def publish(
    registry: Store,
    model: PackedModel,
    lineage: Lineage,
    described: Mapping[str, bytes] | None = None,
) -> Published:
    """Add a version to the registry. A version that is there and whole stays as it is.

    Args:
        described: files for readers, by name: `about.toml` and `card.md`.

    Raises:
        StoreUnwritable: such as a full disk; no version is visible.
        StoreUnreachable: the store does not answer.
    """
    folder = version_folder(registry, model.version)
    if _is_whole(registry, model.version):
        return Published(model.version, new=False)
    files = {**(described or {}), **model.files}
    write_lineage(folder, lineage)
    for name in sorted(files, key=MODEL_FILES.index):
        folder.put(name, pa.py_buffer(files[name]))
    return Published(model.version, new=True)


def pack_folder(folder: Store) -> tuple[PackedModel, dict[str, bytes]]:
    """Return the model in a folder, and its files for readers; the model is checked.

    Raises:
        ModelNotFound, ModelDamaged, ModelForeign, ModelTooNew: see `registry.model.read_model`.
    """
    _, version = read_model(folder)
    files = {name: content for name in MODEL_FILES if (content := _content(folder, name))}
    described = {name: files.pop(name) for name in (ABOUT_FILE, CARD_FILE) if name in files}
    return PackedModel(version, files), described


def open_version(registry: Store, version: str) -> VersionedModel:
    """Load a version, and check that its content is the one that its name promises.

    Raises:
        ModelNotFound: the registry has no such version; the message lists the newest ones.
        ModelDamaged, ModelForeign, ModelTooNew: the files cannot be used.
        StoreUnreachable: the store does not answer.
    """
    folder = existing_folder(registry, version)
    model, found = read_model(folder)
    if found != version:
        raise ModelDamaged(
            f"{version_folder(registry, version).place} holds {found}: its recipe was altered"
        )
    return VersionedModel(version, model, proved_on(folder))


def read_lineage(registry: Store, version: str) -> Lineage:
    """Return the lineage of a version.

    Raises:
        ModelNotFound: the registry has no such version.
        RegistryDamaged: the lineage cannot be read.
    """
    folder = existing_folder(registry, version)
    try:
        return lineage_in(folder)
    except FileNotFoundError as error:
        raise RegistryDamaged(f"{folder.place} holds no {LINEAGE_FILE}") from error


def versions(registry: Store) -> list[str]:
    """Return the complete versions of a registry, by name; folders of others are none."""
    found = (_version_of_folder(name) for name in models_in(registry.below(VERSIONS)))
    return sorted(version for version in found if version is not None)


def version_folder(registry: Store, version: str) -> Store:
    """Return the folder of a version, which need not exist.

    Raises:
        ModelNotFound: the text is not a version, `NAME@` and eight hexadecimal digits.
    """
    if not _VERSION.fullmatch(version):
        raise ModelNotFound(f"{version!r} is not a version: NAME@ and 8 hexadecimal digits")
    return registry.below(f"{VERSIONS}/{_folder_name(version)}")


def _folder_name(version: str) -> str:
    # Neither % nor @, which have a meaning in the URIs that such a folder is opened by.
    name, _, digest = version.rpartition("@")
    return f"{quote(name, safe='').replace('%', '=')}-{digest}"


def _version_of_folder(name: str) -> str | None:
    quoted, _, digest = name.rpartition("-")
    version = f"{unquote(quoted.replace('=', '%'))}@{digest}"
    is_ours = _VERSION.fullmatch(version) and _folder_name(version) == name
    return version if is_ours else None


def existing_folder(registry: Store, version: str) -> Store:
    """Return the folder of a version.

    Raises:
        ModelNotFound: the registry has no such version; the message lists those it has.
    """
    if not _VERSION.fullmatch(version) or not version_folder(registry, version).exists(RECIPE_FILE):
        known = ", ".join(versions(registry)) or "none; stream-icd models import adds one"
        raise ModelNotFound(f"no version {version!r} in {registry.place}; it has: {known}")
    return version_folder(registry, version)


def _is_whole(registry: Store, version: str) -> bool:
    folder = version_folder(registry, version)
    if not folder.exists(RECIPE_FILE):
        return False
    try:
        return read_model(folder)[1] == version
    except ModelDamaged:
        return False


def _content(folder: Store, name: str) -> bytes | None:
    return folder.read(name, folder.size(name)) if folder.exists(name) else None
