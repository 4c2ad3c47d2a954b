"""Licence, citation, changelog, workflow and constraints agree with the project."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import conftest
from tests.testbed.programs import told_missing

ROOT = Path(__file__).parents[2]
TABLE = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = TABLE["project"]


def read_yaml(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def test_licence_and_version_are_those_that_are_declared() -> None:
    assert read_yaml("CITATION.cff")["version"] == PROJECT["version"]
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert PROJECT["license"] == "Apache-2.0" == read_yaml("CITATION.cff")["license"]
    assert "Apache License" in text
    assert "9. Accepting Warranty or Additional Liability" in text
    assert all((ROOT / file).exists() for file in PROJECT["license-files"])


def test_the_changelog_has_the_headings_of_its_format() -> None:
    lines = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    assert "## [Unreleased]" in lines
    kinds = {line.removeprefix("### ") for line in lines if line.startswith("### ")}
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_the_workflow_runs_what_ci_runs_with_the_python_that_is_supported() -> None:
    jobs = read_yaml(".github/workflows/ci.yml")["jobs"]
    steps = jobs["ci"]["steps"]
    assert steps[-1]["run"] == ".ci/run"
    versions = [step["with"]["python-version"] for step in steps if "setup-python" in str(step)]
    assert [f">={version}" for version in versions] == [PROJECT["requires-python"]]
    versions += jobs["fast"]["strategy"]["matrix"]["python"]
    known = "Programming Language :: Python :: 3."
    assert [f"{known}{one.removeprefix('3.')}" for one in versions] == [
        one for one in PROJECT["classifiers"] if one.startswith(known)
    ]


@pytest.mark.parametrize(
    ("folder", "others"),
    [
        ("tests", ("benchmarks",)),
        ("tests/testbed", ("tests", "benchmarks")),
        ("benchmarks", ("tests", "benchmarks.lab")),
        ("benchmarks/lab", ("tests",)),
    ],
)
def test_tests_and_benchmarks_share_only_the_testbed(folder: str, others: tuple[str, ...]) -> None:
    """The lab uses the benchmarks' data sets; the benchmarks do not use the lab."""
    for file in (ROOT / folder).rglob("*.py"):
        if folder == "benchmarks" and file.is_relative_to(ROOT / "benchmarks/lab"):
            continue
        text = file.read_text(encoding="utf-8")
        for name in re.findall(r"^ *(?:from|import) ([\w.]+)", text, re.MULTILINE):
            is_wrong = f"{name}.".startswith(tuple(f"{other}." for other in others))
            is_shared = f"{name}.".startswith("tests.testbed.") or name == "tests.testbed"
            assert is_shared or not is_wrong, f"{file.relative_to(ROOT)} imports {name}"


def test_each_missing_program_is_said_with_the_way_to_get_it() -> None:
    chromium, promtool = told_missing(None, None)
    assert "tests of the live page are skipped" in chromium
    assert "apt install chromium" in chromium
    assert "apt install prometheus" in promtool
    assert told_missing("/usr/bin/chromium", "/usr/bin/promtool") == []
    assert conftest.pytest_report_header() == told_missing()


def needed(texts: Iterable[str]) -> set[str]:
    """Names of all dependencies, direct and not, that this platform and Python ask for."""
    names: set[str] = set()
    waiting, seen = list(map(Requirement, texts)), set()
    while waiting:
        requirement = waiting.pop()
        wanted = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if wanted in seen or wanted[0] == PROJECT["name"]:
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


def pins() -> dict[str, Requirement]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    parsed = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(pin.name): pin for pin in parsed}


def declared() -> list[str]:
    extras = [line for lines in PROJECT["optional-dependencies"].values() for line in lines]
    return [*PROJECT["dependencies"], *extras, *TABLE["build-system"]["requires"]]


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
    if name != PROJECT["name"]:
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
