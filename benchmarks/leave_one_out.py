"""What learning from other labelled graphs brings to a graph that was left out, after the gate.

    python -m benchmarks.leave_one_out --data FOLDER

FOLDER holds labelled/. Each graph is tested after learning on the others of its group: the class
years of four colleges, their dormitories, and the rest, whose laws have little in common. The
others prove whether the encoder is used, as in `stream-icd train`. K is unknown. Writes the
sections in docs/measured/encoder.md. The last group takes an hour.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console
from threadpoolctl import threadpool_limits

from benchmarks.shared.commit import measured_at
from benchmarks.shared.graphs.known_graphs import known_graphs
from benchmarks.shared.pages.sections import write_section
from stream_icd.learning.training.icd.proved_encoder import with_edges
from stream_icd.learning.training.icd.taught import Taught
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.icd.recipe import EDGES, Recipe
from stream_icd.methods.model import Model
from stream_icd.methods.quality.agreement import ami, of_known
from stream_icd.registry.find import open_model
from stream_icd.streaming.detection.detect import detect

COLLEGES = "fb100_"

COLLEGE_GROUPS = ("dormitories", "class years")
GROUPS = (*COLLEGE_GROUPS, "others")

CHANGED = 0.5
"""Points of AMI; a smaller difference is none."""


class Labelled(NamedTuple):
    """A graph with labels, of a group of graphs that can teach each other."""

    group: str
    name: str
    taught: Taught


def main() -> None:
    """Measure the groups, and write their sections."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder that has labelled/")
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=COLLEGE_GROUPS)
    options = parser.parse_args()
    known = list(_graphs(options.data))
    for group in options.only:
        with threadpool_limits(1):
            table = _table([one for one in known if one.group == group])
        write_section("measured/encoder.md", f"leave_one_out.py {group}", table + measured_at())


def _table(group: Sequence[Labelled]) -> str:
    default = open_model("default").model
    lines = [
        "| left out | `default` | after learning | | what was chosen |",
        "|---|---|---|---|---|",
    ]
    changes = []
    for left_out in group:
        others = [one.taught for one in group if one is not left_out]
        edges = Model(Recipe(name="learned", encoder=EDGES), default.bp)
        learned, proof = with_edges(edges, others)
        before, after = (_ami(left_out.taught, model) for model in (default, learned))
        changes.append(after - before)
        scores = f"{before:.1f} | {after:.1f} | {after - before:+.1f}"
        lines.append(f"| {left_out.name} | {scores} | {proof.chosen} |")
        Console().print(lines[-1], markup=False, soft_wrap=True)
    gained, lost = (sum(sign * change > CHANGED for change in changes) for sign in (1, -1))
    lines += ["", f"Gained by more than {CHANGED}: {gained}; lost: {lost}. "]
    return "\n".join(lines)


def _graphs(data: Path) -> Iterator[Labelled]:
    """The labelled graphs; a college comes once for each of its classifications."""
    for graphs in known_graphs(data).values():
        if graphs.name == "AS with countries":  # ten days of one graph
            continue
        (graph,) = graphs.load()
        is_college = graphs.name.startswith(COLLEGES)
        groups = COLLEGE_GROUPS if is_college else ("others",)
        for group, classes in zip(groups, graph.classifications, strict=True):
            labels = np.maximum(classes, -1).astype(np.int32)
            yield Labelled(
                group,
                graphs.name.removeprefix(COLLEGES),
                Taught(LabelledGraph(graph.adjacency), labels, "labels"),
            )


def _ami(one: Taught, model: Model) -> float:
    found = detect(one.graph.adjacency, model, None, threads=1).communities
    return 100 * ami(*of_known(one.labels, found))


if __name__ == "__main__":
    main()
