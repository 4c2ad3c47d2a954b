"""What a replay says before it begins, and how two versions are shown side by side."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from math import isnan

from rich.table import Table
from rich.text import Text

from stream_icd.printable import printable
from stream_icd.replay.compare import Comparison, Version
from stream_icd.replay.pacing import Tempo
from stream_icd.replay.replay import Plan


def plan_lines(plan: Plan, version: str, where: str, tempo: Tempo) -> Iterator[str]:
    """What will be detected, with what, where it goes, and how long it takes at the least."""
    for graph, count in sorted(plan.graphs.items()):
        yield f"{count:,} snapshots of {graph}"
    if plan.first is not None:
        yield f"windows that end from {plan.first:%Y-%m-%d %X} to {plan.last:%Y-%m-%d %X} UTC"
    yield f"to be detected with {version}, results to {where}"
    if plan.remembers and (earlier := len(plan.earlier)):
        yield f"{earlier:,} earlier snapshots are detected first, for the memory of them"
    if plan.already:
        yield f"{plan.already:,} results are there already and stay as they are"
    if seconds := plan.seconds(tempo):
        yield f"takes {timedelta(seconds=round(seconds))} at the least"


def qualities_table(found: Comparison) -> Table:
    """A line a version."""
    table = Table("graph", "model", "when", title="quality, means over the windows", box=None)
    numbers = "windows", "communities", "modularity", "NCut", "churn", "horizon", "predicted"
    for name in numbers:
        table.add_column(name, justify="right")
    for one in found.qualities:
        table.add_row(
            *(Text(printable(part)) for part in one.version),
            f"{one.windows:,}",
            f"{one.communities:.1f}",
            f"{one.modularity:.4f}",
            f"{one.ncut:.3f}",
            f"{one.churn:.4f}",
            "-" if isnan(one.horizon) else f"{one.horizon:.1f}",
            "-" if isnan(one.predicted_bits) else f"{one.predicted_bits:.3f}",
        )
    return table


def agreements_table(found: Comparison) -> Table:
    """A line a pair of versions."""
    table = Table("before", "replayed", title="agreement of versions", box=None)
    for name in ("windows", "the same", "NMI", "least NMI", "at"):
        table.add_column(name, justify="right")
    for one in found.agreements:
        table.add_row(
            Text(_named(one.before)),
            Text(_named(one.replayed)),
            f"{one.windows:,}",
            f"{one.same:,}",
            f"{one.nmi:.4f}",
            f"{one.least_nmi:.4f}",
            Text(printable(one.least_at)),
        )
    return table


def _named(version: Version) -> str:
    return printable(f"{version[0]} {version[1]}")
