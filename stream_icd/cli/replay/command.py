"""`stream-icd replay`: run detection again on past snapshots."""

from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from stream_icd.errors import BadSettings
from stream_icd.programs.declared import command
from stream_icd.programs.options import (
    BootstrapServers,
    Horizon,
    Memory,
    Method,
    OnlyGraph,
    RegistryUri,
    Seed,
    Threads,
    kafka_settings,
)
from stream_icd.programs.past import ArchiveUri, PartOptions, PastOptions, TempoOptions

app = typer.Typer(no_args_is_help=True, help="Run detection again on past snapshots.")


@dataclass(frozen=True, kw_only=True)
class ReplayOptions(TempoOptions):
    """The options of both commands."""

    graph: OnlyGraph = None
    out_topic: Annotated[
        str | None, typer.Option(help="Topic for the results; created if it does not exist.")
    ] = None
    into_live: Annotated[
        bool,
        typer.Option(
            "--into-live", help="Allow the live topic (icd.communities.v1) as --out-topic."
        ),
    ] = False
    model: Annotated[
        str,
        typer.Option(
            help="Name of a shipped model, a version such as as@8168f91e (an error if the model "
            "has another one), the folder of a model (a path or a URI), or with a registry: a "
            "version, champion, or previous."
        ),
    ] = "default"
    registry: RegistryUri = None
    method: Method = "bp"
    memory: Memory = "auto"
    horizon: Horizon = "auto"
    k: Annotated[
        int | None,
        typer.Option(
            "--k", min=1, help="Number of communities, for snapshots that do not state it."
        ),
    ] = None
    seed: Seed = 0
    compare: Annotated[
        bool,
        typer.Option("--compare", help="Compare with the earlier results: NMI, quality, churn."),
    ] = False
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be done, and do nothing.")
    ] = False
    engine: Annotated[
        Literal["serial", "pool", "ray"],
        typer.Option(
            help="serial: this process; pool: processes on this machine; ray: a Ray cluster."
        ),
    ] = "pool"
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Number of processes or actors. Default: one per core."),
    ] = None
    threads: Threads = None
    ray_address: Annotated[
        str | None,
        typer.Option(
            help="Address of a Ray cluster, such as auto. Default: a local cluster is started."
        ),
    ] = None
    bootstrap_servers: BootstrapServers = None


@command(app, "topic")
class ReplayTopic(ReplayOptions, PartOptions):
    """Run detection again on snapshots that the topic still holds.

    Results go to --out-topic. After an interruption, run the same command again: it continues.
    With memory, the snapshots before --from are detected too, since the later ones need the memory
    of them; their results are not stored.

      stream-icd replay topic --from 2026-01-31 --out-topic again --dry-run

      stream-icd replay topic --model lfr --out-topic again --compare

      stream-icd replay topic --model champion --registry registry/ --out-topic new
    """

    topic: Annotated[str, typer.Option(help="Topic that holds the snapshots.")] = "icd.snapshots.v1"

    def run(self) -> None:
        from stream_icd.cli.replay.run import no_snapshots, past_of_topic, run_replay
        from stream_icd.kafka.topics import COMMUNITIES, describe_topic
        from stream_icd.replay.results import TopicResults, check_results_topic

        if self.out_topic is None:
            raise BadSettings("say where results go: --out-topic")
        check_results_topic(self.out_topic, into_live=self.into_live)
        self.tempo()  # a wrong one is refused before the broker is asked
        settings = kafka_settings(self.bootstrap_servers)
        part = self.part(settings, self.topic)
        n_partitions = describe_topic(settings, self.topic).partitions
        run_replay(
            self,
            past_of_topic(settings, part, self.graph),
            TopicResults(settings, self.out_topic, n_partitions),
            TopicResults(settings, COMMUNITIES) if self.compare else None,
            nothing=lambda: no_snapshots(part, self.graph),
        )


@command(app, "history")
class ReplayHistory(ReplayOptions, PastOptions):
    """Run detection again on archived snapshots.

    Results go to another archive or a topic. The same model, method and seed give the same
    communities as on the stream, bit for bit. After an interruption, run the same command again:
    it continues. With memory, a replay --from a time starts with the archived memory of the window
    before; without one, it detects the windows before too, and does not store their results.

      stream-icd replay history history/ --out again/ --graph as733

      stream-icd replay history history/ --out smooth/ --smooth

      stream-icd replay history s3://bucket/history --out again/ --engine ray
    """

    uri: ArchiveUri
    out: Annotated[str | None, typer.Option(help="Archive for the results: a folder or a URI.")] = (
        None
    )
    smooth: Annotated[
        bool,
        typer.Option(
            "--smooth",
            help="Use the windows after each one, too: better communities of the past. Needs "
            "memory, and all windows of a graph in RAM. Excludes --engine ray, --speed and --rate.",
        ),
    ] = False

    def run(self) -> None:
        from stream_icd.cli.replay.run import past_of_archive, run_replay
        from stream_icd.history.archive import nothing_selected
        from stream_icd.replay.results import (
            HistoryResults,
            Results,
            TopicResults,
            check_results_topic,
        )
        from stream_icd.store.store import open_store

        if (self.out is None) == (self.out_topic is None):
            raise BadSettings("give either --out or --out-topic for the results")
        self.tempo()  # a wrong one is refused before anything is opened
        store, selection = open_store(self.uri), self.selection()
        if self.out is not None:
            results: Results = HistoryResults(open_store(self.out))
        else:
            check_results_topic(str(self.out_topic), into_live=self.into_live)
            results = TopicResults(kafka_settings(self.bootstrap_servers), str(self.out_topic))
        run_replay(
            self,
            past_of_archive(store, selection),
            results,
            HistoryResults(store) if self.compare else None,
            nothing=lambda: nothing_selected(store, selection),
            smooth=self.smooth,
        )
