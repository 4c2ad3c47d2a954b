"""Does training the encoder help? Quality over steps, beside the untrained encoder.

    python -m benchmarks.encoder_training --data FOLDER --minutes 40
    python -m benchmarks.encoder_training --full-size --device cuda --minutes 40

The first trains on small graphs, the second on the paper's, of 5,000 nodes; that takes a GPU. Every
call goes on where the last one stopped. With `--page`, it writes its section of
docs/measured/encoder.md and the picture beside it from the points so far.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from benchmarks.shared.commit import measured_at
from benchmarks.shared.graphs.training_sets import (
    N_TRAINING,
    SETS,
    TrainingSet,
    full_sets,
    small_sets,
)
from benchmarks.shared.pages.encoder_page import Curves, draw_curves, encoder_table
from benchmarks.shared.pages.sections import MEASURED, write_section
from benchmarks.shared.training.curves import Curve, prepared_graphs, read_points
from benchmarks.shared.training.literal import literal
from benchmarks.shared.training.planned import Planned, advance
from stream_icd.methods.icd.encoder.contract import Weights
from stream_icd.methods.icd.recipe import Recipe

HOPS_RATE = 0.01
"""Learning rate of the encoder hops: it has 11 numbers, and the paper has no rate for them."""


def ncut(graphs: TrainingSet) -> Recipe:
    """The paper's for the normalised cut: features, losses and settings of ICD-C."""
    return literal(graphs, "ICD-C")


def orthogonal(graphs: TrainingSet) -> Recipe:
    """The same from orthogonal weights."""
    return literal(graphs).changed(encoder={"initialisation": "orthogonal"})


def equivariant(graphs: TrainingSet) -> Recipe:
    """The same losses and data for the encoder hops."""
    return literal(graphs).changed(encoder={"kind": "hops"}, optimiser={"learning_rate": HOPS_RATE})


def equal_hops(seed: int) -> Weights:
    """A start for the encoder hops that says nothing: all hops about equal, D^-½ A D^-½."""
    rng = np.random.default_rng(seed)
    hops = np.full(8, 1 / 8) + rng.uniform(-0.05, 0.05, 8)
    exponents = np.array([0.5, 0.5, 0]) + rng.uniform(-0.05, 0.05, 3)
    return {"hops": hops.astype(np.float32), "exponents": exponents.astype(np.float32)}


class Arm(NamedTuple):
    """One encoder to train: its recipe on a set, how long, and how many steps between points."""

    recipe: Callable[[TrainingSet], Recipe]
    steps: int
    between: int
    start: Callable[[int], Weights | None] = lambda _seed: None


ENCODERS = {
    "gcn": Arm(literal, 20_000, 1000),
    "gcn, orthogonal start": Arm(orthogonal, 3000, 500),
    "hops": Arm(equivariant, 300, 50, equal_hops),
    "hops, chosen start": Arm(equivariant, 300, 50),
}

SHORTER = {
    ("AS", "gcn"): 6000,
    ("AS, shuffled", "gcn"): 2000,
    ("AS", "gcn, orthogonal start"): 1000,
    ("AS, shuffled", "gcn, orthogonal start"): 1000,
}
"""Curves that end earlier."""

FULL_SIZE = {
    "gcn, ICD-M": Arm(literal, 100_000, 2000),
    "gcn, ICD-C": Arm(ncut, 100_000, 2000),
    "gcn, ICD-M, orthogonal start": Arm(orthogonal, 100_000, 2000),
}
"""Encoders at full size, for as many steps as in the paper."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, train."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="folder of as733.parquet; without it, no AS")
    parser.add_argument("--full-size", action="store_true", help="the paper's graphs and widths")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--folder", type=Path, help="of the points; in out/ by default")
    parser.add_argument("--minutes", type=float, default=40, help="stop after these")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="train on these sets only")
    parser.add_argument("--graphs", type=int, default=N_TRAINING, help="training graphs a set")
    parser.add_argument("--page", action="store_true", help="write docs/measured/encoder.md")
    encoders = [*ENCODERS, *FULL_SIZE]
    parser.add_argument("--encoders", nargs="+", choices=encoders, help="train these only")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--steps", type=int, help="at most so many a curve")
    options = parser.parse_args(arguments)
    section = "full_size" if options.full_size else "encoder_training"
    options.folder = options.folder or Path("out") / section
    torch.set_num_threads(1)
    if options.device == "cuda":
        torch.set_float32_matmul_precision("high")  # TF32: as a user of a GPU would
    train(options)
    if options.page:
        curves = finished(options)
        text = f"\n{encoder_table(curves)}\n{measured_at()}"
        program = "encoder_training.py --full-size" if options.full_size else "encoder_training.py"
        write_section("measured/encoder.md", program, text)
        draw_curves(curves, MEASURED / ("encoder_full.png" if options.full_size else "encoder.png"))


def train(options: argparse.Namespace) -> None:
    """Train each encoder on each set, until all are done or the time is up."""
    if options.full_size:
        sets = full_sets(options.graphs)
    else:
        sets = small_sets(options.data, options.graphs)
    curves = [
        planned
        for name, make in sets.items()
        if not options.only or name in options.only
        for planned in _planned(make(), options)
    ]
    advance(curves, options.minutes)


def finished(options: argparse.Namespace) -> Curves:
    """The points in the folder, in the order of the sets and the encoders."""
    found = {
        (name, encoder): [
            points
            for seed in options.seeds
            if (points := read_points(options.folder / name / encoder / str(seed)))
        ]
        for encoder in _encoders(options)
        for name in SETS
    }
    return {key: seeds for key, seeds in found.items() if seeds}


def _planned(graphs: TrainingSet, options: argparse.Namespace) -> list[Planned]:
    device = options.device
    prepared = {}  # the same features for all encoders of a variant
    planned = []
    for kind, arm in _encoders(options).items():
        variant = arm.recipe(graphs).variant
        if variant not in prepared:
            prepared[variant] = prepared_graphs(graphs, arm.recipe(graphs), device)
        steps = min(options.steps or arm.steps, SHORTER.get((graphs.name, kind), arm.steps))
        for seed in options.seeds:
            name = f"{graphs.name}/{kind}/{seed}"
            recipe = arm.recipe(graphs).changed(seed=seed)
            curve = Curve(recipe, graphs, options.folder / name, arm.start(seed), device=device)
            planned.append(Planned(name, curve, steps, arm.between, prepared[variant]))
    return planned


def _encoders(options: argparse.Namespace) -> Mapping[str, Arm]:
    """The encoders that were asked for."""
    known = FULL_SIZE if options.full_size else ENCODERS
    return {name: arm for name, arm in known.items() if name in (options.encoders or known)}


if __name__ == "__main__":
    main()
