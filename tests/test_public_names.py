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
def test_public_names_can_be_imported_and_others_are_reported(package: ModuleType) -> None:
    for name in package.__all__:
        assert getattr(package, name) is not None
    with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'nme'"):
        _ = package.nme


def test_importing_the_package_imports_none_of_its_modules_and_completes_its_names() -> None:
    program = """
import sys, stream_icd
print(sorted(name for name in sys.modules if name.startswith("stream_icd.")))
import stream_icd.commands.programs as programs, stream_icd.methods.names as names
print([set(package.__all__) - set(dir(package)) for package in (stream_icd, programs, names)])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    modules, missing = done.stdout.splitlines()
    assert modules == "['stream_icd.core', 'stream_icd.core.imports']"
    assert missing == str([set()] * 3)


def test_the_version_is_that_of_the_installed_package() -> None:
    assert stream_icd.__version__ == version("stream-icd")
