"""What the image leaves out of its libraries is needed by no program."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
IMAGE = ROOT / "deploy" / "image"


def extras_of_the_image() -> set[str]:
    found = re.search(r"'\.\[(.*)\]'", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
    assert found is not None
    return set(found[1].split(","))


def libraries() -> set[str]:
    """The packages that the image installs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = extras_of_the_image()
    texts = [*project["dependencies"]]
    texts += [text for extra in extras for text in project["optional-dependencies"][extra]]
    found, waiting = set[str](), [Requirement(text) for text in texts]
    while waiting:
        wanted = waiting.pop()
        extra = {"extra": next(iter(wanted.extras), "")}
        if wanted.name in found or (wanted.marker and not wanted.marker.evaluate(extra)):
            continue
        found.add(wanted.name)
        needs = [Requirement(text) for text in distribution(wanted.name).requires or ()]
        waiting += [
            need
            for need in needs
            if need.marker is None
            or any(need.marker.evaluate({"extra": one}) for one in ("", *wanted.extras))
        ]
    return found


@pytest.fixture(scope="module")
def trimmed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copies of these packages, after `trim.sh`."""
    folder = tmp_path_factory.mktemp("image") / "site-packages"
    for name in ("stream-icd", *libraries()):
        try:
            files = distribution(name).files or ()
        except PackageNotFoundError:
            pytest.skip(f"{name} is needed: pip install '.[{','.join(extras_of_the_image())}]'")
        for file in files:
            if ".." not in file.parts and file.suffix != ".pyc":
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(str(file.locate()), folder / file)
    before = size(folder)
    subprocess.run(["sh", str(IMAGE / "trim.sh"), str(folder)], check=True, timeout=120)
    assert size(folder) < 0.9 * before
    return folder


def size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def test_programs_find_all_that_they_import(trimmed: Path) -> None:
    """With the packages of the image, and no others."""
    done = subprocess.run(
        [sys.executable, "-S", str(IMAGE / "compile.py")],
        env={
            **os.environ,
            "PYTHONPATH": f"{ROOT}{os.pathsep}{trimmed}",
            "PYTHONNOUSERSITE": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        cwd=trimmed.parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr


def test_the_build_fails_if_something_is_missing_but_not_for_an_extra() -> None:
    load = runpy.run_path(str(IMAGE / "compile.py"))["load"]
    load("no_such_extra.part", [])
    load("sklearn.cluster", ["KMeans"])
    for module, names in (("sklearn.gone", []), ("sklearn", ["gone"])):
        with pytest.raises(ModuleNotFoundError, match=r"sklearn\.gone"):
            load(module, names)
