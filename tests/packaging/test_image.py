"""The Dockerfile, what it leaves out of the libraries, and the release of the image."""

from __future__ import annotations

import fnmatch
import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.packaging.test_project_files import PROJECT, ROOT, needed

IMAGE = ROOT / "deploy" / "image"
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")


def instructions(name: str) -> list[list[str]]:
    """Arguments of each instruction of that name in the Dockerfile."""
    return [shlex.split(a) for a in re.findall(rf"^{name} +(.*)$", DOCKERFILE, re.MULTILINE)]


def test_files_copied_into_the_image_exist_and_are_sent_to_the_engine() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    sent = [line.removeprefix("!") for line in ignored if line.startswith("!")]
    assert "*" in ignored
    copied = [c[:-1] for c in instructions("COPY") if not c[0].startswith("--from")]
    assert copied
    for source in (source for sources in copied for source in sources):
        assert (ROOT / source).exists(), source
        assert any(fnmatch.fnmatch(source, pattern) for pattern in sent), source


def test_the_image_runs_our_command_as_nobody_special_and_asks_for_its_health() -> None:
    (python,) = re.findall(r"^ARG PYTHON=(.*)$", DOCKERFILE, re.MULTILINE)
    assert tuple(map(int, python.split("."))) >= (3, 11)
    assert instructions("ENTRYPOINT") == [["[stream-icd]"]]
    (health,) = instructions("HEALTHCHECK")
    assert health[-2:] == ["-m,", "stream_icd.streaming.metrics.probe]"]
    last_stage = DOCKERFILE.split("\nFROM ")[-1]
    (user,) = re.findall(r"^USER (\w+)$", last_stage, re.MULTILINE)
    assert user != "root"
    assert f" {user}" in next(line for line in last_stage.splitlines() if "useradd" in line)


def test_the_image_says_what_it_is_and_a_release_says_from_where() -> None:
    (label,) = instructions("LABEL")
    prefix = "org.opencontainers.image."
    said = dict(one.removeprefix(prefix).split("=", 1) for one in label)
    assert said.keys() >= {"title", "description", "source", "licenses", "version", "revision"}
    assert said["licenses"] == PROJECT["license"]
    by_release = {value.removeprefix("$") for value in said.values() if value.startswith("$")}
    assert by_release == {"VERSION", "REVISION", "SOURCE"}
    assert {a[0].split("=")[0] for a in instructions("ARG")} == {"PYTHON", *by_release}


def release() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The job that releases the image, and its steps."""
    path = ROOT / ".github" / "workflows" / "release.yml"
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert set(workflow[True]) == {"push"}  # YAML 1.1 takes `on` for a yes
    assert set(workflow[True]["push"]) == {"tags"}
    assert workflow["permissions"] == {"contents": "read"}
    (job,) = workflow["jobs"].values()
    return job, job["steps"]


def test_a_release_is_for_both_architectures_and_says_what_is_in_it() -> None:
    job, steps = release()
    assert job["permissions"] == {"contents": "read", "packages": "write"}
    build = steps[-1]["with"]
    assert build["platforms"].split(",") == ["linux/amd64", "linux/arm64"]
    assert (build["push"], build["sbom"], build["provenance"]) == (True, True, "mode=max")
    given = {line.split("=")[0] for line in build["build-args"].splitlines()}
    assert given == {a[0].split("=")[0] for a in instructions("ARG")} - {"PYTHON"}


def test_a_release_is_of_the_version_that_its_tag_names(tmp_path: Path) -> None:
    _, steps = release()
    (check,) = (step["run"] for step in steps if "run" in step)
    exported = tmp_path / "env"
    for version in ("9.9.9", PROJECT["version"]):
        github = {"REF_NAME": f"v{version}", "REPOSITORY": "Owner/Name", "ENV": str(exported)}
        environment = {f"GITHUB_{variable}": value for variable, value in github.items()}
        environment["PATH"] = os.environ["PATH"]
        done = subprocess.run(["bash", "-e", "-c", check], cwd=ROOT, env=environment, check=False)
        assert (done.returncode == 0) == (version != "9.9.9")
    assert exported.read_text() == f"VERSION={PROJECT['version']}\nIMAGE=ghcr.io/owner/name\n"


def test_what_the_image_compiles_at_its_build_is_compiled() -> None:
    (line,) = re.findall(r"^RUN (\[.*\])$", DOCKERFILE.split("\nFROM ")[-1], re.MULTILINE)
    python, *arguments = json.loads(line)
    assert python == "python"
    assert arguments[0] == "-c"
    exec(arguments[1])  # with this checkout's own cache: only whether it runs is asked


def extras_of_the_image() -> set[str]:
    (extras,) = re.findall(r"'\.\[(.*)\]'", DOCKERFILE)
    return set(extras.split(","))


def libraries() -> set[str]:
    """The packages that the image installs."""
    extras = [PROJECT["optional-dependencies"][extra] for extra in extras_of_the_image()]
    return needed([*PROJECT["dependencies"], *(text for texts in extras for text in texts)])


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


def test_programs_find_all_that_they_import(trimmed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the packages of the image, and no others."""
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{trimmed}")
    monkeypatch.setenv("PYTHONNOUSERSITE", "1")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    command = [sys.executable, "-S", str(IMAGE / "compile.py")]
    done = subprocess.run(command, cwd=trimmed.parent, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_the_build_fails_if_something_is_missing_but_not_for_an_extra() -> None:
    load = runpy.run_path(str(IMAGE / "compile.py"))["load"]
    load("no_such_extra.part", [])
    load("sklearn.cluster", ["KMeans"])
    for module, names in (("sklearn.gone", []), ("sklearn", ["gone"])):
        with pytest.raises(ModuleNotFoundError, match=r"sklearn\.gone"):
            load(module, names)
