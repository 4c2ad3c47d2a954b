"""`stream-icd demo`: the whole system on one bare machine, in one command."""

import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stream_icd.errors import BadSettings
from stream_icd.programs.declared import command
from stream_icd.programs.options import Horizon, Method, NamesFile, chosen_horizon

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from stream_icd.demo.run import Programs
    from stream_icd.demo.story import Story
    from stream_icd.events import CommunityEvents
    from stream_icd.model import Model
    from stream_icd.names.attributes import Attributes

app = typer.Typer()

KEPT = "demo-history"
"""The folder of the archive, in that of the results."""

MIXING = "0.6"
"""So much that memory between windows matters: a snapshot alone shows three quarters."""

SIMULATED = 120
"""Default number of simulated snapshots."""

# One at a time, so that the time to publish is what a live stream's subscriber would see.
DETECT = ("consume", "detect", "--batch", "1")


@command(app, "demo")
class Demo:
    """Run broker, producer, detector and subscriber on this machine; show the results.

    Starts processes that speak the Kafka protocol on 127.0.0.1. Prints how many snapshots were
    sent and received, the communities, and the time of each stage, and draws a picture. The exit
    status is not 0 if a result was lost. Keeps everything in an archive, and says how to look at it
    on a page; --view shows it live.

    The communities of the simulated stream change altogether after 40 snapshots, and the model of
    the detector no longer fits. An archive and a retrainer run as well: the retrainer notices it
    from the edges alone and learns another model, and the detector changes to it. Streams of less
    than 100 snapshots do not change.

      stream-icd demo --data as-733.tar.gz --limit 120

    With --names, communities are named by attributes of their nodes; a second picture shows them,
    with the strongest mergers and splits that lasted.

      stream-icd demo --data as-733.tar.gz --names countries.csv
    """

    data: Annotated[
        Path | None,
        typer.Option(
            help="Internet topologies: as-733.tar.gz, its folder, or Parquet. Default: a "
            "simulated stream with drifting communities."
        ),
    ] = None
    limit: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of snapshots. Default: all of --data, or 120 simulated ones."
        ),
    ] = None
    method: Method = "bp"
    horizon: Horizon = "auto"
    names: NamesFile = None
    view: Annotated[
        bool, typer.Option("--view", help="Serve the live page while the demonstration runs.")
    ] = False
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port of the page, with --view.")] = (
        8321
    )
    out: Annotated[Path, typer.Option(help="Folder for picture, results and logs.")] = Path("out")

    def run(self) -> None:
        from rich.console import Console

        from stream_icd.demo.results import read_snapshot, results_of
        from stream_icd.demo.run import demo_broker, demo_progress, keep, run_demo
        from stream_icd.demo.summary import tell, tell_line
        from stream_icd.extras import needs_extra

        with needs_extra("demo", "matplotlib"):
            from stream_icd.demo.picture import DPI, demo_figure

        chosen_horizon(self.horizon, memory="auto")
        attributes = self.attributes()
        console, folder = Console(), self.out.resolve()
        folder.mkdir(parents=True, exist_ok=True)
        programs = self.programs(folder)
        story = programs.story
        with demo_broker(folder) as settings:
            console.print(f"broker on {settings.bootstrap_servers}; logs in {folder}")
            if self.view:
                console.print(f"live page: http://127.0.0.1:{self.port}/")
            with demo_progress(console) as progress:
                run = run_demo(settings, programs, folder, progress)
            if not run.arrivals:
                console.print(f"[red]none of {run.sent} snapshots arrived; see {folder}[/red]")
                raise typer.Exit(1)
            results = results_of(settings, run, partial(_model, story), self.method)
            found, alone = results.found, results.alone
            last = read_snapshot(settings, found.windows[-1].snapshot_id)
            keep(settings, folder / KEPT)
        change_at = None if story is None else story.change_at
        demo_figure(run, last, found, alone, change_at).savefig(folder / "demo.png", dpi=DPI)
        tell(console, run, results, story)
        console.print(f"picture: {folder / 'demo.png'}", soft_wrap=True)
        if attributes is not None:
            _tell_story(console, found.windows, attributes, folder / "story.png")
        look = shlex.join(("stream-icd", "view", "--history", str(folder / KEPT), *self.by_names))
        tell_line(console, f"look at it on a page: {look}")
        if run.lost:
            console.print(f"[red]lost: {run.lost}; see the logs in {folder}[/red]")
            raise typer.Exit(1)

    @property
    def by_names(self) -> tuple[str, ...]:
        """The option that hands the table of attributes on."""
        return () if self.names is None else ("--names", str(self.names.resolve()))

    def attributes(self) -> "Attributes | None":
        """Read the table of attributes, if there is one."""
        from stream_icd.programs.names import TOPIC
        from stream_icd.sources.node_tables import read_attributes

        if self.names == TOPIC:
            raise BadSettings(
                "--names topic: the demonstration has a broker of its own; give a file"
            )
        return None if self.names is None else read_attributes(self.names)

    def programs(self, folder: Path) -> "Programs":
        """Return the producer and the detector, the page if wanted, and the story if any."""
        from stream_icd.demo.run import Programs
        from stream_icd.demo.story import LEAST_SNAPSHOTS, Story

        icd = self.method == "icd"  # the encoder is a model's own, what bp needs suits any graph
        count, model, story = self.limit or SIMULATED, "lfr" if icd else "default", None
        produce = ("produce", "lfr", "--mixing", MIXING, "--limit", str(count))
        if self.data is not None:
            at_most = () if self.limit is None else ("--limit", str(self.limit))
            produce, model = ("produce", "as", str(self.data), *at_most), "as" if icd else "default"
        elif not icd and count >= LEAST_SNAPSHOTS:
            story = Story(folder, count)
        of_model = ("--model", model) if story is None else story.detect()
        detect = (*DETECT, "--method", self.method, "--horizon", self.horizon, *of_model)
        view = ("view", "--port", str(self.port), *self.by_names) if self.view else None
        return Programs(produce, detect, view=view, story=story)


def _tell_story(
    console: "Console", windows: "Sequence[CommunityEvents]", attributes: "Attributes", path: Path
) -> None:
    """Print the strongest events that lasted, and draw them with the communities by name."""
    from stream_icd.demo.named import draw_story, strongest_events
    from stream_icd.demo.summary import tell_line

    events = strongest_events(windows, attributes)
    draw_story(windows, attributes, events, path)
    for event in events:
        tell_line(console, str(event))
    console.print(f"picture of communities by name: {path}", soft_wrap=True)


def _model(story: "Story | None", version: str) -> "Model":
    """The model of a version: in a story, one of its registry; else a shipped one."""
    from stream_icd.registry.shipped import open_model
    from stream_icd.registry.versions import open_version
    from stream_icd.store.store import open_store

    if story is not None:
        return open_version(open_store(story.registry), version).model
    return open_model(version.partition("@")[0]).model
