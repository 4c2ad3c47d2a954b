"""Examples run: those in docstrings, and those that the README shows to programs without Kafka."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

import stream_icd
from tests.test_docs import ROOT, fences

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(stream_icd.__path__, "stream_icd.")
    if not module.name.endswith("__main__")
)
PROGRAMS = [body for body in fences(ROOT / "README.md", "python") if "import ICD" in body]


def test_examples_in_docstrings_give_what_they_show(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    results = [doctest.testmod(importlib.import_module(name)) for name in MODULES]
    assert sum(result.attempted for result in results) > 50
    assert sum(result.failed for result in results) == 0


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.split("\n")[-2])
def test_a_program_in_the_readme_runs(
    program: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(program, "README.md", "exec"), {})
    assert capsys.readouterr().out.strip()


def test_the_readme_has_such_programs() -> None:
    assert len(PROGRAMS) >= 2
