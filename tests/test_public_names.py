"""The names that programs import from `stream_icd` and `stream_icd.commands.programs`."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from types import ModuleType

import pytest

import stream_icd
from stream_icd import programs

PACKAGES = [stream_icd, programs]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_each_public_name_can_be_imported(package: ModuleType) -> None:
    for name in package.__all__:
        assert getattr(package, name) is not None


def test_a_notebook_completes_names_before_they_are_imported() -> None:
    for package in ("stream_icd", "stream_icd.commands.programs", "stream_icd.methods.names"):
        program = f"import {package} as p; print(set(p.__all__) - set(dir(p)))"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        assert done.stdout.strip() == "set()"


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_an_unknown_name_is_reported_with_its_package(package: ModuleType) -> None:
    with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'nme'"):
        _ = package.nme


def test_the_version_is_that_of_the_installed_package() -> None:
    assert stream_icd.__version__ == version("stream-icd")


def test_importing_the_package_imports_none_of_its_modules() -> None:
    program = """
import sys, stream_icd
print(sorted(name for name in sys.modules if name.startswith("stream_icd.")))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "['stream_icd.core', 'stream_icd.core.imports']"
