"""Figures that are kept as soon as they are known, so that a program that was ended goes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Figures = dict[str, Any]


class Kept:
    """Figures by name, in a file of JSON lines; what is there is not measured again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self.known: dict[str, Figures] = dict(json.loads(line) for line in lines)

    def of(self, name: str, measure: Callable[[], Figures]) -> Figures:
        """Return the figures of this name; measure and keep them if they are not known."""
        if name not in self.known:
            self.known[name] = measure()
            self._path.parent.mkdir(parents=True, exist_ok=True)
            print(name, json.dumps(self.known[name])[:160], flush=True)
            with self._path.open("a") as file:
                file.write(json.dumps([name, self.known[name]]) + "\n")
        return self.known[name]

    def forget(self, is_outdated: Callable[[str], bool]) -> None:
        """Drop the figures with such names, so that they are measured again."""
        kept = {name: one for name, one in self.known.items() if not is_outdated(name)}
        if len(kept) < len(self.known):
            self.known = kept
            lines = [json.dumps([name, one]) + "\n" for name, one in kept.items()]
            self._path.write_text("".join(lines))
