"""How many nodes keep the id of their community over a run of damaged windows.

    python -m benchmarks.damaged_runs --data as733.parquet

A run is of days of the Internet that begin with one that lacks most of the nodes of the day before,
until there is a whole one again. Nodes of the last whole day before the run and the first one after
it should have the same id on both. A stream without the days of the run tells what changes anyway.
Writes a table of docs/measured/stream_memory.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.shared.pages.sections import write_section
from stream_icd.core.node_ids import places
from stream_icd.core.snapshot import Snapshot
from stream_icd.methods.memory.detect import Remembered, detect_remembering
from stream_icd.methods.memory.memory import Memory
from stream_icd.methods.model import Model
from stream_icd.registry.find import open_model
from stream_icd.sources.datasets.as_topology import read_as_topology

BEFORE = (10, 20, 30, 40, 50, 60, 90, 120, 150)
"""Whole days before the run that a stream begins with."""

MOST_LEFT, WHOLE = 0.5, 0.9
"""A run begins at most at this fraction of the nodes of the last whole day, and ends at this."""


HEADING = """
run from | days | nodes of its days | nodes with their id | in the worst stream | without the run
--- | --- | --- | --- | --- | ---"""


class Run(NamedTuple):
    """Days of a run, the whole days before it, and the first one after it."""

    before: list[Snapshot]
    days: list[Snapshot]
    after: Snapshot


def runs(days: Iterable[Snapshot]) -> Iterator[Run]:
    """Yield the runs of more than one day."""
    before: list[Snapshot] = []
    run: list[Snapshot] = []
    for day in days:
        if before and day.n_nodes < (WHOLE if run else MOST_LEFT) * before[-1].n_nodes:
            run.append(day)
            continue
        if len(run) > 1:
            yield Run(list(before), run, day)
        run = []
        before.append(day)


def last_of(days: Iterable[Snapshot], model: Model, memory: Memory | None = None) -> Remembered:
    """Detect the days one after the other, and return the result of the last."""
    for day in days:
        found = detect_remembering(day, model, memory)
        memory = found.memory
    return found


def kept(run: Run, before: Remembered, after: Remembered) -> float:
    """Percent of the nodes of both days that have the same id on both."""
    ids, ids_after = (one.community_ids[one.communities] for one in (before, after))
    at = places(run.after.nodes, run.before[-1].nodes)
    return 100 * float((ids[at[at >= 0]] == ids_after[at >= 0]).mean())


def row_of(run: Run, model: Model) -> str:
    """The row of a run."""
    shares = []
    for n_days in BEFORE:
        before = last_of(run.before[-n_days:], model)
        streams = [[*run.days, run.after], [run.after]]
        shares.append(
            [kept(run, before, last_of(stream, model, before.memory)) for stream in streams]
        )
    (mean, alone), least = np.mean(shares, axis=0), np.min(shares, axis=0)[0]
    sizes = [day.n_nodes for day in run.days]
    return (
        f"{run.days[0].window.start:%Y-%m-%d} | {len(sizes)} | {min(sizes):,} to {max(sizes):,} of "
        f"{run.before[-1].n_nodes:,} | {mean:.1f} % | {least:.1f} % | {alone:.1f} %"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="as733.parquet")
    options = parser.parse_args()
    days = [snapshot for snapshot, _ in read_as_topology(options.data).snapshots]
    model = open_model("as").model
    rows = [row_of(run, model) for run in runs(days)]
    table = "\n".join([HEADING, *rows, ""])
    print(table)
    write_section("measured/stream_memory.md", "damaged_runs.py", table)


if __name__ == "__main__":
    main()
