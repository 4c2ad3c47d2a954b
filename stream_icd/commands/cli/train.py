"""`stream-icd train`: make a model out of past graphs."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Literal

import typer

from stream_icd.commands.programs.declared import argument, command, option
from stream_icd.core.errors import BadSettings, SourceNotFound
from stream_icd.core.printable import say

if TYPE_CHECKING:
    from rich.progress import TaskID

    from stream_icd.methods.icd.recipe import Recipe

app = typer.Typer()


@command(app, "train")
class _Train:
    """Train a model on past graphs, and test it on graphs that were not used for training.

    Training takes a minute or two, with labels or without: it learns the encoder and the numbers of
    belief propagation, and by which of both the model detects better. The folder --out gets the
    weights, the recipe, and a card that says what the model is for and how good it is. Read the
    card before you rely on the model.

      stream-icd train --data graphs/ --out my-model
      stream-icd train --data events:path=mails.csv,window=1d --out mails
      stream-icd train my-model/recipe.toml --out s3://models/again

    Train the paper's encoder, which only the method icd uses (pip install 'stream-icd[train]'). If
    training is killed, run the command again: it continues from the last epoch, which is kept
    beside the model in FOLDER.checkpoints (if FOLDER is a whole bucket, in that bucket):

      stream-icd train --encoder 'L(f,0.6)' --data lfr:mixing=0.6 --out my-encoder
    """

    recipe: str | None = argument(
        "Recipe of a model to make again: the path or URI of its recipe.toml. Default: train a "
        "new model.",
        default=None,
    )
    out: str = option(
        "model", "New folder for the model: a path or a URI such as s3://bucket/mine."
    )
    data: str | None = option(
        None,
        "The graphs: a folder of edge lists, an archive, or a source such as "
        "events:path=mails.csv,window=1d or as:path=as-733.tar.gz. labels=FILE adds known "
        "communities. A wrong value lists all forms. Default: the data of the recipe.",
    )
    encoder: str | None = option(
        None,
        "Encoder to learn: edges, from labels or, without any, from what is found in the graphs; "
        "none; or the paper's, with its settings for a data set: GN-0.3, GN-0.4, 'L(f,0.3)', "
        "'L(f,0.6)', 'L(n,0.3)', 'L(n,0.6)', Taxi, Reddit, AS or Enron, which takes minutes to "
        "hours, and needs the extra train. Default: edges, or none with --every-kind.",
    )
    as_published: bool = option(
        False,
        "Train the paper's encoder exactly as the paper says: Xavier's initial weights, no "
        "smoothing, rows of any length, and the best of ten runs of K-means.",
    )
    every_kind: bool = option(
        False,
        "Learn for graphs of every kind, from a mixture of kinds in --data: each graph then "
        "decides the size of its communities. Default: learn what suits one kind best.",
    )
    variant: Literal["ICD-M", "ICD-C"] = option(
        "ICD-M", "Input of the encoder: modularity matrix (ICD-M) or normalised adjacency (ICD-C)."
    )
    epochs: int | None = option(
        None, "Epochs of the paper's encoder. Default: the paper's 100.", min=1
    )
    samples: int | None = option(None, "Graphs per epoch. Default: the paper's number.", min=1)
    device: Literal["cpu", "cuda"] = option("cpu", "Device to train the paper's encoder on.")
    threads: int = option(2, "Cores to use.", min=1)

    def run(self) -> None:
        from rich.console import Console

        from stream_icd.commands.programs.process import progress_bar
        from stream_icd.commands.programs.training_data import training_graphs
        from stream_icd.core.log import configure_logging
        from stream_icd.core.store.store import open_store
        from stream_icd.learning.training.card import card, write_model
        from stream_icd.learning.training.icd.epochs import Epoch
        from stream_icd.learning.training.train_model import train_model
        from stream_icd.registry.model import RECIPE_FILE

        configure_logging()
        console = Console()
        folder = open_store(self.out)
        # Before the graphs are read: training takes minutes, and would be in vain.
        if folder.exists(RECIPE_FILE):
            raise BadSettings(f"{folder.place} already holds a model; give --out a new folder")
        chosen = self.chosen(folder.name)
        if not chosen.data:
            raise BadSettings("no graphs to train on: give --data, such as --data graphs/")
        console.print(f"reading {chosen.data}", markup=False)
        graphs = training_graphs(chosen.data)

        def show_epoch(epoch: Epoch) -> None:
            losses = ", ".join(f"{name} {value:.4g}" for name, value in epoch.losses.items())
            console.print(f"epoch {epoch.number}: validation {epoch.validation:.4f}  {losses}")

        with progress_bar() as progress:
            tasks: dict[str, TaskID] = {}

            def show_step(stage: str, done: int, total: int) -> None:
                if stage not in tasks:
                    tasks[stage] = progress.add_task(stage, total=total)
                progress.update(tasks[stage], completed=done)

            trained = train_model(
                graphs,
                chosen,
                checkpoints=folder.above().below(f"{folder.name}.checkpoints"),
                device=self.device,
                threads=self.threads,
                on_epoch=show_epoch,
                on_step=show_step,
            )
        write_model(trained, self.out)
        say(*card(trained).split("\n"))
        say(f"use it: stream-icd consume detect --model {shlex.quote(self.out)}")

    def chosen(self, name: str) -> Recipe:
        from stream_icd.core.store.store import open_store
        from stream_icd.methods.icd.presets import (
            EDGES_NAME,
            NONE,
            PRESETS,
            as_published,
            encoder_recipe,
        )
        from stream_icd.methods.icd.recipe import Recipe

        if self.recipe is not None and self.encoder is not None:
            raise BadSettings("a recipe names the encoder that it trains: leave out --encoder")
        if self.as_published and self.encoder not in PRESETS:
            raise BadSettings(
                "--as-published is about the paper's encoder: give --encoder too, such as "
                "--encoder AS"
            )
        if self.recipe is None:
            usual = NONE if self.every_kind else EDGES_NAME
            chosen = encoder_recipe(self.encoder or usual, self.variant)
            if self.as_published:
                chosen = as_published(chosen)
            if not chosen.trains_encoder:
                chosen = chosen.changed(name=name, split=(0.0, 0.8, 0.2))
        else:
            file = open_store(self.recipe, may_be_file=True)
            folder = file.above()
            if not folder.exists(file.name):
                raise SourceNotFound(
                    f"no recipe at {file.place}; to train a new model: stream-icd train --data "
                    "DATA --out FOLDER"
                )
            with folder.open(file.name) as content:
                chosen = Recipe.from_toml(content.read())
        schedule = {name: n for name in ("epochs", "samples") if (n := getattr(self, name))}
        if schedule and not chosen.trains_encoder:
            raise BadSettings(
                f"--{next(iter(schedule))} applies to the training of the paper's encoder: give "
                "--encoder too, such as --encoder AS"
            )
        return chosen.changed(
            schedule=schedule,
            data=self.data or chosen.data,
            every_kind=self.every_kind or chosen.every_kind,
        )
