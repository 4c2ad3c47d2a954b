"""Pages of docs/ of which programs write a part: what is between two marks of theirs."""

from __future__ import annotations

from pathlib import Path

DOCS = Path(__file__).parents[3] / "docs"
MEASURED = DOCS / "measured"
END = "<!-- end -->"


def write_section(page: str, program: str, text: str, room: str = "benchmarks") -> None:
    """Put `text` into docs/`page`, from `<!-- ROOM/PROGRAM -->` to the next `END`."""
    path = DOCS / page
    before, begin, rest = path.read_text().partition(f"<!-- {room}/{program} -->\n")
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"{path} has no section of {program}")
    path.write_text(before + begin + text + end + after)


def read_section(page: str, program: str) -> str:
    """What `write_section` put there last."""
    _, _, rest = (DOCS / page).read_text().partition(f"<!-- benchmarks/{program} -->\n")
    return rest.partition(END)[0]
