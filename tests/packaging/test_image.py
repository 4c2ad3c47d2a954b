"""What the image leaves out of its libraries is needed by no program."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from packaging.requirements import Requirement

from stream_icd.interfaces.view.web.access import HEALTH
from tests.testbed.brokers import Broker, free_ports, wait_until

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


def command(trimmed: Path, *arguments: str | Path) -> dict[str, Any]:
    """How to run this Python with the packages of the image, and no others."""
    path = f"{ROOT}{os.pathsep}{trimmed}"
    return {
        "args": [sys.executable, "-S", *map(str, arguments)],
        "env": {**os.environ, "PYTHONPATH": path, "PYTHONNOUSERSITE": "1"},
        "cwd": trimmed.parent,
    }


def run(trimmed: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    how = command(trimmed, *arguments)
    return subprocess.run(**how, capture_output=True, text=True, check=False, timeout=300)


def test_programs_find_all_that_they_import(trimmed: Path) -> None:
    done = run(trimmed, IMAGE / "compile.py")
    assert done.returncode == 0, done.stderr


def test_it_detects_keeps_an_archive_retrains_and_serves_the_page(
    trimmed: Path, embedded: Broker
) -> None:
    (page,) = free_ports(1)
    cli, at = ("-m", "stream_icd.commands.cli"), ("-b", embedded.bootstrap_servers)
    sent = ("produce", "lfr", "--limit", "2", "--nodes", "300", "--graph", "image")
    running = (
        ("consume", "detect", "--graph", "image"),
        ("consume", "archive", "history", "--graph", "image"),
        ("view", "--port", str(page)),
    )
    assert run(trimmed, *cli, *sent, *at).returncode == 0
    with ExitStack() as stack:
        programs = [
            stack.enter_context(started(command(trimmed, *cli, *one, *at))) for one in running
        ]
        received = run(
            trimmed,
            *cli,
            "subscribe",
            "--graph",
            "image",
            "--from",
            "beginning",
            "--limit",
            "2",
            *at,
        )
        assert received.returncode == 0, received.stderr
        wait_until(lambda: list((trimmed.parent / "history").rglob("*.parquet")), 60)
        assert urlopen(f"http://127.0.0.1:{page}{HEALTH}", timeout=30).status == 200
        assert [program.poll() for program in programs] == [None] * 3
    learned = run(trimmed, *cli, "retrain", "history", "--registry", "registry", "--once", *at)
    assert learned.returncode == 0, learned.stderr


@contextmanager
def started(how: dict[str, Any]) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(**how) as program:
        try:
            yield program
        finally:
            program.terminate()


def test_the_build_fails_if_something_is_missing_but_not_for_an_extra() -> None:
    load = runpy.run_path(str(IMAGE / "compile.py"))["load"]
    load("no_such_extra.part", [])
    load("sklearn.cluster", ["KMeans"])
    for module, names in (("sklearn.gone", []), ("sklearn", ["gone"])):
        with pytest.raises(ModuleNotFoundError, match=r"sklearn\.gone"):
            load(module, names)
