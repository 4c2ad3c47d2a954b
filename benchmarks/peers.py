"""Compare the method bp with its peers: quality and time on the same graphs, in turns.

    python -m benchmarks.peers --data FOLDER
    python -m benchmarks.peers --quick
    python -m benchmarks.peers --only GN.3 "L(f,.6)" --graphs 20

Writes docs/measured/peers.md and docs/measured/peers.png, unless other programs used the machine
meanwhile. Choices are made on training graphs,
figures are from test graphs; see `benchmarks.shared.graphs.data_sets`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter
from rich.console import Console

from benchmarks.shared.comparison import Floats, Results, compare, mean_and_error
from benchmarks.shared.graphs.data_sets import DataSet, data_sets
from benchmarks.shared.machine import BY_CLOCK, Machine
from benchmarks.shared.methods.methods import METHODS, STRONGEST_PEER, learned_parameters
from stream_icd.methods.bp.parameters import BpParameters

DOCS = Path(__file__).parent.parent / "docs" / "measured"

INTRODUCTION = f"""# The default method compared with others

For those who ask how good and how fast detection is. Made by `python -m benchmarks.peers --data
FOLDER`.

All methods run on the same test graphs, in turns. All are given the number of communities: the
true one, or Louvain's where the true communities are unknown. The strongest peer,
"{STRONGEST_PEER}", is igraph's Leiden. It runs with two iterations while the resolution is
bisected until it finds that number, and then at that resolution until nothing improves. Its time
includes the search and the last run, but not the construction of igraph's graph.

column | meaning
--- | ---
NMI, AC, Q | agreement with the true communities, accuracy, and modularity, in percent; mean over \
the graphs ± standard error
excess | mean number of communities found beyond the number requested
seconds | median
× strongest peer | seconds divided by those of the strongest peer
gain | mean difference from the strongest peer on the same graph ± standard error, in percentage \
points of NMI, or of Q if the true communities are unknown

Below each table are the parameters that bp learned from training graphs.
"""


def main() -> None:
    """Parse the command line, measure, write the page and the picture."""
    options = _options()
    console = Console()
    machine, pages, results = Machine(BY_CLOCK), [INTRODUCTION], {}
    for data_set in _chosen(options):
        methods = {name: make(data_set, options.training) for name, make in METHODS.items()}
        graphs = islice(data_set.test_graphs(), options.graphs)
        results[data_set.name] = compare(graphs, methods)
        learned = learned_parameters(data_set, options.training)
        page = _page(data_set.name, results[data_set.name], learned)
        pages.append(page)
        console.print(page, markup=False, soft_wrap=True)
    options.docs.mkdir(exist_ok=True)
    picture = "![NMI or modularity against time, one panel per data set](peers.png)"
    text = "\n".join([*pages, picture, "", machine.stamp(), ""])
    (options.docs / "peers.md").write_text(text)
    _draw(results, options.docs / "peers.png")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these data sets only")
    parser.add_argument("--graphs", type=int, default=20, help="test graphs a data set, at most")
    parser.add_argument("--training", type=int, default=10, help="training graphs a data set")
    parser.add_argument("--quick", action="store_true", help="two graphs of everything")
    parser.add_argument("--data", type=Path, help="folder of the real data; left out without it")
    parser.add_argument("--docs", type=Path, default=DOCS, help="folder to write to")
    options = parser.parse_args()
    if options.quick:
        options.graphs = options.training = 2
    return options


def _chosen(options: argparse.Namespace) -> Iterator[DataSet]:
    for name, data_set in data_sets(options.data or Path()).items():
        has_files = options.data is not None or data_set.training_graphs is not None
        if name in options.only if options.only else has_files:
            yield data_set


def _page(name: str, results: Mapping[str, Results], learned: BpParameters) -> str:
    """A data set's table in Markdown."""
    peer = results[STRONGEST_PEER]
    lines = [
        f"## {name}, {len(peer.seconds)} graphs",
        "",
        "| method | NMI | AC | Q | excess | seconds | × strongest peer | gain |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
        *(_row(method, found, peer) for method, found in results.items()),
        "",
        f"bp: `{learned}`",
        "",
    ]
    return "\n".join(lines)


def _row(name: str, results: Results, peer: Results) -> str:
    seconds = np.median(results.seconds)
    cells = [
        name,
        _with_error(results.nmi),
        _with_error(results.accuracy),
        _with_error(results.modularity),
        f"{results.excess.mean():+.2f}",
        f"{seconds:.4f}",
        f"{seconds / np.median(peer.seconds):.2f}",
        _with_error(results.quality - peer.quality, sign="+"),
    ]
    return f"| {' | '.join(cells)} |"


def _with_error(values: Floats | None, sign: str = "") -> str:
    if values is None:
        return ""
    mean, error = mean_and_error(values)
    return f"{mean:{sign}.2f} ± {error:.2f}"


def _draw(results: Mapping[str, Mapping[str, Results]], path: Path) -> None:
    """Quality against time, one panel a data set, one point a method."""
    n_columns = min(len(results), 4)
    n_rows = -(-len(results) // n_columns)
    figure, axes = plt.subplots(
        n_rows, n_columns, figsize=(3.6 * n_columns, 3.1 * n_rows), squeeze=False
    )
    for panel in axes.flat[len(results) :]:
        panel.set_visible(False)
    for panel, (name, found) in zip(axes.flat, results.items(), strict=False):
        _draw_panel(panel, name, found)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _draw_panel(panel: Axes, name: str, results: Mapping[str, Results]) -> None:
    for number, (method, found) in enumerate(results.items()):
        mean, error = mean_and_error(found.quality)
        panel.errorbar(
            1000 * float(np.median(found.seconds)),
            mean,
            error,
            fmt="D" if number == 0 else "o",
            color=f"C{number}",
            label=method,
        )
    panel.set(title=name, xscale="log", xlabel="milliseconds (median)")
    panel.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    panel.xaxis.set_major_formatter("{x:g}")
    panel.xaxis.set_minor_formatter(NullFormatter())
    panel.set_ylabel("NMI, %" if found.nmi is not None else "modularity, %")
    panel.grid(alpha=0.3)


if __name__ == "__main__":
    main()
