"""docs/tracking.md, which two benchmarks write: each leaves alone what the other wrote."""

from __future__ import annotations

from pathlib import Path

DOCS = Path(__file__).parents[3] / "docs"
PAGE = DOCS / "tracking.md"
CDLIB = "## Compared with CDlib\n"


def write_findings(text: str, page: Path = PAGE) -> None:
    """All but the comparison with CDlib, which stays as it is at the end."""
    _, comparison = _parts(page)
    page.write_text(_joined(text, comparison), encoding="utf-8")


def write_comparison(text: str, page: Path = PAGE) -> None:
    """The comparison with CDlib, without its heading, at the end of the page."""
    findings, _ = _parts(page)
    page.write_text(_joined(findings, f"{CDLIB}\n{text}"), encoding="utf-8")


def _parts(page: Path) -> tuple[str, str]:
    findings, heading, comparison = page.read_text(encoding="utf-8").partition(CDLIB)
    return findings, heading + comparison


def _joined(*parts: str) -> str:
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"
