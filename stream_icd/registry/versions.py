"""The versions of a registry: immutable models, each with its lineage.

    REGISTRY/versions/NAME-HASH/    the files of a model folder, and lineage.json

A version is named by its content (`registry.model.version_of`), so the same model published twice
is one version. The recipe is written last and completes it: a writer that was killed leaves files
that no reader takes for a model, and that the next `publish` replaces.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from urllib.parse import quote, unquote

import pyarrow as pa

from stream_icd.core.errors import (
    BadSettings,
    ModelDamaged,
    ModelError,
    ModelNotFound,
    RegistryDamaged,
)
from stream_icd.core.lineage import Lineage
from stream_icd.core.printable import shortened
from stream_icd.core.store.store import Store, open_store
from stream_icd.core.version import __version__
from stream_icd.registry.json_file import read_json, to_json
from stream_icd.registry.model import (
    ABOUT_FILE,
    CARD_FILE,
    LINEAGE_FILE,
    LINEAGE_FORMAT,
    RECIPE_FILE,
    WEIGHTS_FILE,
    About,
    PackedModel,
    VersionedModel,
    models_in,
    read_card,
    read_model,
    version_of,
)

_VERSIONS = "versions"
_MOST_NAME_BYTES = 255
"""What file systems take as the name of a folder."""
_VERSION = re.compile(r".+@[0-9a-f]{8}", re.DOTALL)
_MODEL_FILES = (WEIGHTS_FILE, ABOUT_FILE, CARD_FILE, RECIPE_FILE)
"""The files of a model, in the order of writing."""


def publish(registry: Store, model: PackedModel, lineage: Lineage) -> bool:
    """Add a version; return whether it is new. One that is there and whole stays as it is.

    Raises `StoreUnwritable`, such as for a full disk; no version is visible then.
    """
    folder = version_folder(registry, model.version)
    if _is_whole(folder, model.version):
        return False
    # Before the recipe, with which the version becomes visible: none is seen without its lineage.
    folder.put(LINEAGE_FILE, to_json(lineage, LINEAGE_FORMAT))
    for name in sorted(model.files, key=_MODEL_FILES.index):
        folder.put(name, pa.py_buffer(model.files[name]))
    return True


def import_folder(registry: Store, folder: Store, by: str, at: datetime, source: str) -> str:
    """Add the model in a folder, and return its version.

    What it learned from is kept, if it comes from a registry: the gate must not judge it on that.
    Raises `RegistryDamaged` if its lineage cannot be read; else as `read_model` and `publish`.
    """
    model = PackedModel(_readable(folder), _files_in(folder, _MODEL_FILES))
    data = _lineage_in(folder).data if folder.exists(LINEAGE_FILE) else None
    publish(registry, model, Lineage(by, at, __version__, source=source, data=data))
    return model.version


def export_folder(folder: Store, target: str) -> str:
    """Copy a model and its lineage, byte for byte, to a new folder; return the folder's place.

    Raises `BadSettings` if the target is a file, or holds more than a copy that was cut short.
    """
    place = open_store(target)
    read_model(folder)  # nothing is copied of a model that cannot be used
    files = _files_in(folder, (LINEAGE_FILE, *_MODEL_FILES))
    # A copy that was cut short has some of the same files, but no recipe, which is written last.
    started = {name: files.get(name, b"") for name in place.files()}
    differs = any(place.read(name, len(content)) != content for name, content in started.items())
    if differs or RECIPE_FILE in started:
        raise BadSettings(f"{place.place} is not empty: export to a new folder")
    for name, content in files.items():
        place.put(name, pa.py_buffer(content))
    return place.place


def _files_in(folder: Store, names: Iterable[str]) -> dict[str, bytes]:
    sizes = {name: size for name in names if (size := folder.size(name))}
    return {name: folder.read(name, size) or b"" for name, size in sizes.items()}


def open_version(registry: Store, version: str) -> VersionedModel:
    """Load a version; see `existing_folder` and `read_model` for errors."""
    return read_model(existing_folder(registry, version))


def read_lineage(registry: Store, version: str) -> Lineage:
    """The lineage of a version; raises as `existing_folder`, and `RegistryDamaged`."""
    return _lineage_in(existing_folder(registry, version))


def _lineage_in(folder: Store) -> Lineage:
    try:
        return read_json(folder, LINEAGE_FILE, Lineage, LINEAGE_FORMAT)
    except FileNotFoundError as error:
        raise RegistryDamaged(
            f"{folder.place} holds no {LINEAGE_FILE}: import this folder with stream-icd models "
            "import, which writes one"
        ) from error


def versions(registry: Store) -> list[str]:
    """The complete versions of a registry, by name; folders of others are none."""
    names = (_version_of_folder(name) for name in models_in(registry.below(_VERSIONS)))
    return sorted(version for version in names if version is not None)


def version_folder(registry: Store, version: str) -> Store:
    """The folder of a version, which need not exist.

    Raises `ModelNotFound` if the text is not a version; `BadSettings` if it is too long.
    """
    if not _VERSION.fullmatch(version):
        raise ModelNotFound(f"{version!r} is not a version: NAME@ and 8 hexadecimal digits")
    if (size := len(folder := _folder_name(version))) > _MOST_NAME_BYTES:
        raise BadSettings(
            f"the name of the model {shortened(version)} has {size - 9} bytes when written as in a "
            f"URL; in a registry, at most {_MOST_NAME_BYTES - 9}: give it a shorter one"
        )
    return registry.below(f"{_VERSIONS}/{folder}")


def _folder_name(version: str) -> str:
    # Neither % nor @, which have a meaning in the URIs that such a folder is opened by.
    name, _, digest = version.rpartition("@")
    return f"{quote(name, safe='').replace('%', '=')}-{digest}"


def _version_of_folder(name: str) -> str | None:
    quoted, _, digest = name.rpartition("-")
    version = f"{unquote(quoted.replace('=', '%'))}@{digest}"
    return version if _VERSION.fullmatch(version) and _folder_name(version) == name else None


def existing_folder(registry: Store, version: str) -> Store:
    """The folder of a version, whose recipe is that of its name; weights are not read.

    Raises `ModelNotFound`, which lists the versions; `ModelDamaged` if it holds another recipe.
    """
    if not _VERSION.fullmatch(version) or not version_folder(registry, version).exists(RECIPE_FILE):
        raise no_version(registry, version)
    folder = version_folder(registry, version)
    if (own := version_of(folder)) != version:
        raise ModelDamaged(f"{folder.place} holds {own}: its recipe was altered")
    return folder


def no_version(registry: Store, text: str) -> ModelNotFound:
    names = ", ".join(versions(registry)) or "none"
    return ModelNotFound(
        f"no version {text!r} in {registry.place}; it has: {names} (stream-icd models import adds "
        "one)"
    )


def _is_whole(folder: Store, version: str) -> bool:
    if not folder.exists(RECIPE_FILE):
        return False
    try:
        _lineage_in(folder)
        return _readable(folder) == version
    except ModelError:
        return False


def _readable(folder: Store) -> str:
    """The version of the model in a folder; raises `ModelError` if not all its files are read."""
    About.read(folder)
    if folder.exists(CARD_FILE):
        read_card(folder)
    return read_model(folder).version
