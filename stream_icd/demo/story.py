"""The story of the demonstration: the law of a stream changes, and retraining adapts to it.

Until `change_at`, the nodes form many small communities, which the first champion was trained for.
Then they form larger ones, with more edges between them, and that champion fails. The retrainer
notices it from the edges alone, learns another model, and the detector changes to it.

The producer pauses after `until_learned` snapshots until the detector has the new model. A window
of the stream lasts a minute, and learning takes seconds: on a real stream, no window would pass.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PATIENCE_S = 600.0
"""Time after which the rest of the stream is sent, whether there is a new champion or not."""

LEAST_SNAPSHOTS = 100
"""Shorter streams have no time for the story."""

LEAST_FALL = 15
"""Snapshots after the change before learning: the retrainer needs 11, and one or two to notice."""


@dataclass(frozen=True, slots=True)
class Story:
    """What happens when.

    Attributes:
        folder: folder of the results.
        change_at: number of snapshots before the change of the law.
        first: the first champion, a shipped model.
    """

    folder: Path
    snapshots: int
    nodes: int = 2000
    change_at: int = 40
    first: str = "gn"

    @property
    def registry(self) -> str:
        return str(self.folder / "demo-registry")

    @property
    def history(self) -> str:
        """Place of the retrainer's archive."""
        return str(self.folder / "retraining-history")

    @property
    def until_learned(self) -> int:
        """Number of snapshots that are sent before the retrainer has learned."""
        return self.change_at + LEAST_FALL + 1

    def prepare(self) -> tuple[str, ...]:
        """Remove what an earlier run left; return the command that makes the first champion."""
        for place in (self.registry, self.history):
            shutil.rmtree(place, ignore_errors=True)
        return ("models", "import", self.first, "--registry", self.registry, "--first-champion")

    def producers(self) -> list[tuple[str, ...]]:
        """The commands that send the snapshots before the pause, and the others after it."""
        sizes = ("--sizes", "5-50", "--sizes-after", "10-200", "--mixing-after", "0.55")
        law = ("--nodes", str(self.nodes), "--change-at", str(self.change_at), *sizes)
        limits = (self.until_learned, self.snapshots)
        return [("produce", "lfr", "--limit", str(limit), *law) for limit in limits]

    def detect(self) -> tuple[str, ...]:
        """The model of the detector, as options."""
        return ("--model", "champion", "--registry", self.registry)

    def consumers(self) -> dict[str, tuple[str, ...]]:
        """The commands of archive and retrainer. The archive has no labels: nothing cheats."""
        places = (self.history, "--registry", self.registry)
        return {
            "archive": ("consume", "archive", self.history, "--kind", "snapshots"),
            "retrain": ("consume", "retrain", *places, "--check", "1s"),
        }

    def is_over(self) -> bool:
        """Whether the detector has changed its model, or will not."""
        swapped = count_events(self.folder / "detect.log", "the model changed")
        log = self.folder / "retrain.log"
        return bool(swapped or count_events(log, "kept") or count_events(log, "failed"))

    def told(self) -> Iterator[str]:
        """What the retrainer decided, other than to wait."""
        for entry in read_log(self.folder / "retrain.log"):
            if entry.get("event") in ("promoted", "kept", "confirmed", "rolled back", "failed"):
                yield f"{entry['event']}: {entry['reason']}"


def read_log(path: Path) -> list[dict[str, Any]]:
    """Return the JSON events of a program's log; skip other lines. A missing log is empty."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]


def count_events(path: Path, event: str) -> int:
    """Return how often a log has an event."""
    return sum(entry.get("event") == event for entry in read_log(path))
