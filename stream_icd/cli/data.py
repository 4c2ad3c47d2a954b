"""`stream-icd data`: the public data that producers read."""

from pathlib import Path
from typing import Annotated

import typer

from stream_icd.printable import say
from stream_icd.programs.declared import command

app = typer.Typer(no_args_is_help=True, help="Download public data sets.")


@command(app, "list")
class ListData:
    """List the data sets that can be downloaded.

    stream-icd data list
    """

    def run(self) -> None:
        from stream_icd.datasets.public_data import CATALOGUE

        for data in CATALOGUE:
            say(f"{data.name:<12} {data.about}")


@command(app, "fetch")
class Fetch:
    """Download a public data set from its owner; resumes interrupted downloads.

    Prints the owner's terms and the citation. Without a network, it says which address to download
    by hand and where to put the file.

      stream-icd data fetch as-733

      stream-icd produce as data/as-733/as-733.tar.gz --graph as733
    """

    name: Annotated[str, typer.Argument(help="Name of the data set, see stream-icd data list.")]
    to: Annotated[Path, typer.Option(help="Folder for the data.")] = Path("data")

    def run(self) -> None:
        from rich.console import Console
        from rich.progress import DownloadColumn, Progress, TransferSpeedColumn

        from stream_icd.datasets.public_data import fetch, public_data

        data = public_data(self.name)
        console = Console(stderr=True)
        columns = (*Progress.get_default_columns()[:2], DownloadColumn(), TransferSpeedColumn())
        with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
            tasks = {
                url.rpartition("/")[2]: progress.add_task(url, start=False) for url in data.urls
            }

            def show(file: str, got: int, size: int | None) -> None:
                progress.start_task(tasks[file])
                progress.update(tasks[file], completed=got, total=size)

            path = fetch(data, self.to, show)
        say(f"{path}: {data.about}")
        say(f"terms: {data.terms}")
        say(f"cite:  {data.citation}")
        say(f"next:  {data.produce.format(path=path)}")
