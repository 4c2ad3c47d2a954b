"""The commit that figures are measured at."""

from __future__ import annotations

import subprocess
from pathlib import Path


def current_commit() -> str:
    """The commit of this code, shortened."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
