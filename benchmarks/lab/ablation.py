"""What is each part of ICD worth? The paper's ablation made again, beside the published values.

    python -m benchmarks.lab.ablation --minutes 30 --page

Trains on small graphs; every call goes on where the last one stopped. On graphs of full size it
measures encoders that are not trained. `--page` writes two sections of docs/measured/encoder.md.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice, product
from pathlib import Path
from typing import NamedTuple, get_args

import numpy as np
import torch

from benchmarks.lab.ablated import ABLATIONS, Ablation
from benchmarks.lab.ablation_page import FULL, Cell, Found, full_size_table, trained_table
from benchmarks.lab.ncut_within import ncut_within
from benchmarks.lab.paper.published import without_a_part
from benchmarks.shared.graphs.data_sets import data_sets
from benchmarks.shared.graphs.training_sets import N_TRAINING, TrainingSet, small_sets
from benchmarks.shared.kept import Figures, Kept
from benchmarks.shared.pages.sections import write_section
from benchmarks.shared.training.curves import Curve, prepared_graphs
from benchmarks.shared.training.literal import as_published, literal
from benchmarks.shared.training.planned import Planned, advance
from stream_icd.interfaces.evaluation.evaluate import measure
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.icd.clustering import cluster
from stream_icd.methods.icd.recipe import Variant
from stream_icd.methods.model import Model

VARIANTS: tuple[Variant, ...] = get_args(Variant)

PRESETS = {"GN.3": "GN-0.3", "L(f,.6)": "L(f,0.6)", "L(n,.6)": "L(n,0.6)"}
"""The recipe of each data set of the paper's ablation."""

UNTRAINED = (FULL, "without Feat", "without GNN")
"""The others differ from the full method in training only, so untrained they are the same."""

STEPS, BETWEEN = 2000, 1000

LONGER = {"without FR": 10_000}
"""Steps until an embedding without FR has shrunk."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, train, measure."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", type=Path, default=Path("out/ablation"))
    parser.add_argument("--minutes", type=float, default=30, help="train no longer than this")
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=VARIANTS)
    parser.add_argument("--parts", nargs="+", choices=ABLATIONS, default=list(ABLATIONS))
    parser.add_argument("--graphs", type=int, default=N_TRAINING, help="training graphs a set")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, help="at most so many a curve")
    parser.add_argument("--full-size", type=int, default=5, help="graphs of full size a set")
    parser.add_argument("--page", action="store_true", help="write docs/measured/encoder.md")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    sets = [make() for make in small_sets(None, options.graphs).values()]
    arms = [arm for graphs in sets for arm in _arms(graphs, options)]
    advance([arm.planned for arm in arms], options.minutes)
    full_size = at_full_size(options)
    if options.page:
        published = without_a_part()
        tables = {
            "trained": trained_table(trained_and_not(arms), published),
            "untrained": full_size_table(full_size, published),
        }
        for of, table in tables.items():
            write_section(
                "measured/encoder.md", f"ablation.py {of}", f"\n{table}\n", room="benchmarks/lab"
            )


class Arm(NamedTuple):
    """The training of one ablation from one seed."""

    cell: Cell
    ablation: Ablation
    planned: Planned
    graphs: TrainingSet


def _arms(graphs: TrainingSet, options: argparse.Namespace) -> Iterator[Arm]:
    for variant in options.variants:
        recipe = literal(graphs, variant)
        whole = prepared_graphs(graphs, recipe)
        for parts in options.parts:
            ablation = ABLATIONS[parts]
            pairs = zip(graphs.training, whole, strict=True)
            prepared = [ablation.prepared(graph, one, recipe) for graph, one in pairs]
            steps = min(options.steps or math.inf, LONGER.get(parts, STEPS))
            for seed in range(options.seeds):
                name = f"{variant}/{graphs.name}/{parts}/{seed}"
                chosen, folder = ablation.recipe(recipe, seed), options.folder / name
                curve = Curve(chosen, graphs, folder, find=ablation.find)
                planned = Planned(name, curve, steps, BETWEEN, prepared)
                yield Arm((variant, graphs.name, parts), ablation, planned, graphs)


def trained_and_not(arms: Sequence[Arm]) -> Found:
    """Quality on test graphs after the last step; "untrained": that before the first."""
    found: Found = defaultdict(list)
    for arm in arms:
        model = arm.planned.curve.model()
        after, before = (
            _mean([quality(arm.ablation, one, graph) for graph in arm.graphs.test])
            for one in (model, Model(model.recipe))
        )
        steps = max(arm.planned.curve.steps, 0)  # -1: not begun
        found[arm.cell].append({**after, "untrained": before, "steps": steps})
    return found


def at_full_size(options: argparse.Namespace) -> Found:
    """Quality of untrained encoders on graphs of full size, each graph with weights of its own."""
    kept = Kept(options.folder / "full_size.jsonl")
    found: Found = defaultdict(list)
    for name, variant in product(PRESETS, options.variants):
        recipe = as_published(PRESETS[name], variant)
        graphs = data_sets(Path())[name].test_graphs()
        for seed, one in enumerate(islice(graphs, options.full_size)):
            graph = LabelledGraph(one.adjacency, one.truth)
            model = Model(recipe.changed(seed=seed))
            for parts in ABLATIONS:
                same = parts if parts in UNTRAINED else FULL
                measured = partial(quality, ABLATIONS[same], model, graph)
                figures = kept.of(f"{variant}/{name}/{same}/{seed}", measured)
                found[variant, name, parts].append(figures)
    return found


def quality(ablation: Ablation, model: Model, graph: LabelledGraph) -> Figures:
    """The paper's measures as it prints them, AMI in percent, and the rank of the embedding.

    "rank" is the effective one, (Σ s²)² / Σ s⁴ with s the singular values: 1 if all rows are the
    same, and at most the number of columns.
    """
    embedding = ablation.embed(model, graph.adjacency)
    found = cluster(embedding, graph.n_communities, seed=model.recipe.seed)
    measures = measure(graph.adjacency, found, graph.labels)
    squares = np.linalg.eigvalsh(embedding.T.astype(np.float64) @ embedding)
    return {
        "nmi": 100 * measures.nmi,
        "ac": 100 * measures.ac,
        "ami": 100 * measures.ami,
        "modularity": 100 * measures.modularity,
        "ncut": ncut_within(graph.adjacency, found),
        "rank": float(np.square(squares.sum()) / np.square(squares).sum()),
    }


def _mean(figures: Sequence[Figures]) -> Figures:
    return {name: float(np.mean([figure[name] for figure in figures])) for name in figures[0]}


if __name__ == "__main__":
    main()
