"""`stream-icd replay`: run detection again on past snapshots."""

import typer

from stream_icd.commands.programs.declared import command, option
from stream_icd.commands.programs.options import (
    ArchiveUri,
    PartOptions,
    PastOptions,
    ReplayOptions,
)
from stream_icd.core.errors import BadSettings

app = typer.Typer(no_args_is_help=True, help="Run detection again on past snapshots.")


@command(app, "topic")
class _ReplayTopic(PartOptions, ReplayOptions):
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
        from stream_icd.commands.cli.replay_run import PastOfTopic, run_replay
        from stream_icd.history.replay.replay import TopicResults
        from stream_icd.kafka.topics import COMMUNITIES, describe_topic

        if self.out_topic is None:
            raise BadSettings("say where results go: --out-topic")
        TopicResults.check(self.out_topic, into_live=self.into_live)
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
class _ReplayHistory(PastOptions, ReplayOptions):
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
        from stream_icd.commands.cli.replay_run import PastOfArchive, run_replay
        from stream_icd.core.store.store import open_store
        from stream_icd.history.replay.replay import HistoryResults, Results, TopicResults

        if (self.out is None) == (self.out_topic is None):
            raise BadSettings("give either --out or --out-topic for the results")
        self.tempo()  # a wrong one is refused before anything is opened
        store, selection = open_store(self.uri), self.selection()
        if self.out is not None:
            results: Results = HistoryResults(open_store(self.out))
        else:
            TopicResults.check(str(self.out_topic), into_live=self.into_live)
            results = TopicResults(self.kafka(), str(self.out_topic))
        run_replay(
            self,
            PastOfArchive(store, selection),
            results,
            HistoryResults(store) if self.compare else None,
            smooth=self.smooth,
        )
