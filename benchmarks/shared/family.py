"""What a program uses: it, and all processes that it started and that still run."""

from __future__ import annotations

import psutil


def family(pid: int) -> list[psutil.Process]:
    """Return a process and all below it."""
    root = psutil.Process(pid)
    return [root, *root.children(recursive=True)]


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a process and of all below it."""
    return sum(float(sum(process.cpu_times()[:2])) for process in family(pid))


def memory_mib(pid: int) -> float:
    """Return the memory of a process and of all below it; a page that several share counts once."""
    return sum(float(process.memory_full_info().pss) for process in family(pid)) / 2**20
