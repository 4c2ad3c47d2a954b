"""The logs of the demonstration's programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def read_log(path: Path) -> list[dict[str, Any]]:
    """Return the JSON events of a program's log; skip other lines. A missing log is empty."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]


def count_events(path: Path, event: str) -> int:
    """Return how often a log has an event."""
    return sum(entry.get("event") == event for entry in read_log(path))
