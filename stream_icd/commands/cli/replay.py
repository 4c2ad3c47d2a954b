"""`stream-icd replay`: run detection again on past snapshots."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from math import isnan
from typing import TYPE_CHECKING, Literal

import typer
from rich.table import Table
from rich.text import Text

from stream_icd.commands.programs.declared import command, option, options
from stream_icd.commands.programs.options import (
    ArchiveUri,
    BrokerOptions,
    DetectionOptions,
    OnlyGraph,
    PartOptions,
    PastOptions,
    TempoOptions,
)
from stream_icd.core.errors import BadInput, BadSettings, ModelNotFound, StreamIcdError
from stream_icd.core.printable import printable, say
from stream_icd.kafka.messages.pacing import Tempo

if TYPE_CHECKING:
    from stream_icd.core.communities import Communities
    from stream_icd.core.store.store import Store
    from stream_icd.history.archive import Selection
    from stream_icd.history.replay.compare import ReplayComparison
    from stream_icd.history.replay.redetect import Redetection, ReplayJob, ReplayOutcome
    from stream_icd.history.replay.replay import ReplayPlan, Results
    from stream_icd.kafka.messages.topic_range import TopicRange
    from stream_icd.kafka.settings import KafkaSettings
    from stream_icd.kafka.waiting import Stop
    from stream_icd.registry.model import VersionedModel
    from stream_icd.streaming.execution.work import Engine, First

    _Jobs = Callable[[Stop | None], Generator[ReplayJob, None, None]]
    """Called twice: without a stop, to count the jobs; then to do them, until the stop."""

app = typer.Typer(no_args_is_help=True, help="Run detection again on past snapshots.")


@options
class _ReplayOptions(TempoOptions, DetectionOptions, BrokerOptions):
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
        return 1 if self.engine == "serial" else self.workers or os.cpu_count() or 1

    def replay(
        self,
        past: PastOfTopic | PastOfArchive,
        results: Results,
        before: Results | None,
        *,
        smooth: bool = False,
    ) -> None:
        """Replay, and compare with `before`; exit with 1 if a snapshot was not detected."""
        import structlog

        from stream_icd.commands.programs.process import finish, progress_bar, stop_on_signals
        from stream_icd.core.log import configure_logging
        from stream_icd.history.replay.redetect import Redetection
        from stream_icd.history.replay.replay import ReplayPlan, replay
        from stream_icd.registry.settings import registry_at

        configure_logging()
        name, model = _open_version(self.model, registry_at(self.registry))
        redetection = Redetection(model, self.settings(self.processes), smooth)
        if smooth:
            _check_smooth(self, redetection)
        jobs, first = past(redetection)
        # Until the plan is made, a signal ends the program at once: nothing is to be finished yet.
        plan = ReplayPlan.of(jobs(None), results, redetection)
        if not plan.newest:
            raise past.nothing()
        say(*_plan_lines(plan, results.name, self.tempo()), err=True)
        if self.dry_run:
            return
        stop = stop_on_signals()
        engine = _engine_of(self, name, redetection, stop)
        with progress_bar() as progress, closing(jobs(stop)) as all_jobs:
            task = progress.add_task("detected", total=plan.total)

            def advance(_: ReplayJob) -> None:
                progress.advance(task)

            done = replay(
                all_jobs, plan, engine, results, self.tempo(), time.monotonic, stop, advance, first
            )
        if before is not None and not stop.is_set():
            _compare(plan, before, results)
        counts = {"snapshots": done.snapshots, "already": plan.already, "refused": done.refused}
        if plan.gone and not stop.is_set():
            structlog.get_logger().warning(
                "snapshots were removed or corrected after they were counted: run the replay again",
                snapshots=plan.gone,
            )
        finish(stop, bool(done.refused or plan.gone), **counts, results=results.name)


@command(app, "topic")
class _ReplayTopic(PartOptions, _ReplayOptions):
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
        self.replay(
            PastOfTopic(settings, part, self.graph),
            TopicResults(settings, self.out_topic, n_partitions),
            TopicResults(settings, COMMUNITIES) if self.compare else None,
        )


@command(app, "history")
class _ReplayHistory(PastOptions, _ReplayOptions):
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
        from stream_icd.core.store.store import open_store
        from stream_icd.history.replay.replay import HistoryResults, TopicResults

        if (self.out is None) == (self.out_topic is None):
            raise BadSettings("give either --out or --out-topic for the results")
        self.tempo()  # a wrong one is refused before anything is opened
        store, selection = open_store(self.uri), self.selection()
        if self.out is not None:
            results: Results = HistoryResults(open_store(self.out))
        else:
            TopicResults.check(str(self.out_topic), into_live=self.into_live)
            results = TopicResults(self.kafka(), str(self.out_topic))
        self.replay(
            PastOfArchive(store, selection),
            results,
            HistoryResults(store) if self.compare else None,
            smooth=self.smooth,
        )


@dataclass(frozen=True, slots=True)
class PastOfTopic:
    """The snapshots in a part of a topic; with memory, after those before it."""

    settings: KafkaSettings
    part: TopicRange
    graph: str | None

    def __call__(self, redetection: Redetection) -> tuple[_Jobs, First]:
        from stream_icd.streaming.execution.work import Relay

        return partial(self.jobs, remember=redetection.remembers), Relay.empty

    def jobs(
        self, stop: Stop | None, *, remember: bool = False
    ) -> Generator[ReplayJob, None, None]:
        """Yield the snapshots, to remember also those before the part; log what is none."""
        import structlog

        from stream_icd.history.replay.redetect import ReplayJob
        from stream_icd.kafka.messages.claims import MessageReader

        reader = MessageReader()
        with self.part.read(self.settings, stop, from_beginning=remember) as records:
            for record in records:
                if self.graph is not None and record.key != self.graph.encode():
                    continue
                try:
                    job = ReplayJob.of_record(
                        record, reader, for_memory=not self.part.holds(record)
                    )
                except BadInput as error:
                    structlog.get_logger().warning(
                        "no snapshot", place=record.place, reason=str(error)
                    )
                else:
                    yield job

    def nothing(self) -> StreamIcdError:
        of = "no snapshot" if self.graph is None else f"no snapshot of graph {self.graph}"
        start, end = self.part.said()
        return BadSettings(
            f"{self.part.topic} holds {of} from {start or 'the beginning'} to {end or 'the end'}"
        )


@dataclass(frozen=True, slots=True)
class PastOfArchive:
    """The snapshots of an archive; with memory, after what it holds of the time before."""

    store: Store
    selection: Selection

    def __call__(self, redetection: Redetection) -> tuple[_Jobs, First]:
        from stream_icd.history.archive import Archive
        from stream_icd.history.replay.redetect import ReplayJob
        from stream_icd.streaming.execution.work import Relay
        from stream_icd.wire.limits import Limits

        job = partial(ReplayJob.of_archived, self.store.uri, limits=Limits())
        archive = Archive(self.store)
        chosen = partial(archive.windows, self.selection)
        if not redetection.remembers:
            return lambda _: (job(window) for window in chosen()), Relay.empty
        memory = redetection.starts(archive, self.selection)

        def jobs(_: Stop | None) -> Generator[ReplayJob, None, None]:
            for window in memory.earlier:
                yield job(window, for_memory=True, era=memory.era(window))
            for window in chosen():
                yield job(window, era=memory.era(window))

        return jobs, lambda chain: Relay(memory.at_start(chain))

    def nothing(self) -> StreamIcdError:
        from stream_icd.history.archive import Archive

        return Archive(self.store).nothing_selected(self.selection)


def _engine_of(
    options: _ReplayOptions, model_name: str, redetection: Redetection, stop: Stop
) -> Engine[ReplayJob, ReplayOutcome]:
    from stream_icd.history.replay.smooth import smoothing_engine
    from stream_icd.streaming.execution.processes import in_processes
    from stream_icd.streaming.execution.work import InProcess

    if options.ray_address is not None and options.engine != "ray":
        raise BadSettings("--ray-address goes with --engine ray")
    if options.engine == "ray":
        from stream_icd.history.replay.ray_engine import RayActors

        return RayActors(redetection, options.processes, options.ray_address, stop)
    pool = partial(in_processes, model_name=model_name, count=options.processes)
    opened = InProcess if options.engine == "serial" else pool
    return smoothing_engine(redetection, opened) if redetection.smooth else opened(redetection)


def _check_smooth(options: _ReplayOptions, redetection: Redetection) -> None:
    method = redetection.model.model.method_for(options.method)
    if method != "bp" or not redetection.remembers:
        raise BadSettings(
            "--smooth needs memory: --memory auto, --method bp, and a model whose stay is above 0"
        )
    if options.engine == "ray":
        raise BadSettings("--smooth works with --engine pool or serial, not ray")
    if options.tempo() != Tempo():
        raise BadSettings("--smooth excludes --speed and --rate: it needs all windows at once")


def _open_version(text: str, registry: Store | None) -> tuple[str, VersionedModel]:
    """The model of that name, folder or version, and what `open_model` finds it by.

    Raises `ModelNotFound` if there is none or it has another version now; or as `open_model`.
    """
    from stream_icd.registry.aliases import CHAMPION, PREVIOUS
    from stream_icd.registry.find import find_model, open_model
    from stream_icd.registry.versions import versions

    if text in (CHAMPION, PREVIOUS) or (registry is not None and text in versions(registry)):
        place = find_model(text, registry).uri
        return place, open_model(place)
    name, at, _ = text.rpartition("@")
    if not at or os.path.isdir(text):
        return text, open_model(text)
    model = open_model(name)
    if model.version != text:
        raise ModelNotFound(f"model {name} is {model.version} now, not {text}: give its folder")
    return name, model


def _compare(plan: ReplayPlan, before: Results, results: Results) -> None:
    from stream_icd.commands.programs.process import wide_console
    from stream_icd.history.replay.compare import compare

    def replayed(communities: Communities) -> bool:
        revision = plan.newest.get((communities.graph, communities.snapshot_id))
        return communities.model == plan.redetection.version and communities.revision == revision

    def older(communities: Communities) -> bool:
        return before.name != results.name or not replayed(communities)

    old, new = before.read(plan.newest), results.read(plan.newest)
    comparison = compare(filter(older, old), filter(replayed, new))
    wide_console().print(_qualities_table(comparison), _agreements_table(comparison))
    if not comparison.agreements:
        say(f"{before.name} holds no other results of these snapshots to compare with", err=True)


def _plan_lines(plan: ReplayPlan, where: str, tempo: Tempo) -> Iterator[str]:
    from stream_icd.core.times import LONGEST

    for graph, count in sorted(plan.graphs.items()):
        yield f"{count:,} snapshots of {graph}"
    if plan.first is not None:
        yield f"windows that end from {plan.first:%Y-%m-%d %X} to {plan.last:%Y-%m-%d %X} UTC"
    yield f"to be detected with {plan.redetection.version}, results to {where}"
    earlier = sum(graph in plan.graphs for graph, _ in plan.earlier)
    if plan.redetection.remembers and earlier:
        yield f"{earlier:,} earlier snapshots are detected first, for the memory of them"
    if plan.already:
        yield f"{plan.already:,} results are there already and stay as they are"
    if seconds := plan.seconds(tempo):
        seconds = min(seconds, LONGEST.total_seconds())
        yield f"takes {timedelta(seconds=round(seconds))} at the least"


def _qualities_table(comparison: ReplayComparison) -> Table:
    table = Table("graph", "model", "when", title="quality, means over the windows", box=None)
    for name in ("windows", "communities", "modularity", "NCut", "churn", "horizon", "predicted"):
        table.add_column(name, justify="right")
    for quality in comparison.qualities:
        table.add_row(
            *(Text(printable(part)) for part in quality.version),
            f"{quality.windows:,}",
            f"{quality.communities:.1f}",
            f"{quality.modularity:.4f}",
            f"{quality.ncut:.3f}",
            f"{quality.churn:.4f}",
            "-" if isnan(quality.horizon) else f"{quality.horizon:.1f}",
            "-" if isnan(quality.predicted_bits) else f"{quality.predicted_bits:.3f}",
        )
    return table


def _agreements_table(comparison: ReplayComparison) -> Table:
    table = Table("before", "replayed", title="agreement of versions", box=None)
    for name in ("windows", "the same", "NMI", "least NMI", "at"):
        table.add_column(name, justify="right")
    for agreement in comparison.agreements:
        pair = agreement.before, agreement.replayed
        table.add_row(
            *(Text(printable(f"{graph} {model}")) for graph, model, _ in pair),
            f"{agreement.windows:,}",
            f"{agreement.same:,}",
            f"{agreement.nmi:.4f}",
            f"{agreement.least_nmi:.4f}",
            Text(printable(agreement.least_at)),
        )
    return table
