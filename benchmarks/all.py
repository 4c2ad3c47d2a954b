"""Renew the pages about speed and size: what `make bench-all` runs.

    python -m benchmarks.all --data FOLDER --only startup pipeline

FOLDER holds as733.parquet. Each program writes its page by itself, with commit, machine and load.
If other programs used more of the machine than the figures stand, it leaves the page as it was. The
exit status is 1 if any program failed or left its page.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

AS = ("--data", "{data}/as733.parquet")
PROGRAMS = {
    "startup": (),
    "pipeline": AS,
    "forty_lines": AS,
    "processes": (*AS, "--rates", "--keep", "{folder}/runs.jsonl"),
    "replay": AS,
    "soak": (*AS, "--out", "{folder}/soak.csv"),
    "steady": ("--data", "{data}"),
    "threads": (),
    "growth": (),
    "footprint": ("--keep", "{folder}/kept.jsonl"),
    "shapes": ("--ks", "unknown"),
    "peers": ("--data", "{data}"),
}
"""Programs that write pages, and their arguments."""


def run(program: str, data: Path, more: Sequence[str] = ()) -> int:
    """Run a program; return its exit status."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = [part.format(data=data, folder=folder) for part in PROGRAMS[program]]
        command = [sys.executable, "-m", f"benchmarks.{program}", *arguments, *more]
        return subprocess.run(command, check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the real data")
    parser.add_argument("--only", nargs="+", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--quix-python", help="see benchmarks.forty_lines")
    options = parser.parse_args()
    failed = []
    for program in options.only:
        quix = program == "forty_lines" and options.quix_python
        more = ("--quix-python", options.quix_python) if quix else ()
        print(f"== {program}", flush=True)
        began = time.monotonic()
        if status := run(program, options.data, more):
            failed.append(f"{program}: exit status {status}")
        print(f"== {program}: {(time.monotonic() - began) / 60:.1f} minutes", flush=True)
    print("\n".join(failed), file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
