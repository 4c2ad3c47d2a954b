"""What is compiled is kept where it can be, and runs where it cannot."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[3] / "stream_icd"
PROGRAM = """
from stream_icd.methods.icd import features
print(features.__file__)
"""


def test_without_a_folder_that_can_be_written_detection_works_all_the_same(tmp_path: Path) -> None:
    copy = tmp_path / "stream_icd"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "methods" / "icd" / "__pycache__").touch()  # a file: nobody can make the folder
    nowhere = {"HOME": os.devnull, "XDG_CACHE_HOME": os.devnull, "PYTHONPATH": str(tmp_path)}
    environment = {**os.environ, **nowhere, "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("NUMBA_CACHE_DIR", None)
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert Path(run.stdout.strip()).is_relative_to(copy)


LOOP = """
from stream_icd.core.compiled import compiled

@compiled()
def add(one, other):
    return one + other
"""
DAMAGED = {"index_empty": b"", "data_zeros": b"\0" * 100}
LOOPS = ("loop", *DAMAGED)
CALL = f"""
import logging
logging.basicConfig()
for name in {LOOPS}:
    print(__import__(name).add(1, 2))
"""


def call(folder: Path, before: str = "") -> subprocess.CompletedProcess[str]:
    for name in LOOPS:
        (folder / f"{name}.py").write_text(LOOP)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(folder), str(PACKAGE.parent))),
        "NUMBA_CACHE_DIR": str(folder / "cache"),
    }
    command = [sys.executable, "-c", f"{before}\n{CALL}"]
    return subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, check=False
    )


def test_a_damaged_file_is_compiled_anew(tmp_path: Path) -> None:
    assert call(tmp_path).stderr == ""
    for name, content in DAMAGED.items():
        suffix = "nbi" if name.startswith("index") else "nbc"
        (file,) = (tmp_path / "cache").rglob(f"{name}.*.{suffix}")
        file.write_bytes(content)
    run = call(tmp_path)
    assert run.stdout == "3\n" * len(LOOPS), run.stderr
    assert run.stderr.count("compiled anew") == 2
    again = call(tmp_path)
    assert (again.stdout, again.stderr) == ("3\n" * len(LOOPS), "")


def test_on_a_full_disk_what_is_compiled_runs_all_the_same(tmp_path: Path) -> None:
    full = (
        "import errno, os\n"
        "def full(*_): raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))\n"
        "os.replace = full"
    )
    run = call(tmp_path, full)
    assert run.stdout == "3\n" * len(LOOPS), run.stderr
    assert f"{tmp_path / 'cache'}" in run.stderr
    assert "No space left on device; NUMBA_CACHE_DIR names another folder" in run.stderr
