"""The aliases `champion` and `previous` of a registry, changed by compare-and-set.

    REGISTRY/aliases/00000001.json, 00000002.json, ...

Each file is a generation: both aliases, the reason, and the time. The highest number is in force. A
change creates the next number, only if that file does not exist (`Store.create`): of two changes
that begin at the same generation, one wins, and the other one changes nothing. This changes both
aliases at once, keeps the whole history, and needs no lock, which a killed program would leave
behind.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from stream_icd.core.errors import BadSettings, ChampionChanged, ModelNotFound, RegistryDamaged
from stream_icd.core.store.store import Store
from stream_icd.registry.json_file import read_json, to_json
from stream_icd.registry.versions import open_version

_FOLDER = "aliases"
_FORMAT = 1
_FILE = re.compile(r"([0-9]{8}|[1-9][0-9]{8,18})\.json")
"""As `_path` writes it: one file a number, in ASCII digits."""

CHAMPION, PREVIOUS = "champion", "previous"
_Change = Literal["promoted", "rolled back"]


@dataclass(frozen=True, slots=True)
class Aliases:
    """One generation of the aliases."""

    generation: int  # from 1 on
    champion: str
    previous: str | None  # the version that a rollback returns to
    change: _Change
    reason: str
    by: str  # the program that made the change
    at: datetime
    back_to: int | None  # the earlier generation that a rollback returns to
    id: str  # unique: a writer recognises its own generation


def current(registry: Store) -> Aliases | None:
    """The aliases in force, None if nothing was promoted yet; raises `RegistryDamaged`."""
    numbers = _generations(registry)
    return _read(registry, numbers[-1]) if numbers else None


def history(registry: Store, since: int = 0) -> list[Aliases]:
    """The generations after this one, the oldest first; raises `RegistryDamaged`."""
    return [_read(registry, number) for number in _generations(registry) if number > since]


def champions(registry: Store) -> Iterator[Aliases]:
    """Yield the aliases in force (`champion`), then those that each further rollback restores."""
    aliases = champion(registry)
    yield aliases
    while aliases.back_to is not None:
        aliases = _read(registry, aliases.back_to)
        yield aliases


def champion(registry: Store) -> Aliases:
    """The aliases in force; raises as `current`, and `ModelNotFound` if there are none yet."""
    aliases = current(registry)
    if aliases is None:
        raise ModelNotFound(
            f"{registry.place} has no champion yet: stream-icd models import adds a model, "
            "stream-icd models promote makes it the champion"
        )
    return aliases


def promote(
    registry: Store, version: str, reason: str, at: datetime, *, by: str, seen: Aliases | None
) -> Aliases:
    """Make a version the champion, once it has been loaded; the one so far becomes `previous`.

    If the version is the champion already, nothing changes. `seen`: the aliases that this decision
    is based on (`current`). Raises `ChampionChanged` if others are in force by now; `ModelError` if
    the version cannot be loaded; `StoreError`. The old champion stays then.
    """
    open_version(registry, version)  # detectors would refuse a champion that cannot be loaded
    if seen is not None and seen.champion == version:
        now = champion(registry)
        if now.id != seen.id:
            raise _changed(registry, now)
        return now
    back_to, previous = (None, None) if seen is None else (seen.generation, seen.champion)
    number = (back_to or 0) + 1
    unique = uuid.uuid4().hex
    promoted = Aliases(number, version, previous, "promoted", reason, by, at, back_to, unique)
    return _set(registry, promoted)


def roll_back(registry: Store, reason: str, at: datetime, *, by: str, seen: Aliases) -> Aliases:
    """Make `previous` the champion again; the next rollback goes one step further back.

    `seen` and the errors are those of `promote`; also `BadSettings` if there is no previous one.
    """
    if seen.back_to is None:
        raise BadSettings(
            f"{registry.place}: {seen.champion} is the first champion, so there is none to go "
            "back to; promote another version"
        )
    target = _read(registry, seen.back_to)
    open_version(registry, target.champion)
    number, unique = seen.generation + 1, uuid.uuid4().hex
    back = replace(target, generation=number, change="rolled back", id=unique)
    return _set(registry, replace(back, reason=reason, by=by, at=at))


def _set(registry: Store, aliases: Aliases) -> Aliases:
    path, before = _path(aliases.generation), aliases.generation - 1
    if before and not registry.exists(_path(before)):  # it was deleted, or all is gone
        raise _changed(registry, champion(registry))
    if registry.create(path, to_json(aliases, _FORMAT)):
        return aliases
    in_force = _read(registry, aliases.generation)
    if in_force.id == aliases.id:  # an answer of the store was lost, and the request repeated
        return in_force
    raise _changed(registry, champion(registry))


def _changed(registry: Store, now: Aliases) -> ChampionChanged:
    return ChampionChanged(
        f"{registry.place}: {now.champion} became the champion meanwhile ({now.by}, {now.at:%F %T}"
        f" UTC: {now.reason}); nothing was changed. Compare with the new champion, then try again"
    )


def _generations(registry: Store) -> list[int]:
    names = (path.rpartition("/")[2] for path in registry.files(_FOLDER))
    return sorted(int(match[1]) for name in names if (match := _FILE.fullmatch(name)))


def _read(registry: Store, generation: int) -> Aliases:
    path = _path(generation)
    try:
        aliases = read_json(registry, path, Aliases, _FORMAT)
    except FileNotFoundError as error:
        raise RegistryDamaged(f"{registry.place}/{path} is missing") from error
    if aliases.generation != generation:
        raise RegistryDamaged(f"{registry.place}/{path} says generation {aliases.generation}")
    # One that goes back to itself would let `champions` go round for ever.
    if aliases.back_to is not None and not 0 < aliases.back_to < generation:
        raise RegistryDamaged(
            f"{registry.place}/{path} goes back to {aliases.back_to}, which is no earlier "
            "generation"
        )
    return aliases


def _path(generation: int) -> str:
    return f"{_FOLDER}/{generation:08}.json"
