"""What is compiled is kept where it can be, and runs where it cannot."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "stream_icd"
PROGRAM = """
from stream_icd.icd import features
from stream_icd.bp import belief_propagation
from stream_icd.bp import level_graph
from stream_icd.bp import modularity
print(modularity.__file__)
"""


def test_without_a_folder_that_can_be_written_detection_works_all_the_same(tmp_path: Path) -> None:
    copy = tmp_path / "stream_icd"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in (copy / "icd", copy / "bp"):
        (folder / "__pycache__").touch()  # a file, so that nobody can make the folder
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
