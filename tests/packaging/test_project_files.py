"""Licence, citation, changelog and workflow agree with the project."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import conftest
from tests.testbed.programs import told_missing

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


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


SHARED = "tests.testbed"
"""What tests, benchmarks and lab share."""


@pytest.mark.parametrize(
    ("folder", "others"),
    [
        ("tests", ["benchmarks"]),
        ("tests/testbed", ["tests", "benchmarks"]),
        ("benchmarks", ["tests", "benchmarks.lab"]),
        ("benchmarks/lab", ["tests"]),
    ],
)
def test_tests_benchmarks_and_lab_do_not_import_each_other(folder: str, others: list[str]) -> None:
    """The lab uses the benchmarks' data sets; the benchmarks do not use the lab."""
    for file in (ROOT / folder).rglob("*.py"):
        if folder == "benchmarks" and file.is_relative_to(ROOT / "benchmarks/lab"):
            continue
        imported = {
            name
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
            for name in _modules(node)
            if not f"{name}.".startswith(f"{SHARED}.")
        }
        wrong = [
            name for name in imported for other in others if f"{name}.".startswith(f"{other}.")
        ]
        assert not wrong, f"{file.relative_to(ROOT)} imports {wrong}"


def _modules(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []


def test_each_missing_program_is_said_with_the_way_to_get_it() -> None:
    chromium, promtool = told_missing(None, None)
    assert "tests of the live page are skipped" in chromium
    assert "apt install chromium" in chromium
    assert "apt install prometheus" in promtool
    assert told_missing("/usr/bin/chromium", "/usr/bin/promtool") == []
    assert conftest.pytest_report_header() == told_missing()
