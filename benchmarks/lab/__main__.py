"""Run methods on data sets, a cell at a time, and write the page.

    python -m benchmarks.lab --quick
    python -m benchmarks.lab --data FOLDER --graphs 5
    python -m benchmarks.lab --only GN.3 "L(f,.6)" --methods bp leiden prone --graphs 2

Results are kept after each cell; the same command goes on where it was stopped. A method whose
library is missing is skipped, with what to install. Writes docs/measured/lab.md and its picture;
with --quick, only prints.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from rich.console import Console

from benchmarks.lab.measured import measured
from benchmarks.lab.packages import lab_methods
from benchmarks.lab.page import PICTURE, page
from benchmarks.lab.picture import draw
from benchmarks.lab.results import Row, read_rows, write_csv, write_rows
from benchmarks.lab.run import Plan, cells, small_data_sets
from benchmarks.shared.graphs.data_sets import DataSet, data_sets
from stream_icd.interfaces.evaluation.method import chosen
from stream_icd.streaming.execution.budget import Allowance

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "measured" / "lab.md"


def main(arguments: list[str] | None = None) -> None:
    """Parse the command line, run the cells that are left, write the page."""
    options = _options(arguments)
    console = Console()
    rows = read_rows(options.results)
    # What is missing may be installed by now.
    rows = [row for row in rows if row.status != "missing"]
    for row in cells(_plan(options), {row.cell for row in rows}):
        rows.append(row)
        write_rows(options.results, rows)
        told = row.detail or f"{row.seconds:.3f} s, modularity {row.modularity:.3f}"
        console.print(
            f"{row.data_set} {row.graph} {row.method}: {row.status}, {told}", markup=False
        )
    families = [*(one.name for one in small_data_sets()), *data_sets(options.data or Path())]
    rows.sort(key=partial(_position, [*families, *lab_methods()]))
    write_rows(options.results, rows)
    if options.csv:
        write_csv(options.csv, rows)
    if options.quick:
        console.print(page(rows), markup=False, soft_wrap=True)
    else:
        options.page.write_text(page(rows), encoding="utf-8")
        draw(measured(rows), options.page.with_name(PICTURE))


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.lab", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--quick", action="store_true", help="all methods on two small graphs")
    parser.add_argument("--data", type=Path, help="folder of the real data; left out without it")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these data sets only")
    parser.add_argument("--methods", nargs="+", metavar="NAME", help="these methods only")
    parser.add_argument("--graphs", type=int, default=5, help="test graphs a data set")
    parser.add_argument("--training", type=int, default=10, help="graphs to learn from, a data set")
    parser.add_argument("--seconds", type=float, default=1800, help="processor time a run")
    parser.add_argument("--memory", type=float, default=8, help="GB a run")
    parser.add_argument("--results", type=Path, help="Parquet file to go on with")
    parser.add_argument("--csv", type=Path, help="write the rows to this CSV file too")
    parser.add_argument(
        "--page", type=Path, default=PAGE, help="page to write, a picture beside it"
    )
    options = parser.parse_args(arguments)
    options.results = options.results or (
        HERE.parents[1] / "build/lab.parquet" if options.quick else HERE / "results.parquet"
    )
    return options


def _plan(options: argparse.Namespace) -> Plan:
    methods = lab_methods()
    return Plan(
        data_sets=_data_sets(options),
        methods=list(chosen(options.methods or list(methods), methods)),
        graphs=1 if options.quick else options.graphs,
        training=1 if options.quick else options.training,
        limits=Allowance(options.seconds, int(options.memory * 1e9)),
        one_process=options.quick,
    )


def _data_sets(options: argparse.Namespace) -> list[DataSet]:
    if options.quick:
        offered = small_data_sets()
    else:
        known = data_sets(options.data or Path()).values()
        offered = [one for one in known if options.data is not None or one.training_graphs]
    return [one for one in offered if not options.only or one.name in options.only]


def _position(names: list[str], row: Row) -> tuple[int, int, int, int]:
    """Where a row stands: in the order of the data sets and methods, whatever ran first."""
    return names.index(row.data_set), names.index(row.method), row.graph, row.seed


if __name__ == "__main__":
    main()
