"""Summary tables of a run of the demonstration."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from rich.table import Table

from stream_icd.communities import STAGES
from stream_icd.demo.run import DemoRun


def stage_milliseconds(run: DemoRun) -> dict[str, list[float]]:
    """Return the milliseconds of every snapshot in each stage, publishing included."""
    stages = {
        stage: [arrival.result["milliseconds"][stage] for arrival in run.arrivals]
        for stage in STAGES
    }
    return {**stages, "publish": [arrival.publish_ms for arrival in run.arrivals]}


def evidence_in_words(evidence: Sequence[str]) -> str:
    """Return the number of snapshots by strength of evidence, such as "118 strong, 2 none"."""
    counts = {strength: evidence.count(strength) for strength in ("strong", "weak", "none")}
    return ", ".join(f"{count} {strength}" for strength, count in counts.items() if count)


def totals_table(
    run: DemoRun, agreement: Iterable[float] = (), agreement_alone: Iterable[float] = ()
) -> Table:
    """Snapshots, nodes, edges, communities, modularity; and NMI if the ground truth is known.

    Args:
        agreement_alone: NMI of each snapshot detected alone, without memory.
    """
    table = Table(title="What was seen", show_header=True, title_justify="left")
    for name in ("", "median", "least", "most"):
        table.add_column(name, justify="left" if not name else "right")
    for name, key, form in (
        ("nodes", "n_nodes", ",.0f"),
        ("edges", "n_edges", ",.0f"),
        ("communities", "n_communities", ",.0f"),
        ("modularity", "modularity", ".4f"),
        ("bits saved per edge", "bits_saved", ".4f"),
    ):
        _add(table, name, [arrival.result[key] for arrival in run.arrivals], form)
    evidence = evidence_in_words([arrival.result["evidence"] for arrival in run.arrivals])
    table.caption = f"evidence for communities: {evidence} (snapshots)"
    table.caption_justify = "left"
    _add(table, "NMI with the truth", list(agreement), ".4f")
    _add(table, "NMI of each snapshot alone", list(agreement_alone), ".4f")
    return table


def stages_table(run: DemoRun) -> Table:
    """Median and 95th percentile of each stage, milliseconds."""
    table = Table(title="Milliseconds per snapshot", title_justify="left")
    table.add_column("stage")
    table.add_column("median", justify="right")
    table.add_column("95th percentile", justify="right")
    for stage, times in stage_milliseconds(run).items():
        if not any(times):
            table.add_row(stage, "not used", "(--method icd does)")
        else:
            table.add_row(stage, f"{np.median(times):,.1f}", f"{np.percentile(times, 95):,.1f}")
    return table


def _add(table: Table, name: str, values: list[float], form: str) -> None:
    if values:
        cells = (np.median(values), min(values), max(values))
        table.add_row(name, *(format(value, form) for value in cells))
