"""`stream-icd data`: the public data that producers read."""

from pathlib import Path

import typer

from stream_icd.commands.programs.declared import argument, command, option
from stream_icd.core.errors import BadSettings
from stream_icd.core.printable import say

app = typer.Typer(no_args_is_help=True, help="Download public data sets.")


@command(app, "list")
class _ListData:
    """List the data sets that can be downloaded.

    stream-icd data list
    """

    def run(self) -> None:
        from stream_icd.sources.datasets.public_data import CATALOGUE

        say(*(f"{data.name:<12} {data.about}" for data in CATALOGUE))


@command(app, "fetch")
class _Fetch:
    """Download a public data set from its owner; resumes interrupted downloads.

    Prints the owner's terms and the citation. Without a network, it says which address to download
    by hand and where to put the file.

      stream-icd data fetch as-733
      stream-icd produce as data/as-733/as-733.tar.gz --graph as733
    """

    name: str = argument("Name of the data set, see stream-icd data list.")
    to: Path = option(Path("data"), "Folder for the data.")

    def run(self) -> None:
        from rich.progress import DownloadColumn, TransferSpeedColumn

        from stream_icd.commands.programs.process import progress_bar
        from stream_icd.sources.datasets.public_data import CATALOGUE

        by_name = {data.name: data for data in CATALOGUE}
        if self.name not in by_name:
            raise BadSettings(f"no data set {self.name!r}: choose from {', '.join(by_name)}")
        data = by_name[self.name]
        with progress_bar(DownloadColumn(), TransferSpeedColumn()) as progress:
            tasks = {
                url.rpartition("/")[2]: progress.add_task(url, start=False) for url in data.urls
            }

            def show(file: str, got: int, size: int | None) -> None:
                progress.start_task(tasks[file])
                progress.update(tasks[file], completed=got, total=size)

            path = data.fetch(self.to, show)
        say(f"{path}: {data.about}")
        say(f"terms: {data.terms}")
        say(f"cite:  {data.citation}")
        say(f"next:  {data.produce.format(path=path)}")
