"""constraints.txt pins everything that an installation of the project with all extras brings."""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.packaging.requirements import PROJECT, needed

ROOT = Path(__file__).parents[2]


def pins() -> dict[str, Requirement]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    parsed = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(pin.name): pin for pin in parsed}


def declared() -> list[str]:
    table = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project = table["project"]
    extras = [line for lines in project["optional-dependencies"].values() for line in lines]
    return [*project["dependencies"], *extras, *table["build-system"]["requires"]]


def test_every_dependency_is_pinned_to_a_version_and_nothing_that_nobody_needs() -> None:
    missing = needed(declared()) - set(pins())
    assert not missing, f"add to constraints.txt: {sorted(missing)}"
    stale = {name for name in pins() if _installed(name)} - needed(declared())
    assert not stale, f"remove from constraints.txt: {sorted(stale)}"
    assert all(re.fullmatch(r"==[^*]+", str(pin.specifier)) for pin in pins().values())
    assert "://" not in (ROOT / "constraints.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("requirement", list(map(Requirement, declared())), ids=str)
def test_pinned_versions_are_ones_that_the_project_accepts(requirement: Requirement) -> None:
    name = canonicalize_name(requirement.name)
    if name != PROJECT:
        (pin,) = pins()[name].specifier
        assert requirement.specifier.contains(pin.version)


@pytest.mark.skipif(
    Path(sys.prefix) != ROOT / ".venv",
    reason="run `make test`: this environment was not made from constraints.txt",
)
def test_what_is_installed_here_is_what_is_pinned() -> None:
    installed = {name: pin for name, pin in pins().items() if _installed(name)}
    others = {n: version(n) for n, p in installed.items() if not p.specifier.contains(version(n))}
    assert not others


def _installed(name: str) -> bool:
    try:
        return bool(version(name))
    except PackageNotFoundError:
        return False
