"""`stream-icd train`: make a model out of past graphs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from stream_icd.errors import SourceNotFound

if TYPE_CHECKING:
    from stream_icd.icd.recipe import Recipe

app = typer.Typer(help="Make a model out of past graphs.")


@app.command()
def train(
    recipe: Annotated[
        str,
        typer.Argument(
            help="A recipe.toml (a model's own will do), or one of the paper's: GN-0.3, GN-0.4, "
            "'L(f,0.3)', 'L(f,0.6)', 'L(n,0.3)', 'L(n,0.6)', Taxi, Reddit, AS, Enron."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder for the model; it must not hold one yet.")],
    data: Annotated[
        str | None,
        typer.Option(
            help="The graphs, such as gn:p_in=0.3,graphs=100 or lfr:mixing=0.6,graphs=100 or "
            "as:path=as-733.tar.gz,graphs=733; by default what the recipe says.",
            show_default=False,
        ),
    ] = None,
    variant: Annotated[
        Literal["ICD-M", "ICD-C"], typer.Option(help="Of a recipe of the paper's: X is Q, or M.")
    ] = "ICD-M",
    epochs: Annotated[
        int | None,
        typer.Option(min=0, help="Instead of the recipe's; 0 leaves the encoder untrained."),
    ] = None,
    samples: Annotated[
        int | None, typer.Option(min=1, help="Graphs drawn in an epoch, instead of the recipe's.")
    ] = None,
    device: Annotated[Literal["cpu", "cuda"], typer.Option(help="Where to train.")] = "cpu",
    threads: Annotated[int, typer.Option(min=1, help="Cores to use.")] = 2,
) -> None:
    """Train a model (algorithm 3 of the paper), and report it beside its untrained control.

    The first graphs train, the next decide which epoch is kept, the last are reported. OUT gets
    the weights, the recipe, the curves and a card. A killed training goes on where it was, an
    epoch lost at the most: run the same command again.

      stream-icd train 'L(f,0.6)' --data lfr:mixing=0.6,graphs=40 --out my-model

    Needs the extra `train`: pip install 'stream-icd[train]'.
    """
    from rich.console import Console
    from rich.progress import Progress

    from stream_icd.icd.history import Epoch
    from stream_icd.pipeline.train_model import card, train_model, write_model
    from stream_icd.pipeline.training_data import training_graphs

    console = Console()
    chosen = _recipe(recipe, variant, epochs, samples)
    described = data or chosen.data
    console.print(f"reading {described}")
    graphs = training_graphs(described)
    chosen = chosen.changed(data=described)
    with Progress(console=console) as progress:
        task = progress.add_task("epochs", total=chosen.schedule.epochs)

        def show(epoch: Epoch) -> None:
            progress.update(task, completed=epoch.number)
            losses = ", ".join(f"{name} {value:.4g}" for name, value in epoch.losses.items())
            console.print(f"epoch {epoch.number}: validation {epoch.validation:.4f}  {losses}")

        trained = train_model(
            graphs,
            chosen,
            checkpoints=out.with_name(f"{out.name}.checkpoints"),
            device=device,
            threads=threads,
            progress=show,
        )
    write_model(trained, out)
    console.print(card(trained), markup=False)
    console.print(f"use it: stream-icd consume detect --model {out}", soft_wrap=True)


def _recipe(
    name: str, variant: Literal["ICD-M", "ICD-C"], epochs: int | None, samples: int | None
) -> Recipe:
    from stream_icd.icd.presets import preset
    from stream_icd.icd.recipe import recipe_from_toml

    if name.endswith(".toml"):
        if not Path(name).is_file():
            raise SourceNotFound(f"no recipe at {name}")
        chosen = recipe_from_toml(Path(name).read_text(encoding="utf-8"))
    else:
        chosen = preset(name, variant)
    schedule = {"epochs": epochs, "samples": samples}
    return chosen.changed(schedule={k: v for k, v in schedule.items() if v is not None})
