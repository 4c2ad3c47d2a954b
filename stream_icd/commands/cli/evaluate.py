"""`stream-icd evaluate`: methods side by side on your own archive."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from stream_icd.commands.programs.declared import command, option
from stream_icd.commands.programs.options import ArchivedGraph, HistoryUri
from stream_icd.core.printable import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stream_icd.interfaces.evaluation.evaluate import Evaluation

app = typer.Typer()


@command(app, "evaluate")
class _Evaluate:
    """Compare methods on the newest windows of an archive, with or without known communities.

    For each method: hidden_edges (how well its communities predict them), modularity, NCut,
    stability from window to window, NMI where communities are known, and processor time. The page
    is written every few seconds, as are --csv and --picture, so you can watch it in a browser. What
    bp learned from the windows before is compared with the model default, with memory. bp and icd
    are ours; bp-memory and icd-memory are the same with memory from window to window. leiden, plm
    (Louvain) and plp (label propagation) need the extra `evaluate`. A method that is not installed,
    fails or exceeds a limit is named in the table.

      stream-icd evaluate --history history/ --methods bp,leiden --windows 50
    """

    history: HistoryUri
    methods: str = option(
        "bp,bp-memory,icd,icd-memory,leiden,plm,plp",
        "Names, separated by commas, of bp, bp-memory, icd, icd-memory, leiden, plm and plp.",
    )
    windows: int = option(50, "Number of newest windows to evaluate.", min=1)
    learn: int = option(
        10, "Maximum number of windows just before these that bp and bp-memory learn from.", min=0
    )
    out: Path = option(Path("evaluation.html"), "HTML page to write.")
    csv: Path | None = option(None, "CSV file to write: a row for each method and window.")
    picture: Path | None = option(None, "File for the picture alone: .png, .svg or .pdf.")
    seconds: float = option(600, "Limit of processor time, for each method and window.")
    memory_gb: float = option(8, "Limit of memory, for each method.", min=0, max=1e6)
    seed: int = option(0, "Seed of every random choice.", min=0)
    graph: ArchivedGraph = None

    def run(self) -> None:
        from stream_icd.commands.programs.process import progress_bar, wide_console
        from stream_icd.core.imports import needs_extra
        from stream_icd.core.store.store import open_store
        from stream_icd.interfaces.evaluation.evaluate import Evaluation, WindowResult
        from stream_icd.interfaces.evaluation.method import OWN, chosen, methods_in
        from stream_icd.learning.training.yardstick import verdict
        from stream_icd.streaming.execution.budget import Allowance

        with needs_extra("evaluate", "matplotlib"):
            from stream_icd.interfaces.evaluation import page

        files = page.EvaluationFiles(self.out, self.csv, self.picture)
        names = [name.strip() for name in self.methods.split(",") if name.strip()]
        methods = chosen(names, methods_in(OWN))
        names = list(methods)
        limits = Allowance(self.seconds, int(self.memory_gb * 1e9))
        evaluation = Evaluation.open(
            open_store(self.history),
            self.graph,
            self.windows,
            self.learn,
            datetime.now(UTC),
            limits,
            self.seed,
        )
        learners = [name for name, method in methods.items() if method.learn is not None]
        console, results = wide_console(), list[WindowResult]()
        notes = [_learning(evaluation, learners, self.learn)]
        say(*notes)

        def write() -> None:
            done = results[: len(results) - len(results) % len(names)]  # of whole windows
            if done:
                files.write(evaluation.graph, done, len(evaluation), notes)

        with progress_bar() as progress:
            task = progress.add_task("learn", total=None)
            models = evaluation.learn(names)
            progress.update(task, description="compare what was learned with default")
            if learned := [name for name, model in models.items() if model.learned is not None]:
                compared = evaluation.worth(models)
                worth = "not compared: over the limits" if compared is None else verdict(compared)
                notes.append(f"What {' and '.join(learned)} learned: {worth}.")
            progress.update(
                task, description="windows x methods", total=len(evaluation) * len(names)
            )
            due = 0.0
            try:
                for result in evaluation.results(models):
                    results.append(result)
                    progress.advance(task)
                    if len(results) % len(names) == 0 and time.monotonic() >= due:
                        write()
                        due = time.monotonic() + page.REFRESH_S
            finally:  # Ctrl-C, too: the windows that were done took minutes
                write()

        console.print(page.table_of(results))
        say(*notes[1:])
        say(*(f"written: {path}" for path in files.paths))
        if all(result.measures is None for result in results):
            say("no method has a result", err=True)
            raise typer.Exit(1)


def _learning(evaluation: Evaluation, learners: Sequence[str], learn: int) -> str:
    n_windows = len(evaluation)
    note = f"{evaluation.graph}: {n_windows} windows"
    if not learners or not learn:
        return note
    who = f"{' and '.join(learners)} {'learns' if len(learners) == 1 else 'learn'}"
    if evaluation.before:
        return f"{note}; {who} from the {len(evaluation.before)} before them"
    note += f"; {who} from none, since the archive has none before these"
    fewer = max(1, n_windows - learn)
    hint = f": --windows {fewer} leaves {n_windows - fewer} to learn from"
    return note + hint if n_windows > 1 else note
