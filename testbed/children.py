"""What a process has started, and whether it is still there."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest


def children(pid: int) -> list[int]:
    """Processes that a process has started, by whichever of its threads."""
    tasks = Path(f"/proc/{pid}/task")
    if not tasks.exists():
        pytest.skip("needs /proc to see a process's children: run it on Linux")
    found: list[int] = []
    for task in tasks.iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended
            found += map(int, (task / "children").read_text().split())
    return found


def alive(pid: int) -> bool:
    """Whether it runs: a zombie does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status != "Z"
