"""How models and registries are shown to people."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from stream_icd.core.errors import ModelDamaged, ModelError, RegistryDamaged
from stream_icd.core.lineage import Gate, Lineage
from stream_icd.core.store.store import Store
from stream_icd.registry.aliases import current
from stream_icd.registry.model import differences, read_about, read_card, version_of
from stream_icd.registry.versions import read_lineage, version_folder, versions
from stream_icd.wire.announcements import Announcement

_LAST = datetime.max.replace(tzinfo=UTC)


def model_lines(name: str, folder: Store) -> list[str]:
    """A model outside of a registry: name, version, and its description; or how it is damaged."""
    try:
        return [f"{name}  ({version_of(folder)})", *_about(folder)]
    except ModelError as error:
        return [name, _damaged(error)]


def version_lines(registry: Store) -> Iterator[str]:
    """The versions of a registry and what is known of each, the oldest first, damaged ones last."""
    names: dict[str | None, str] = {}
    try:
        if (aliases := current(registry)) is not None:
            names = {aliases.previous: "previous", aliases.champion: "champion"}
    except RegistryDamaged as error:
        yield from ("aliases", _damaged(error))
    there = {*versions(registry), *filter(None, names)}  # or the folder of an alias is gone
    described = (_described(registry, version) for version in there)
    for _, version, lines in sorted(described):
        yield f"{version}  {names.get(version, '')}".rstrip()
        yield from lines


def _described(registry: Store, version: str) -> tuple[datetime, str, list[str]]:
    """When a version was made, its name, and the lines that describe it."""
    try:
        lineage = read_lineage(registry, version)
        about = _about(version_folder(registry, version))
        return lineage.made_at, version, [f"  made     {_made(lineage)}", *about]
    except ModelError as error:
        return _LAST, version, [_damaged(error)]


def _damaged(error: ModelError) -> str:
    return f"  damaged  {type(error).__name__}: {error}"


def lineage_lines(registry: Store, folder: Store) -> Iterator[str]:
    """Where a version of the registry comes from; nothing of a model that is not in it."""
    version = version_of(folder)
    if version_folder(registry, version).uri != folder.uri:
        return
    lineage, aliases = read_lineage(registry, version), current(registry)
    yield f"version  {version}"
    yield f"made     {_made(lineage)}"
    yield f"parent   {lineage.parent or 'none'}"
    yield f"data     {_data(lineage)}"
    yield from _gate(lineage.gate)
    if aliases is not None and aliases.champion == version:
        yield (
            f"champion {aliases.change} {aliases.at:%Y-%m-%d %H:%M:%S} UTC by {aliases.by}: "
            f"{aliases.reason} (generation {aliases.generation})"
        )
    yield ""


def card_lines(folder: Store) -> list[str]:
    """The card of a model, or its short description; raises as `read_model` if there is none."""
    version = version_of(folder)
    try:
        return read_card(folder).removesuffix("\n").split("\n")
    except ModelDamaged:
        return [f"no card  ({version})", *_about(folder)]


def difference_lines(before: Store, after: Store) -> Iterator[str]:
    """A line for each setting that differs."""
    for name, *values in differences(before, after):
        was, now = ("-" if value is None else value for value in values)
        yield f"{name}: {was} -> {now}"


def announcement_line(announcement: Announcement) -> str:
    """An event of a registry in one line."""
    version = announcement.version or announcement.champion or "-"
    return (
        f"{announcement.at:%Y-%m-%d %H:%M:%S}  {announcement.kind:<11}  {version}  "
        f"{announcement.by}: {announcement.reason}"
    )


def _about(folder: Store) -> Iterator[str]:
    about = read_about(folder)
    yield f"  for      {about.purpose}"
    yield f"  learned  {about.learned_on}"
    yield f"  figures  {about.figures}"


def _made(lineage: Lineage) -> str:
    source = f" from {lineage.source}" if lineage.source else ""
    when = f"{lineage.made_at:%Y-%m-%d %H:%M:%S} UTC"
    return f"{when} by {lineage.made_by}{source} (stream-icd {lineage.code_version})"


def _data(lineage: Lineage) -> str:
    data = lineage.data
    if data is None:
        return "not known"
    period = f"{data.start:%Y-%m-%d %H:%M} to {data.end:%Y-%m-%d %H:%M} UTC"
    labelled = f"{data.labelled} of them with labels"
    return f"{data.windows} windows of {', '.join(data.graphs)}, {period}, {labelled}"


def _gate(gate: Gate | None) -> Iterator[str]:
    if gate is None:
        yield "gate     none"
        return
    result = "passed" if gate.passed else "not passed"
    yield f"gate     {result} against {gate.champion} on {gate.windows} windows"
    yield f"         {gate.reason}"
    for figure in gate.figures:
        interval = ""
        if figure.low is not None and figure.high is not None:
            interval = f", difference {figure.low:+.4g} to {figure.high:+.4g}"
        values = f"{figure.champion:.4g} -> {figure.challenger:.4g}"
        yield f"         {figure.measure}: {values}{interval}"
