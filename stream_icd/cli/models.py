"""`stream-icd models`: list the models, and show what each is for."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="List the models, and show what each is for.")


@app.callback()
def _models() -> None:
    """A group of two commands."""


@app.command("list")
def list_models(
    folder: Annotated[
        str | None,
        typer.Argument(
            help="Folder of models to list: a path or a URI. Default: the shipped models.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """List models: name, version, purpose, training data and quality.

    stream-icd models list

    stream-icd models list my-models/
    """
    from stream_icd.errors import ModelNotFound
    from stream_icd.registry.about import read_about
    from stream_icd.registry.model import models_in, version_of
    from stream_icd.registry.shipped import shipped_models
    from stream_icd.store import open_store

    found = shipped_models() if folder is None else models_in(open_store(folder))
    if not found:
        raise ModelNotFound(f"no model in {folder}; make one with stream-icd train")
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
    from stream_icd.registry.about import read_card
    from stream_icd.registry.shipped import folder_of

    typer.echo(read_card(folder_of(name)), nl=False)
