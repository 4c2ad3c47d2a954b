"""Find a model by an alias or a version of a registry, by a shipped name, or by its folder."""

from __future__ import annotations

from stream_icd.errors import BadSettings, ModelNotFound
from stream_icd.registry.aliases import CHAMPION, PREVIOUS, champion
from stream_icd.registry.shipped import folder_of
from stream_icd.registry.versions import existing_folder, versions
from stream_icd.store.store import Store


def find_model(name: str, registry: Store | None = None) -> Store:
    """The folder of a model.

    Args:
        name: `champion`, `previous` or a version of the registry; a shipped model, a path or a
            URI; else a name that has one version in the registry.

    Raises:
        ModelNotFound: nothing has that name.
        BadSettings: an alias without a registry, or `previous` without a previous champion.
        RegistryDamaged: the registry cannot be read.
    """
    if name in (CHAMPION, PREVIOUS):
        if registry is None:
            raise BadSettings(
                f"{name} is an alias of a model registry: give --registry, or set "
                "STREAM_ICD_REGISTRY"
            )
        return existing_folder(registry, _of_alias(registry, name))
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

    Raises:
        ModelNotFound: none, or several; the message lists them.
        RegistryDamaged: the registry cannot be read.
    """
    if text in (CHAMPION, PREVIOUS):
        return _of_alias(registry, text)
    found = _named(registry, text)
    if len(found) != 1:
        listed = ", ".join(found or versions(registry)) or "none; stream-icd models import adds one"
        what = "several versions of" if found else "no version"
        raise ModelNotFound(f"{what} {text!r} in {registry.place}: {listed}")
    return found[0]


def _named(registry: Store, text: str) -> list[str]:
    """The versions of this text or this name."""
    return [
        version for version in versions(registry) if text in (version, version.rpartition("@")[0])
    ]


def _of_alias(registry: Store, name: str) -> str:
    aliases = champion(registry)
    version = aliases.champion if name == CHAMPION else aliases.previous
    if version is None:
        raise ModelNotFound(f"{registry.place} has no previous champion yet")
    return version
