"""`stream-icd evaluate`: methods side by side on your own archive."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stream_icd.cli.report import OneGraph
from stream_icd.programs.declared import command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stream_icd.evaluation.windows import Windows

app = typer.Typer()


@command(app, "evaluate")
class Evaluate(OneGraph):
    """Compare methods on the newest windows of an archive, with or without known communities.

    For each method: hidden_edges (how well its communities predict them), modularity, NCut,
    stability from window to window, NMI where communities are known, and processor time. The page
    is written after each window, so you can watch it in a browser. What bp learned from the windows
    before is compared with the model default, with memory. bp and icd are ours;
    bp-memory and icd-memory are the same with memory from window to window. leiden, plm (Louvain)
    and plp (label propagation) need the extra `evaluate`. A method that is not installed, fails or
    exceeds a limit is named in the table.

      stream-icd evaluate --history history/ --methods bp,leiden --windows 50
    """

    methods: Annotated[
        str,
        typer.Option(
            help="Names, separated by commas: of bp, bp-memory, icd, icd-memory, leiden, plm and "
            "plp."
        ),
    ] = "bp,bp-memory,icd,icd-memory,leiden,plm,plp"
    windows: Annotated[int, typer.Option(min=1, help="Newest windows to evaluate.")] = 50
    learn: Annotated[
        int,
        typer.Option(
            min=0, help="Windows just before them that bp and bp-memory learn from, at most."
        ),
    ] = 10
    out: Annotated[Path, typer.Option(help="HTML page to write.")] = Path("evaluation.html")
    csv: Annotated[
        Path | None,
        typer.Option(help="CSV file to write: a row for each method and window."),
    ] = None
    picture: Annotated[
        Path | None, typer.Option(help="File for the picture alone: .png, .svg or .pdf.")
    ] = None
    seconds: Annotated[
        float, typer.Option(help="Limit of processor time, for each method and window.")
    ] = 600
    memory_gb: Annotated[float, typer.Option(help="Limit of memory, for each method.")] = 8
    seed: Annotated[int, typer.Option(min=0, help="Seed of every random choice.")] = 0

    def run(self) -> None:
        from stream_icd.cli.wide_console import wide_console
        from stream_icd.evaluation.evaluate import Result, write_rows
        from stream_icd.evaluation.evaluate import evaluate as results_of
        from stream_icd.evaluation.method import OWN, chosen, methods_in
        from stream_icd.evaluation.windows import learn as learn_before
        from stream_icd.evaluation.windows import learners, open_windows, worth
        from stream_icd.execution.budget import Allowance
        from stream_icd.extras import needs_extra
        from stream_icd.printable import say
        from stream_icd.programs.producer import progress_bar
        from stream_icd.store.store import open_store
        from stream_icd.training.yardstick import verdict

        with needs_extra("evaluate", "matplotlib"):
            from stream_icd.evaluation.page import (
                check_format,
                table_of,
                write_page,
                write_picture,
            )

        if self.picture is not None:
            check_format(self.picture)
        names = [name.strip() for name in self.methods.split(",") if name.strip()]
        names = list(chosen(names, methods_in(OWN)))
        limits = Allowance(self.seconds, int(self.memory_gb * 1e9))
        found = open_windows(
            open_store(self.history), self.graph, self.windows, self.learn, datetime.now(UTC)
        )
        console, results = wide_console(), list[Result]()
        notes = [_learning(found, learners(names), self.learn)]
        say(*notes)
        with progress_bar() as progress:
            task = progress.add_task("learn", total=None)
            learned = learn_before(found, names, limits, self.seed)
            progress.update(task, description="compare what was learned with default")
            if learned.names:
                compared = verdict(worth(found, learned, limits, self.seed))
                said = compared or "not compared: over the limits"
                notes.append(f"What {' and '.join(learned.names)} learned: {said}.")
            progress.update(task, description="windows x methods", total=len(found) * len(names))
            for result in results_of(found, learned, limits, self.seed):
                results.append(result)
                progress.advance(task)
                if len(results) % len(names) == 0:
                    write_page(self.out, found.graph, results, len(found), notes)

        console.print(table_of(results))
        say(*notes[1:])
        if self.csv is not None:
            write_rows(self.csv, results)
        if self.picture is not None:
            write_picture(self.picture, results)
        for path in filter(None, (self.out, self.csv, self.picture)):
            say(f"written: {path}")


def _learning(found: Windows, learners: Sequence[str], learn: int) -> str:
    """How many windows are evaluated, and how many the methods learn from before."""
    said = f"{found.graph}: {len(found)} windows"
    if not learners or not learn:
        return said
    names = " and ".join(learners)
    if found.n_past:
        return f"{said}; {names} learn from the {found.n_past} before them"
    fewer = max(1, len(found) - learn)
    hint = f": --windows {fewer} leaves {len(found) - fewer} to learn from"
    return (
        f"{said}; {names} learn from none, since the archive has none before these"
        f"{hint if len(found) > 1 else ''}"
    )
