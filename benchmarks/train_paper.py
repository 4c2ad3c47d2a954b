"""Train the paper's model on its generated data sets, as far as a time budget goes.

Written for a machine with a GPU, where the paper's 100,000 steps take hours:

    python benchmarks/train_paper.py GN-0.3 --device cuda --minutes 30 --arms paper scripts

and right on a laptop's processor at toy size:

    python benchmarks/train_paper.py GN-0.3 --toy --minutes 0.2

Every arm is one recipe: our preset, the paper's, the authors' scripts', an ablation of the
paper's. Arms take turns an
epoch at a time, so that they have had the same number of steps whenever the time is up. Each
keeps a checkpoint in its own folder, so the next call goes on. What is written to the folder:
`progress.jsonl` (validation NMI over steps, a line an epoch), a picture of each arm, and the
test score of each arm's best epoch beside that of its untrained control.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.shared.training.published import as_paper, as_scripts
from stream_icd.graphs.labelled_graph import LabelledGraph
from stream_icd.icd.presets import PRESETS, preset
from stream_icd.icd.recipe import Recipe
from stream_icd.model import Model
from stream_icd.registry.model import save_model
from stream_icd.store.store import open_store
from stream_icd.synthetic.gn import generate_gn
from stream_icd.synthetic.lfr import LfrSettings, generate_lfr
from stream_icd.synthetic.planted_graph import PlantedGraph
from stream_icd.training.icd.epochs import Epoch, best_epoch, draw_training
from stream_icd.training.icd.train_encoder import Training, train, validate
from stream_icd.training.train_model import split_in_order

GENERATORS: dict[str, Callable[[np.random.Generator], PlantedGraph]] = {
    "GN-0.3": lambda rng: generate_gn(rng, p_in=0.3),
    "GN-0.4": lambda rng: generate_gn(rng, p_in=0.4),
    "L(f,0.3)": lambda rng: generate_lfr(rng, LfrSettings(mixing=0.3)),
    "L(f,0.6)": lambda rng: generate_lfr(rng, LfrSettings(mixing=0.6)),
    "L(n,0.3)": lambda rng: generate_lfr(
        rng, LfrSettings(int(rng.integers(5000, 6001)), mixing=0.3)
    ),
    "L(n,0.6)": lambda rng: generate_lfr(
        rng, LfrSettings(int(rng.integers(5000, 6001)), mixing=0.6)
    ),
}

ARMS: dict[str, Callable[[Recipe], Recipe]] = {
    "preset": lambda recipe: recipe,
    "paper": as_paper,
    "no-adversarial": lambda recipe: as_paper(recipe).changed(losses={"adversarial": False}),
    "no-regularisation": lambda recipe: as_paper(recipe).changed(losses={"beta": 0.0}),
    "rmsprop": lambda recipe: as_scripts(as_paper(recipe), "optimiser", "weight-decay"),
    "scripts": as_scripts,
}


class Graphs(NamedTuple):
    """The three parts of a data set."""

    training: Sequence[LabelledGraph]
    validation: Sequence[LabelledGraph]
    test: Sequence[LabelledGraph]


def main(arguments: list[str]) -> None:
    """Train every arm until the time is up, then judge each on the test graphs."""
    options = parse(arguments)
    graphs = make_graphs(options)
    recipes = {name: arm_recipe(name, options) for name in options.arms}
    deadline = time.monotonic() + 60 * options.minutes
    trainings: dict[str, Training] = {}
    for number in range(options.epochs + 1):
        for name, recipe in recipes.items():
            trainings[name] = one_more_epoch(name, recipe, number, graphs, options)
        if time.monotonic() >= deadline:
            break
    for name, training in trainings.items():
        report(name, training, graphs, options.folder / name)


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("data_set", choices=[name for name in PRESETS if name in GENERATORS])
    parser.add_argument("--variant", choices=["ICD-M", "ICD-C"], default="ICD-M")
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--minutes", type=float, default=10, help="stop after that epoch")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--samples", type=int, default=None, help="graphs an epoch; default: p")
    parser.add_argument("--rows", type=int, default=None, help="sampled rows of X; default: all")
    parser.add_argument("--graphs", type=int, default=200, help="split as the recipe says")
    parser.add_argument("--folder", type=Path, default=Path("out/train_paper"))
    parser.add_argument("--toy", action="store_true", help="small graphs and widths")
    return parser.parse_args(arguments)


def make_graphs(options: argparse.Namespace) -> Graphs:
    """Generated graphs, each by a seed of its own."""

    def graph(seed: int) -> LabelledGraph:
        rng = np.random.default_rng([7, seed])
        if options.toy:
            planted = generate_gn(rng, 300, 15, p_in=0.4, p_out=0.02)
        else:
            planted = GENERATORS[options.data_set](rng)
        return LabelledGraph(planted.adjacency(), planted.communities)

    shares = preset(options.data_set, options.variant).split
    return Graphs(*split_in_order([graph(seed) for seed in range(options.graphs)], shares))


def arm_recipe(name: str, options: argparse.Namespace) -> Recipe:
    """The preset as this arm changes it."""
    recipe = ARMS[name](preset(options.data_set, options.variant))
    changes: dict[str, Any] = {"losses": {"rows": options.rows}}
    if options.samples is not None:
        changes["schedule"] = {"samples": options.samples}
    if options.toy:
        changes |= {"encoder": {"widths": (128, 64, 32)}, "discriminator_widths": (32, 16, 1)}
    return recipe.changed(**changes)


def one_more_epoch(
    name: str, recipe: Recipe, number: int, graphs: Graphs, options: argparse.Namespace
) -> Training:
    """Bring an arm to epoch `number`, from its checkpoint, and log what is new."""

    def log(epoch: Epoch) -> None:
        line = {
            "arm": name,
            "epoch": epoch.number,
            "steps": epoch.number * recipe.schedule.samples * recipe.schedule.repeats,
            "validation_nmi": epoch.validation,
            "seconds": epoch.seconds,
            **epoch.losses,
        }
        with (options.folder / "progress.jsonl").open("a", encoding="utf-8") as file:
            print(json.dumps(line), file=file)
        print(f"{name:18} epoch {epoch.number:3}  NMI {epoch.validation:.4f}", flush=True)

    options.folder.mkdir(parents=True, exist_ok=True)
    return train(
        graphs.training,
        recipe.changed(schedule={"epochs": number}),
        validation=graphs.validation,
        checkpoints=open_store(str(options.folder / name)),
        device=options.device,
        progress=log,
    )


def report(name: str, training: Training, graphs: Graphs, folder: Path) -> None:
    """The arm's picture, its model, and its test score beside its untrained control's."""
    folder.mkdir(parents=True, exist_ok=True)
    draw_training(training.history, folder / "training.png", name)
    best = best_epoch(training.history).number
    save_model(training.model, folder / f"model-{len(training.history) - 1}")
    trained = validate(training.model, graphs.test)
    untrained = validate(Model(training.model.recipe), graphs.test)
    print(
        f"{name:18} test NMI {trained:.4f} at epoch {best}, untrained {untrained:.4f}, "
        f"difference {trained - untrained:+.4f}"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
