"""The commit that figures are measured at."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path


def current_commit() -> str:
    """The commit of this code, shortened."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def measured_at(commits: Iterable[str] = ()) -> str:
    """The line of a page that says at which commits its figures were measured; default: this one.

    >>> measured_at(["abc1234", "def5678", "abc1234"])
    'Measured at commit abc1234, def5678.\\n'
    """
    known = list(dict.fromkeys(commits)) or [current_commit()]
    return f"Measured at commit {', '.join(known)}.\n"
