"""Summary tables of a run of the demonstration."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
from rich.console import Console
from rich.table import Table

from stream_icd.communities import STAGES
from stream_icd.demo.results import Results
from stream_icd.demo.run import DemoRun
from stream_icd.demo.story import Story


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


def tell(console: Console, run: DemoRun, results: Results, story: Story | None) -> None:
    """Print tables of what was found, what the retrainer did, and what was received."""
    found, alone = results.found, results.alone
    seen = totals_table(run, found.agreement, alone.agreement if alone else ())
    console.print(seen, stages_table(run))
    if story is not None:
        console.print(story_table(run, found.agreement, story.change_at))
        for told in story.told():
            tell_line(console, f"retrainer: {told}")
        models = ("stream-icd", "models", "history", "--registry", story.registry)
        tell_line(console, f"see its models: {shlex.join(models)}")
    if results.incomplete:
        tell_line(
            console,
            f"incomplete at the source: {len(results.incomplete)} snapshots, the first is "
            f"{results.incomplete[0]}; the picture leaves them out",
        )
    tell_received(console, run)


def tell_line(console: Console, text: str) -> None:
    """Print a text as it is, as one line: a terminal breaks it, a file does not."""
    console.print(text, soft_wrap=True, markup=False, highlight=False)


def tell_received(console: Console, run: DemoRun) -> None:
    """Print what was sent, received and refused."""
    received = len(run.arrivals)
    console.print(
        f"sent {run.sent} snapshots, received {received} results in {run.seconds:.1f} s "
        f"({received / run.seconds:.1f} a second); dead letters: {run.dead_letters}",
        soft_wrap=True,
    )


def story_table(run: DemoRun, agreement: Sequence[float], change_at: int) -> Table:
    """Quality before the change of the law, after it, and with each later model."""
    table = Table(title=f"The law changes after {change_at} snapshots", title_justify="left")
    table.add_column("model")
    table.add_column("snapshots", justify="right")
    for name in ("NMI with the truth, median", "communities, median"):
        table.add_column(name, justify="right")
    for first, end in _parts(run, change_at):
        counts = [arrival.result["n_communities"] for arrival in run.arrivals[first:end]]
        nmi = f"{np.median(agreement[first:end]):.4f}" if agreement else ""
        model = run.arrivals[first].result["model"]
        table.add_row(model, f"{first}-{end - 1}", nmi, f"{np.median(counts):.0f}")
    return table


def model_changes(run: DemoRun) -> list[int]:
    """Return the positions of the first results of each later model."""
    models = [arrival.result["model"] for arrival in run.arrivals]
    return [at for at, (before, after) in enumerate(pairwise(models), 1) if before != after]


def _parts(run: DemoRun, change_at: int) -> list[tuple[int, int]]:
    """Beginning and end of each part of the stream with one law and one model."""
    n = len(run.arrivals)
    inner = {at for at in (change_at, *model_changes(run)) if 0 < at < n}
    return list(pairwise((0, *sorted(inner), n)))


def _add(table: Table, name: str, values: list[float], form: str) -> None:
    if values:
        cells = (np.median(values), min(values), max(values))
        table.add_row(name, *(format(value, form) for value in cells))
