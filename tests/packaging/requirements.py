"""What requirements bring with them, as far as it is installed here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, requires

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = "stream-icd"


def needed(texts: Iterable[str]) -> set[str]:
    """Names of all dependencies, direct and not, that this platform and Python ask for."""
    names: set[str] = set()
    waiting, seen = list(map(Requirement, texts)), set()
    while waiting:
        requirement = waiting.pop()
        wanted = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if wanted in seen or wanted[0] == PROJECT:
            continue
        seen.add(wanted)
        names.add(wanted[0])
        waiting.extend(_requirements_of(requirement))
    return names


def _requirements_of(requirement: Requirement) -> Iterator[Requirement]:
    try:
        lines = requires(requirement.name) or []
    except PackageNotFoundError:  # an extra that is not installed here
        return
    for line in lines:
        further = Requirement(line)
        marker = further.marker
        extras = ("", *requirement.extras)
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras):
            yield further
