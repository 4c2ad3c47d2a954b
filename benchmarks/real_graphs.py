"""How near communities of single graphs are to known classes, K unknown.

    python -m benchmarks.real_graphs --data FOLDER
    python -m benchmarks.real_graphs --data FOLDER --again ours

FOLDER holds as733.parquet and labelled/. Half of the graphs are for choosing rules, the others are
only reported: `benchmarks/shared/graphs/known_graphs.py` says which. Each method runs with several
seeds. Each figure is kept as soon as it is known, with the commit that it was measured at.
`--again METHOD` measures a method anew, and nothing else; after an interruption, go on with
`--methods METHOD`. Writes a section of docs/measured/detection.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import get_args

import numpy as np
from rich.progress import track
from threadpoolctl import threadpool_limits

from benchmarks.shared.commit import current_commit, measured_at
from benchmarks.shared.graphs.known_graphs import KnownGraphs, known_graphs
from benchmarks.shared.kept import Figures, Kept
from benchmarks.shared.methods import graph_methods
from benchmarks.shared.methods.graph_methods import Find, scores_of
from benchmarks.shared.pages.sections import write_section
from benchmarks.shared.spread import with_spread
from benchmarks.shared.streams.known_streams import Purpose
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_lfr

RESULTS = Path(__file__).parent / "results" / "real_graphs.jsonl"
BEFORE = "default, before"
SEEDS = range(8)
PURPOSES: dict[Purpose, str] = {"choose": "chosen on", "report": "reported"}


def methods() -> dict[str, Find | None]:
    """In the order of the page; None: only the figures of earlier code are left."""
    return {
        BEFORE: None,
        "ours": graph_methods.ours(),
        "grid, least description": graph_methods.shortest_of_the_grid,
        "Leiden": graph_methods.leiden,
        "Leiden, best γ": graph_methods.best_leiden,
        "Infomap": graph_methods.infomap,
    }


def main() -> None:
    """Measure what is not known yet, and write the section."""
    known = methods()
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the real data")
    parser.add_argument("--only", nargs="+", default=[""], metavar="NAME", help="begin of graphs")
    parser.add_argument("--methods", nargs="+", choices=known, default=[], metavar="NAME")
    parser.add_argument("--again", nargs="+", choices=known, default=[], metavar="METHOD")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    figures, names = Kept(options.results), tuple(options.only)
    outdated = {name for name in options.again if known[name]}
    figures.forget(lambda key: key.split(" | ")[1] in outdated and key.startswith(names))
    some = [*options.methods, *options.again] or list(known)
    wanted = {name: known[name] for name in some if known[name]}
    graphs = known_graphs(options.data)
    chosen = [graph for graph in graphs.values() if graph.name.startswith(names)]
    with threadpool_limits(1):
        measure(chosen, wanted, figures)
    text = section(figures.known, graphs, list(known))
    write_section("measured/detection.md", "real_graphs.py", text)


def measure(graphs: list[KnownGraphs], wanted: Mapping[str, Find], figures: Kept) -> None:
    """Measure what is not known; a kind of graphs is loaded once for all methods."""
    commit = current_commit()
    warm_up(wanted)
    for kind in track(graphs, "graphs"):
        missing = [name for name in wanted if key_of(kind.name, name) not in figures.known]
        loaded = kind.load() if missing else []
        for name in missing:
            find = wanted[name]
            of_seeds = np.array(
                [np.mean([scores_of(one, find, seed) for one in loaded], 0) for seed in SEEDS]
            ).round(4)
            agreed, k, seconds = of_seeds[:, 1:].mean(axis=0).round(4).tolist()
            one = {"ami": of_seeds[:, 0].tolist(), "nmi": agreed, "k": k, "seconds": seconds}
            one |= {"commit": commit}
            figures.of(key_of(kind.name, name), lambda one=one: one)


def warm_up(wanted: Mapping[str, Find]) -> None:
    """Run each once, so that none is measured while it compiles."""
    planted = generate_lfr(np.random.default_rng(0), LfrSettings(n_nodes=300, mixing=0.3))
    classes = (planted.communities.astype(np.int64),)
    graph = graph_methods.ClassifiedGraph(planted.adjacency(), classes)
    for find in wanted.values():
        find(graph, 0)


def key_of(graph: str, method: str) -> str:
    """The name of the figures of a method on a graph."""
    return f"{graph} | {method}"


def section(
    known: Mapping[str, Figures], graphs: Mapping[str, KnownGraphs], names: list[str]
) -> str:
    """A row for each graph, and the means of those for choosing and of those reported."""
    rows = [f"| graph | | {' | '.join(names)} |", "|---" * (len(names) + 2) + "|"]
    for purpose in get_args(Purpose):
        kinds = [graph.name for graph in graphs.values() if graph.purpose == purpose]
        for kind in kinds:
            cells = [_cell(known.get(key_of(kind, name))) for name in names]
            rows.append(f"| {kind} | {PURPOSES[purpose]} | {' | '.join(cells)} |")
        rows.append(
            f"| **mean** | {PURPOSES[purpose]} | {' | '.join(_means(known, kinds, names))} |"
        )
    commits = measured_at(one["commit"] for one in known.values())
    return "\n".join([*rows, "", commits])


def _cell(figures: Figures | None) -> str:
    return "" if figures is None else with_spread(figures["ami"])


def _means(known: Mapping[str, Figures], kinds: list[str], names: list[str]) -> Iterator[str]:
    """AMI, and seconds for a graph; of methods that have figures of all these graphs."""
    for name in names:
        of_name = [known[key] for kind in kinds if (key := key_of(kind, name)) in known]
        if len(of_name) < len(kinds):
            yield ""
            continue
        amis = np.mean([one["ami"] for one in of_name], axis=0).tolist()
        yield f"**{with_spread(amis)}** ({np.mean([one['seconds'] for one in of_name]):.3f} s)"


if __name__ == "__main__":
    main()
