"""`stream-icd demo`: the whole system on one bare machine, in one command."""

import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from stream_icd.commands.programs.declared import command, option, path
from stream_icd.commands.programs.naming import graph_and_file
from stream_icd.commands.programs.options import MethodOptions
from stream_icd.core.errors import BadSettings
from stream_icd.core.printable import say

if TYPE_CHECKING:
    from stream_icd.interfaces.demo.run import Programs, Story
    from stream_icd.methods.model import Model
    from stream_icd.methods.names.attributes import Attributes

app = typer.Typer()

_MIXING = "0.6"
"""So much that memory between windows matters: a snapshot alone shows three quarters."""

_SIMULATED = 90
"""Default number of simulated snapshots."""

# One at a time, so that the time to publish is what a live stream's subscriber would see.
_DETECT = ("consume", "detect", "--batch", "1")


@command(app, "demo")
class _Demo(MethodOptions):
    """Run broker, producer, detector and subscriber on this machine; show the results.

    Starts processes that speak the Kafka protocol on 127.0.0.1. Prints how many snapshots were
    sent and received, the communities, and the time of each stage, and draws a picture. The exit
    status is not 0 if a result was lost. Keeps everything in an archive, and says how to look at it
    on a page; --view shows it live.

    Without --data, the stream is simulated, and the detector uses the paper's method: a frozen
    encoder, then K-means. An archive keeps snapshots and their known communities. After 30, the
    retrainer learns an encoder from them, and the running detector changes to it. After 45, the
    communities become larger, and the retrainer learns again. Streams of less than 75 snapshots are
    too short for that.

      stream-icd demo --data as-733.tar.gz --limit 120

    With --names, communities are named by attributes of their nodes; a second picture shows them,
    with the strongest mergers and splits that lasted and that the edges support.

      stream-icd demo --data as-733.tar.gz --names countries.csv
    """

    data: Path | None = option(
        None,
        "Internet topologies: as-733.tar.gz, its folder, or Parquet. Default: a simulated stream "
        "with drifting communities.",
    )
    limit: int | None = option(None, "Number of snapshots. Default: all of --data, or 90.", min=1)
    names: str | None = option(
        None,
        "Name communities by this table of attributes of nodes: CSV, JSON lines or Parquet, with "
        "the column node and one for each attribute, such as country.",
        metavar="[GRAPH=]FILE",
    )
    view: bool = option(False, "Serve the live page while the demonstration runs.")
    port: int = option(8321, "Port of the page, with --view.", min=1, max=65535)
    out: Path = option(Path("out"), "Folder for picture, results and logs.")

    def run(self) -> None:
        from rich.console import Console

        from stream_icd.commands.programs.process import progress_bar
        from stream_icd.core.imports import needs_extra
        from stream_icd.core.store.whole_file import make_folder, writing
        from stream_icd.interfaces.demo.results import DemoResults
        from stream_icd.interfaces.demo.run import demo_broker

        with needs_extra("demo", "matplotlib"):
            from stream_icd.interfaces.demo.picture import DPI, demo_figure, draw_story

        # A wrong horizon or table is refused before anything starts.
        self.chosen_horizon()
        attributes = self.attributes()
        console, folder = Console(), self.out.resolve()
        with writing(folder):
            make_folder(folder)
        programs = self.programs(folder)
        story, history = programs.story, folder / "demo-history"
        with demo_broker(folder, history) as settings:
            console.print(f"broker on {settings.bootstrap_servers}; logs in {folder}")
            if self.view:
                console.print(f"live page: http://127.0.0.1:{self.port}/")
            with progress_bar() as progress:
                run = programs.run(settings, folder, progress)
            if not run.arrivals:
                console.print(f"[red]none of {run.sent} snapshots arrived; see {folder}[/red]")
                raise typer.Exit(1)
            results = DemoResults.of(run, settings, partial(_model, story), self.method, story)
        change_at = None if story is None else story.change_at
        figure = demo_figure(run, results, change_at)
        figure.savefig(folder / "demo.png", dpi=DPI)
        results.tell(console, run, story)
        console.print(f"picture: {folder / 'demo.png'}", soft_wrap=True)
        if attributes is not None:
            say(*draw_story(results.found.windows, attributes, folder / "story.png"))
            console.print(f"picture of communities by name: {folder / 'story.png'}", soft_wrap=True)
        look = shlex.join(("stream-icd", "view", "--history", str(history), *self.by_names))
        say(f"look at it on a page: {look}")
        if run.lost:
            console.print(f"[red]lost: {run.lost}; see the logs in {folder}[/red]")
            raise typer.Exit(1)

    @property
    def by_names(self) -> tuple[str, ...]:
        if self.names is None:
            return ()
        graph, file = graph_and_file(self.names, None)
        of = "" if graph is None else f"{graph}="
        return ("--names", f"{of}{path(file).resolve()}")

    def attributes(self) -> "Attributes | None":
        from stream_icd.sources.datasets.as_topology import name_of
        from stream_icd.sources.node_tables import read_attributes

        if self.names is None:
            return None
        ours = "lfr" if self.data is None else name_of(self.data)
        graph, file = graph_and_file(self.names, ours)
        if graph != ours:
            raise BadSettings(f"--names {self.names}: the graph of the demonstration is {ours}")
        return read_attributes(path(file))

    def programs(self, folder: Path) -> "Programs":
        from stream_icd.interfaces.demo.run import LEAST_SNAPSHOTS, Programs, Story

        page = {"view": ("view", "--port", str(self.port), *self.by_names)} if self.view else {}
        count, usual = self.limit or _SIMULATED, (self.method, self.horizon) == ("auto", "auto")
        if self.data is None and usual and count >= LEAST_SNAPSHOTS:
            story = Story(folder, count)
            beside = page | story.consumers()
            return Programs(story.producers(), (*_DETECT, *story.detect()), beside, story)
        detect = (*_DETECT, "--method", self.method, "--horizon", self.horizon)
        icd = self.method == "icd"  # the encoder is a model's own, what bp needs suits any graph
        produce, model = ("lfr", "--mixing", _MIXING, "--limit", str(count)), "lfr"
        if self.data is not None:
            at_most = () if self.limit is None else ("--limit", str(self.limit))
            produce, model = ("as", str(self.data), *at_most), "as"
        of_model = ("--model", model if icd else "default")
        return Programs([("produce", *produce)], (*detect, *of_model), page)


def _model(story: "Story | None", version: str) -> "Model":
    from stream_icd.core.store.store import open_store
    from stream_icd.registry.find import open_model
    from stream_icd.registry.versions import open_version

    if story is not None:
        published = version.removesuffix("-icd")  # see `DetectSettings.version_of`
        return open_version(open_store(story.registry), published).model
    return open_model(version.partition("@")[0]).model
