"""Compiled loops: kept where they can be, run where they cannot, and not cut short by Ctrl-C."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from numba.core import event
from numba.core.errors import TypingError
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream_icd.core import compiled as compiling
from stream_icd.core.arrays import Labels
from stream_icd.core.compiled import compiled, prefetch, uninterrupted, unsigned
from stream_icd.methods.bp import evidence, find, modularity
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.memory import detect
from stream_icd.methods.model import Model
from tests.fixtures.stream import cliques
from tests.testbed.drifting import RECIPE

PACKAGE = Path(__file__).parents[2] / "stream_icd"


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


def test_detection_needs_no_folder_to_write(
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


def test_a_loop_may_ask_for_what_is_not_there() -> None:
    array, asked = np.arange(6.0).reshape(3, 2), np.array([0, 2, 3, -1, 2**40, -(2**40)])
    assert _sum_of_first(array, asked) == 6.0
    assert _sum_of_first(array[::2], asked) == 4.0


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


TWO = csr_array(np.kron(np.eye(2), np.ones((4, 4)) - np.eye(4)))


def press() -> None:
    signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize(
    ("module", "inside", "call"),
    [
        (find, "comparable", lambda: find.find_communities(TWO, BpParameters())),
        (modularity, "comparable", lambda: modularity.estimate_n_communities(TWO)),
        (evidence, "among", lambda: evidence.evidence_for(TWO, np.arange(8) // 4)),
        (detect, "rows_of", lambda: detect.detect_remembering(cliques(0), Model(RECIPE))),
    ],
)
def test_an_interrupt_waits_for_the_communities(
    monkeypatch: pytest.MonkeyPatch, module: Any, inside: str, call: Callable[[], Any]
) -> None:
    done, before = [], getattr(module, inside)

    def interrupted(*arguments: Any, **options: Any) -> Any:
        press()
        done.append(before(*arguments, **options))
        return done[-1]

    monkeypatch.setattr(module, inside, interrupted)
    with pytest.raises(KeyboardInterrupt):
        call()
    assert len(done) == 1
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_interrupt_does_not_wait() -> None:
    steps = []

    @uninterrupted()
    def pressed_twice() -> None:
        press()
        steps.append("first")
        press()
        steps.append("second")

    with pytest.raises(KeyboardInterrupt):
        pressed_twice()
    assert steps == ["first"]


def test_blocks_may_be_nested_and_other_threads_are_left_alone() -> None:
    handlers = []

    def elsewhere() -> None:
        with uninterrupted():
            handlers.append(signal.getsignal(signal.SIGINT))

    with uninterrupted():
        with uninterrupted():
            pass
        own = signal.getsignal(signal.SIGINT)
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert handlers == [own] != [signal.default_int_handler]


def test_it_is_said_once_that_loops_are_compiled(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    event.register("numba:compile", listener := compiling._SaysThatItCompiles())
    for module in ("another", "stream_icd.one", "stream_icd.two"):

        def loop(x: int) -> int:
            return x + 1

        loop.__module__ = module
        caplog.clear()
        quick: Any = numba.njit(loop)
        assert quick(1) == 2
        assert bool(caplog.records) == (module == "stream_icd.one")
    event.unregister("numba:compile", listener)
