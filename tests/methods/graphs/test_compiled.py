"""Compiled loops: kept where they can be, run where they cannot, and given unsigned indices."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba.core.errors import TypingError
from numpy.typing import NDArray

from stream_icd.core.arrays import Labels
from stream_icd.core.compiled import compiled, prefetch, unsigned

PACKAGE = Path(__file__).parents[3] / "stream_icd"


def run(
    program: str, folder: Path, *path: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    imported = {"PYTHONPATH": os.pathsep.join(map(str, path))}
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **imported, **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_a_folder_that_can_be_written_detection_works_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    copy = tmp_path / "stream_icd"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "methods" / "icd" / "__pycache__").touch()  # a file: nobody can make the folder
    nowhere = {"HOME": os.devnull, "XDG_CACHE_HOME": os.devnull, "PYTHONDONTWRITEBYTECODE": "1"}
    program = "from stream_icd.methods.icd import features; print(features.__file__)"
    done = run(program, tmp_path, tmp_path, **nowhere)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_relative_to(copy)


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
    cache = str(folder / "cache")
    return run(f"{before}\n{CALL}", folder, folder, PACKAGE.parent, NUMBA_CACHE_DIR=cache)


def test_a_damaged_file_is_compiled_anew(tmp_path: Path) -> None:
    assert call(tmp_path).stderr == ""
    for name, content in DAMAGED.items():
        suffix = "nbi" if name.startswith("index") else "nbc"
        (file,) = (tmp_path / "cache").rglob(f"{name}.*.{suffix}")
        file.write_bytes(content)
    done = call(tmp_path)
    assert done.stdout == "3\n" * len(LOOPS), done.stderr
    assert done.stderr.count("compiled anew") == 2
    again = call(tmp_path)
    assert (again.stdout, again.stderr) == ("3\n" * len(LOOPS), "")


def test_on_a_full_disk_what_is_compiled_runs_all_the_same(tmp_path: Path) -> None:
    full = (
        "import errno, os\n"
        "def full(*_): raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))\n"
        "os.replace = full"
    )
    done = call(tmp_path, full)
    assert done.stdout == "3\n" * len(LOOPS), done.stderr
    assert f"{tmp_path / 'cache'}" in done.stderr
    assert "No space left on device; NUMBA_CACHE_DIR names another folder" in done.stderr


@compiled()
def _sum_of_first(array: NDArray[np.float64], asked: NDArray[np.int64]) -> float:
    total = 0.0
    for index in asked:
        prefetch(array, index)
    for row in array:
        total += row[0]
    return total


@pytest.mark.parametrize("index", [0, 2, 3, -1, 2**40, -(2**40)])
def test_a_loop_may_ask_for_what_is_not_there(index: int) -> None:
    array = np.arange(6.0).reshape(3, 2)
    assert _sum_of_first(array, np.array([index])) == 6.0
    assert _sum_of_first(array[::2], np.array([index])) == 4.0


@compiled()
def _last(numbers: Labels) -> int:
    return int(unsigned(numbers)[len(numbers) - 1])


def test_numbers_stay_the_same_in_a_loop_and_outside() -> None:
    numbers = np.array([0, 2**31 - 1], np.int32)
    assert _last(numbers) == 2**31 - 1
    assert _last(np.repeat(numbers, 2)[::3]) == 2**31 - 1
    assert unsigned(numbers).tolist() == numbers.tolist()
    with pytest.raises(TypingError, match="unsigned"):  # numbers of 64 bits are no pairs of 32
        _last(np.array([1, 2]))  # type: ignore[arg-type]
