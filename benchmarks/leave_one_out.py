"""What learning from other labelled graphs brings to a graph that was left out, after the gate.

    python -m benchmarks.leave_one_out --data FOLDER

FOLDER holds labelled/. Each graph is tested after learning on the others of its group: the class
years of four colleges, their dormitories, and the rest, whose laws have little in common. A quarter
of the others proves whether the encoder is used, as in `stream-icd train` and `consume retrain`. K
is unknown. Writes its section of docs/measured/encoder.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console
from threadpoolctl import threadpool_limits

from benchmarks.shared.commit import measured_at
from benchmarks.shared.graphs.known_graphs import known_graphs
from benchmarks.shared.pages.sections import write_section
from stream_icd.learning.training.icd.fit_edges import Taught
from stream_icd.learning.training.icd.proved_encoder import with_edges
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.icd.recipe import EDGES, Recipe
from stream_icd.methods.model import Model
from stream_icd.methods.quality.agreement import ami, of_known
from stream_icd.registry.find import open_model
from stream_icd.streaming.detection.detect import detect

COLLEGES = "fb100_"

CHANGED = 0.5
"""Points of AMI; a smaller difference is none."""


class Labelled(NamedTuple):
    """A graph with labels, of a group of graphs that can teach each other."""

    group: str
    name: str
    taught: Taught


def main() -> None:
    """Write the section."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder that has labelled/")
    known, default = list(_graphs(parser.parse_args().data)), open_model("default").model
    lines = ["| group | left out | `default` | after learning | | what was chosen |"]
    lines.append("|---|---|---|---|---|---|")
    changes = []
    with threadpool_limits(1):
        for left_out in known:
            others = [
                one.taught for one in known if one.group == left_out.group and one is not left_out
            ]
            edges = Model(Recipe(name="learned", encoder=EDGES), default.bp)
            learned, proof = with_edges(edges, others)
            before, after = (_ami(left_out.taught, model) for model in (default, learned))
            changes.append(after - before)
            lines.append(
                f"| {left_out.group} | {left_out.name} | {before:.1f} | {after:.1f} "
                f"| {after - before:+.1f} | {proof.chosen} |"
            )
            Console().print(lines[-1], markup=False, soft_wrap=True)
    gained, lost = (sum(sign * change > CHANGED for change in changes) for sign in (1, -1))
    lines += ["", f"By more than {CHANGED}: {gained} gained, {lost} lost."]
    write_section("measured/encoder.md", "leave_one_out.py", "\n".join([*lines, measured_at()]))


def _graphs(data: Path) -> Iterator[Labelled]:
    """The labelled graphs; a college comes once for each of its classifications."""
    for graphs in known_graphs(data).values():
        if graphs.name == "AS with countries":  # ten days of one graph
            continue
        (graph,) = graphs.load()
        is_college = graphs.name.startswith(COLLEGES)
        groups = ("dormitories", "class years") if is_college else ("others",)
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
