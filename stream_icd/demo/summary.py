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


def evidence_in_words(evidence: Sequence[str]) -> str:
    """Return the number of snapshots by strength of evidence, such as "118 strong, 2 none"."""
    counts = {strength: evidence.count(strength) for strength in ("strong", "weak", "none")}
    return ", ".join(f"{count} {strength}" for strength, count in counts.items() if count)


def totals_table(
    run: DemoRun, agreement: Iterable[float] = (), agreement_alone: Iterable[float] = ()
) -> Table:
    """Nodes, edges, communities, modularity; and NMI if the ground truth is known."""
    table = Table("", title="What was seen", title_justify="left")
    for name in ("median", "least", "most"):
        table.add_column(name, justify="right")
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
    table = Table("stage", title="Milliseconds per snapshot", title_justify="left")
    for name in ("median", "95th percentile"):
        table.add_column(name, justify="right")
    stages = {
        stage: [arrival.result["milliseconds"][stage] for arrival in run.arrivals]
        for stage in STAGES
    }
    stages["publish"] = [arrival.publish_ms for arrival in run.arrivals]
    for stage, times in stages.items():
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
    title = f"The law changes after {change_at} snapshots"
    table = Table("model", title=title, title_justify="left")
    for name in ("snapshots", "NMI with the truth, median", "communities, median"):
        table.add_column(name, justify="right")
    n = len(run.arrivals)
    changes = {at for at in (change_at, *model_changes(run)) if 0 < at < n}
    for first, end in pairwise((0, *sorted(changes), n)):
        counts = [arrival.result["n_communities"] for arrival in run.arrivals[first:end]]
        nmi = f"{np.median(agreement[first:end]):.4f}" if agreement else ""
        model = run.arrivals[first].result["model"]
        table.add_row(model, f"{first}-{end - 1}", nmi, f"{np.median(counts):.0f}")
    return table


def model_changes(run: DemoRun) -> list[int]:
    """Return the position of the first result of each later model."""
    models = [arrival.result["model"] for arrival in run.arrivals]
    return [at for at, (before, after) in enumerate(pairwise(models), 1) if before != after]


def _add(table: Table, name: str, values: list[float], form: str) -> None:
    if values:
        cells = (np.median(values), min(values), max(values))
        table.add_row(name, *(format(value, form) for value in cells))
