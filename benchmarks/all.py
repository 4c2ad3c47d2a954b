"""Renew the pages about speed and size: what `make bench-all` runs, an hour and a half.

    python -m benchmarks.all --data FOLDER --only startup pipeline

FOLDER holds as733.parquet. Each program runs by itself. Its page gets a line that says commit,
machine and load; if other programs used the machine more than its figures stand, the page stays as
it was, and the exit status is 1 in the end.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.shared.machine import Machine
from benchmarks.shared.pages.sections import DOCS, END

BY_CLOCK, BY_CPU = 0.1, 1.0
"""Cores that other programs may use: a figure by the clock stands hardly any; processor time grows
by a tenth or two beside one that is busy, through the caches that they share."""

MEASURED = "Measured at commit "


@dataclass(frozen=True)
class Page:
    """A page, the program that writes it, and what its figures stand.

    Attributes:
        most_others: cores that other programs may use; None: the program itself looks to it.
        section: the program writes only the section of this name.
    """

    page: str
    program: str
    arguments: Sequence[str]
    most_others: float | None
    section: str | None = None


AS = ("--data", "{data}/as733.parquet")
PAGES = {
    "startup": Page("measured/startup.md", "startup", (), BY_CLOCK),
    "pipeline": Page("measured/pipeline.md", "pipeline", AS, None),
    "forty_lines": Page("measured/forty_lines.md", "forty_lines", AS, None),
    "processes": Page(
        "operating.md",
        "processes",
        (*AS, "--rates", "--keep", "{folder}/runs.jsonl"),
        BY_CLOCK,
        "processes.py",
    ),
    "replay": Page("measured/replay.md", "replay", AS, BY_CLOCK),
    "soak": Page("measured/soak.md", "soak", (*AS, "--out", "{folder}/soak.csv"), BY_CLOCK),
    "steady": Page("measured/steady.md", "steady", ("--data", "{data}"), BY_CPU),
    "growth": Page("measured/growth.md", "growth", (), BY_CPU),
    "footprint": Page(
        "measured/footprint.md", "footprint", ("--keep", "{folder}/kept.jsonl"), None
    ),
    "shapes": Page("measured/shapes.md", "shapes", (), BY_CPU),
    "peers": Page("measured/peers.md", "peers", ("--data", "{data}"), BY_CPU),
}


def renewed(one: Page, data: Path, more: Sequence[str] = ()) -> str | None:
    """Run the program of a page; return why the page stays as it was, None if it is new."""
    path = DOCS / one.page
    before = path.read_text(encoding="utf-8") if path.exists() else None
    machine = Machine()
    with tempfile.TemporaryDirectory() as folder:
        arguments = [part.format(data=data, folder=folder) for part in one.arguments]
        command = [sys.executable, "-m", f"benchmarks.{one.program}", *arguments, *more]
        status = subprocess.run(command, check=False).returncode
    if one.most_others is None:
        return f"exit status {status}" if status else None
    others = machine.others
    if not status and others <= one.most_others:
        text = path.read_text(encoding="utf-8")
        path.write_text(stamped(text, machine.stamp(), one.section), encoding="utf-8")
        return None
    if before is not None:
        path.write_text(before, encoding="utf-8")
    if status:
        return f"exit status {status}"
    return f"other programs used {others:.2f} cores; these figures stand {one.most_others:g}"


def stamped(text: str, stamp: str, section: str | None = None) -> str:
    """Return a page with the stamp at its end, or at the end of a section.

    >>> stamped("# Times\\n\\n3 s\\n", "Commit a.")
    '# Times\\n\\n3 s\\n\\nMeasured at commit a.\\n'
    """
    line = MEASURED + stamp.removeprefix("Commit ")
    if section is None:
        return f"{text.rstrip()}\n\n{line}\n"
    before, begin, rest = text.partition(f"<!-- benchmarks/{section} -->\n")
    inside, end, after = rest.partition(END)
    return f"{before}{begin}{inside.rstrip()}\n\n{line}\n{end}{after}"


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the real data")
    parser.add_argument("--only", nargs="+", choices=PAGES, default=list(PAGES))
    parser.add_argument("--quix-python", help="see benchmarks.forty_lines")
    options = parser.parse_args()
    refused = {}
    for name in options.only:
        quix = name == "forty_lines" and options.quix_python
        more = ("--quix-python", options.quix_python) if quix else ()
        print(f"== {name}", flush=True)
        if why := renewed(PAGES[name], options.data, more):
            refused[name] = why
    for name, why in refused.items():
        print(f"{name}: not written: {why}", file=sys.stderr)
    return int(bool(refused))


if __name__ == "__main__":
    sys.exit(main())
