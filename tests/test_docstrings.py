"""Examples in docstrings give what they show."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

import stream_icd

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(stream_icd.__path__, "stream_icd.")
    if not module.name.endswith("__main__")
)


def test_examples_in_docstrings_give_what_they_show(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    results = [doctest.testmod(importlib.import_module(name)) for name in MODULES]
    assert sum(result.attempted for result in results) > 50
    assert sum(result.failed for result in results) == 0
