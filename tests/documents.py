"""The documents, and the blocks of code in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    ROOT / "SECURITY.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "measured").glob("*.md")),
]
FENCE = re.compile(r"^ *```(\w*)[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)


def name(document: Path) -> str:
    return str(document.relative_to(ROOT))


def fences(document: Path, *languages: str) -> Iterator[str]:
    for language, body in FENCE.findall(document.read_text(encoding="utf-8")):
        if language in languages:
            yield body


def shell_lines(document: Path) -> Iterator[str]:
    for body in fences(document, "sh", "bash", "shell", "console"):
        for line in body.replace("\\\n", " ").splitlines():
            yield line.strip().removeprefix("$ ")
