"""`stream-icd train`: make a model out of past graphs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from stream_icd.errors import BadSettings, SourceNotFound

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

    from stream_icd.icd.recipe import Recipe

app = typer.Typer(help="Train a model on past graphs.")


@app.command()
def train(
    recipe: Annotated[
        Path | None,
        typer.Argument(
            help="Recipe (recipe.toml) of a model to make again. Default: train a new model.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="New folder for the model.")] = Path("model"),
    data: Annotated[
        str | None,
        typer.Option(
            help="The graphs: a folder of edge lists, an archive, or a source such as "
            "events:path=mails.csv,window=1d or as:path=as-733.tar.gz. labels=FILE adds known "
            "communities. A wrong value lists all forms. Default: the data of the recipe.",
            show_default=False,
        ),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            help="Also train the paper's encoder, with the paper's settings for this data set: "
            "GN-0.3, GN-0.4, 'L(f,0.3)', 'L(f,0.6)', 'L(n,0.3)', 'L(n,0.6)', Taxi, Reddit, AS or "
            "Enron. Only the method icd uses it. Takes minutes to hours; needs the extra train.",
            show_default=False,
        ),
    ] = None,
    every_kind: Annotated[
        bool,
        typer.Option(
            "--every-kind",
            help="Learn for graphs of every kind, from a mixture of kinds in --data: each graph "
            "then decides how finely to look. By default, learn what suits one kind best.",
        ),
    ] = False,
    variant: Annotated[
        Literal["ICD-M", "ICD-C"],
        typer.Option(
            help="Input of the encoder: modularity matrix (ICD-M) or normalised adjacency (ICD-C)."
        ),
    ] = "ICD-M",
    epochs: Annotated[
        int | None,
        typer.Option(min=1, help="Epochs of the encoder's training. Default: the paper's 100."),
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(min=1, help="Graphs per epoch. Default: the paper's number."),
    ] = None,
    device: Annotated[
        Literal["cpu", "cuda"], typer.Option(help="Device to train the encoder on.")
    ] = "cpu",
    threads: Annotated[int, typer.Option(min=1, help="Cores to use.")] = 2,
) -> None:
    """Train a model on past graphs, and test it on graphs that were not used for training.

    Training for the default method takes seconds, with labels or without. The folder --out gets
    the weights, the recipe, and a card that says what the model is for and how good it is. Read
    the card before you rely on the model.

      stream-icd train --data graphs/ --out my-model

      stream-icd train --data events:path=mails.csv,window=1d --out mails

      stream-icd train my-model/recipe.toml --out again

    Train the paper's encoder, which only --method icd uses (pip install 'stream-icd[train]'). If
    training is killed, run the command again: it continues from the last epoch:

      stream-icd train --encoder 'L(f,0.6)' --data lfr:mixing=0.6 --out my-encoder
    """
    from rich.console import Console

    from stream_icd.registry.model import RECIPE_FILE
    from stream_icd.training.card import card, write_model
    from stream_icd.training.data import training_graphs
    from stream_icd.training.icd.epochs import Epoch
    from stream_icd.training.train_model import train_model

    console = Console()
    if (out / RECIPE_FILE).exists():
        raise BadSettings(f"{out} already holds a model; give --out a new folder")
    chosen = _recipe(recipe, encoder, variant, out.resolve().name)
    chosen = _scheduled(chosen, epochs, samples)
    chosen = chosen.changed(data=data or chosen.data, every_kind=every_kind or chosen.every_kind)
    if not chosen.data:
        raise BadSettings("no graphs to train on: give --data, such as --data graphs/")
    console.print(f"reading {chosen.data}", markup=False)
    graphs = training_graphs(chosen.data)

    def show_epoch(epoch: Epoch) -> None:
        losses = ", ".join(f"{name} {value:.4g}" for name, value in epoch.losses.items())
        console.print(f"epoch {epoch.number}: validation {epoch.validation:.4f}  {losses}")

    with _Stages(console) as stages:
        trained = train_model(
            graphs,
            chosen,
            checkpoints=out.with_name(f"{out.name}.checkpoints"),
            device=device,
            threads=threads,
            on_epoch=show_epoch,
            on_step=stages.show,
        )
    write_model(trained, out)
    console.print(card(trained), markup=False)
    console.print(f"use it: stream-icd consume detect --model {out}", soft_wrap=True)


class _Stages:
    """A line of progress for each stage, with the time left."""

    def __init__(self, console: Console) -> None:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
        )
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> _Stages:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, stage: str, done: int, total: int) -> None:
        """So many steps of a stage are done."""
        if stage not in self._tasks:
            self._tasks[stage] = self._progress.add_task(stage, total=total)
        self._progress.update(self._tasks[stage], completed=done)


def _recipe(
    path: Path | None, encoder: str | None, variant: Literal["ICD-M", "ICD-C"], name: str
) -> Recipe:
    from stream_icd.icd.presets import default_recipe, preset
    from stream_icd.icd.recipe import recipe_from_toml

    if path is not None and encoder is not None:
        raise BadSettings("a recipe names the encoder that it trains: leave out --encoder")
    if encoder is not None:
        return preset(encoder, variant)
    if path is None:
        return default_recipe(name)
    if not path.is_file():
        raise SourceNotFound(
            f"no recipe at {path}; to train a new model: stream-icd train --data DATA --out FOLDER"
        )
    return recipe_from_toml(path.read_text(encoding="utf-8"))


def _scheduled(recipe: Recipe, epochs: int | None, samples: int | None) -> Recipe:
    changes = {k: v for k, v in {"epochs": epochs, "samples": samples}.items() if v is not None}
    if changes and not recipe.schedule.epochs:
        raise BadSettings(
            f"--{next(iter(changes))} applies to the training of the encoder: give --encoder too"
        )
    return recipe.changed(schedule=changes)
