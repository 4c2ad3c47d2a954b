"""On what the figures were taken: the machine, and the versions of the libraries."""

from __future__ import annotations

import os
import platform
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

LIBRARIES = (
    "stream-icd",
    "numpy",
    "scipy",
    "scikit-learn",
    "numba",
    "torch",
    "igraph",
    "networkit",
    "graspologic-native",
    "gensim",
)


def versions() -> dict[str, str]:
    """Version of each library that is installed, and of Python."""
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def machine() -> str:
    """The processor, its number of cores, and the system."""
    return f"{_processor()}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}"


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or "unknown processor"
    match = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return match[1] if match else platform.machine()
