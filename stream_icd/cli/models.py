"""`stream-icd models`: which models there are, and what each is for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Show which models there are, and what each is for.")


@app.callback()
def _models() -> None:
    """A group of two commands."""


@app.command("list")
def list_models(
    folder: Annotated[
        Path | None,
        typer.Argument(
            help="List the models in this folder; by default the shipped ones.", show_default=False
        ),
    ] = None,
) -> None:
    """List models: name, version, what for, learned on what, how good.

    stream-icd models list

    stream-icd models list my-models/
    """
    from stream_icd.errors import ModelNotFound
    from stream_icd.registry.about import read_about
    from stream_icd.registry.shipped import models_in, shipped_models, version_of

    found = shipped_models() if folder is None else models_in(folder)
    if not found:
        raise ModelNotFound(f"no model in {folder}; stream-icd train --out makes one")
    for name, place in found.items():
        about = read_about(place)
        typer.echo(f"{name}  ({version_of(place)})")
        typer.echo(f"  for      {about.purpose}")
        typer.echo(f"  learned  {about.learned_on}")
        typer.echo(f"  figures  {about.figures}")


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="Name of a shipped model, or a model's folder.")],
) -> None:
    """Show a model's card: what it is for, how good it is, and when not to use it.

    stream-icd models show as
    """
    from stream_icd.registry.shipped import folder_of

    typer.echo((folder_of(name) / "card.md").read_text(encoding="utf-8"), nl=False)
