"""`stream-icd replay`: run detection again on past snapshots."""

import os
from typing import Literal

import typer

from stream_icd.errors import BadSettings
from stream_icd.programs.declared import command, option, options
from stream_icd.programs.options import (
    ArchiveUri,
    BrokerOptions,
    DetectionOptions,
    OnlyGraph,
    PartOptions,
    PastOptions,
    TempoOptions,
)

app = typer.Typer(no_args_is_help=True, help="Run detection again on past snapshots.")


@options
class ReplayOptions(TempoOptions, DetectionOptions, BrokerOptions):
    """The options of both commands."""

    graph: OnlyGraph = None
    out_topic: str | None = option(None, "Topic for the results; created if it does not exist.")
    into_live: bool = option(False, "Allow the live topic (icd.communities.v1) as --out-topic.")
    model: str = option(
        "default",
        "Name of a shipped model, a version such as as@b4b47a3e (an error if the model has "
        "another one), the folder of a model (a path or a URI), or with a registry: a version, "
        "champion, or previous.",
    )
    compare: bool = option(False, "Compare with the earlier results: NMI, quality, churn.")
    dry_run: bool = option(False, "Print what would be done, and do nothing.")
    engine: Literal["serial", "pool", "ray"] = option(
        "pool", "serial: this process; pool: processes on this machine; ray: a Ray cluster."
    )
    workers: int | None = option(None, "Processes or actors. Default: one per core.", min=1)
    ray_address: str | None = option(
        None, "Address of a Ray cluster, such as auto. Default: a local cluster is started."
    )

    @property
    def processes(self) -> int:
        """Number of processes or actors that detect."""
        return 1 if self.engine == "serial" else self.workers or os.cpu_count() or 1


@command(app, "topic")
class ReplayTopic(PartOptions, ReplayOptions):
    """Run detection again on snapshots that the topic still holds.

    Results go to --out-topic. After an interruption, run the same command again: it continues.
    With memory, the snapshots before --from are detected too, since the later ones need the memory
    of them; their results are not stored.

      stream-icd replay topic --from 2026-01-31 --out-topic again --dry-run
      stream-icd replay topic --model lfr --out-topic again --compare
      stream-icd replay topic --model champion --registry registry/ --out-topic new
    """

    topic: str = option("icd.snapshots.v1", "Topic that holds the snapshots.")

    def run(self) -> None:
        from stream_icd.cli.replay_run import PastOfTopic, run_replay
        from stream_icd.kafka.topics import COMMUNITIES, describe_topic
        from stream_icd.replay.replay import TopicResults, check_results_topic

        if self.out_topic is None:
            raise BadSettings("say where results go: --out-topic")
        check_results_topic(self.out_topic, into_live=self.into_live)
        if self.out_topic == self.topic:
            raise BadSettings(f"{self.topic} holds the snapshots: give another --out-topic")
        self.tempo()  # a wrong one is refused before the broker is asked
        settings = self.kafka()
        part = self.part(settings, self.topic)
        n_partitions = describe_topic(settings, self.topic).partitions
        run_replay(
            self,
            PastOfTopic(settings, part, self.graph),
            TopicResults(settings, self.out_topic, n_partitions),
            TopicResults(settings, COMMUNITIES) if self.compare else None,
        )


@command(app, "history")
class ReplayHistory(PastOptions, ReplayOptions):
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
    out: str | None = option(None, "Archive for the results: a folder or a URI.")
    smooth: bool = option(
        False,
        "Use the windows after each one, too: better communities of the past. Needs memory, and "
        "all windows of a graph in RAM. Excludes --engine ray, --speed and --rate.",
    )

    def run(self) -> None:
        from stream_icd.cli.replay_run import PastOfArchive, run_replay
        from stream_icd.replay.replay import (
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
            results = TopicResults(self.kafka(), str(self.out_topic))
        run_replay(
            self,
            PastOfArchive(store, selection),
            results,
            HistoryResults(store) if self.compare else None,
            smooth=self.smooth,
        )
