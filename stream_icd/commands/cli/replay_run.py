"""What both replay commands do: say what will happen, do it with a progress bar, compare."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from math import isnan

import structlog
from rich.table import Table
from rich.text import Text

from stream_icd.commands.programs.options import ReplayOptions
from stream_icd.commands.programs.process import finish, progress_bar, stop_on_signals, wide_console
from stream_icd.core.communities import Communities
from stream_icd.core.errors import BadInput, BadSettings, ModelNotFound, StreamIcdError
from stream_icd.core.log import configure_logging
from stream_icd.core.printable import printable, say
from stream_icd.core.store.store import Store
from stream_icd.core.times import LONGEST
from stream_icd.history.archive import Selection, nothing_selected, windows
from stream_icd.history.replay.compare import ReplayComparison, compare
from stream_icd.history.replay.redetect import (
    Job,
    Outcome,
    Redetection,
    archived_job,
    archived_memory,
    record_job,
)
from stream_icd.history.replay.replay import ReplayPlan, Results, replay
from stream_icd.history.replay.smooth import smoothing_engine
from stream_icd.kafka.messages.claims import MessageReader
from stream_icd.kafka.messages.pacing import Tempo
from stream_icd.kafka.messages.topic_range import TopicRange
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.waiting import Stop
from stream_icd.registry.aliases import CHAMPION, PREVIOUS
from stream_icd.registry.find import find_model, open_model
from stream_icd.registry.model import VersionedModel
from stream_icd.registry.settings import registry_at
from stream_icd.registry.versions import versions
from stream_icd.streaming.execution.processes import in_processes
from stream_icd.streaming.execution.work import Engine, First, InProcess
from stream_icd.wire.limits import Limits

_Jobs = Callable[[Stop | None], Generator[Job, None, None]]
"""Gives the jobs anew each time: once to say what there is, once to do it, until the stop."""


@dataclass(frozen=True, slots=True)
class PastOfTopic:
    """The snapshots in a part of a topic; with memory, after those before it."""

    settings: KafkaSettings
    part: TopicRange
    graph: str | None

    def __call__(self, redetection: Redetection) -> tuple[_Jobs, First]:
        return partial(self.jobs, remember=redetection.remembers), First()

    def jobs(self, stop: Stop | None, *, remember: bool = False) -> Generator[Job, None, None]:
        """Yield the snapshots, to remember also those before the part; log what is none."""
        reader = MessageReader()
        with self.part.read(self.settings, stop, from_beginning=remember) as records:
            for record in records:
                if self.graph is not None and record.key != self.graph.encode():
                    continue
                try:
                    job = record_job(record, reader, for_memory=not self.part.holds(record))
                except BadInput as error:
                    log = structlog.get_logger()
                    log.warning("no snapshot", place=record.place, reason=str(error))
                else:
                    yield job

    def nothing(self) -> StreamIcdError:
        """Return the error for a past without snapshots."""
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
        job = partial(archived_job, self.store.uri, limits=Limits())
        if not redetection.remembers:
            return lambda _: (job(one) for one in windows(self.store, self.selection)), First()
        memory = archived_memory(self.store, self.selection, redetection)

        def jobs(_: Stop | None) -> Generator[Job, None, None]:
            for window in memory.earlier:
                yield job(window, for_memory=True, era=memory.era(window))
            for window in windows(self.store, self.selection):
                yield job(window, era=memory.era(window))

        return jobs, First(memory.at_start)

    def nothing(self) -> StreamIcdError:
        """Return the error for a past without snapshots."""
        return nothing_selected(self.store, self.selection)


def run_replay(
    options: ReplayOptions,
    past: PastOfTopic | PastOfArchive,
    results: Results,
    before: Results | None,
    *,
    smooth: bool = False,
) -> None:
    """Replay, show it, and compare it with `before`; exit with 1 if a snapshot was not detected."""
    configure_logging()
    name, model = _open_version(options.model, registry_at(options.registry))
    redetection = Redetection(model, options.settings(options.processes), smooth)
    if smooth:
        check_smooth(options, redetection)
    jobs, first = past(redetection)
    plan = ReplayPlan.of(jobs(None), results, redetection)  # a signal ends the program here
    if not plan.newest:
        raise past.nothing()
    say(*_plan_lines(plan, results.name, options.tempo()), err=True)
    if options.dry_run:
        return
    stop = stop_on_signals()
    engine = _engine_of(options, name, redetection, stop)
    with progress_bar() as progress, closing(jobs(stop)) as all_jobs:
        task = progress.add_task("detected", total=plan.total)

        def advance(_: Job) -> None:
            progress.advance(task)

        done = replay(
            all_jobs, plan, engine, results, options.tempo(), time.monotonic, stop, advance, first
        )
    if before is not None and not stop.is_set():
        _compare(plan, before, results)
    counts = {"snapshots": done.snapshots, "already": plan.already, "refused": done.refused}
    if plan.gone and not stop.is_set():
        why = "snapshots were removed or corrected after they were counted: run the replay again"
        structlog.get_logger().warning(why, snapshots=plan.gone)
    finish(stop, bool(done.refused or plan.gone), **counts, results=results.name)


def _engine_of(
    options: ReplayOptions, model_name: str, redetection: Redetection, stop: Stop
) -> Engine[Job, Outcome]:
    if options.ray_address is not None and options.engine != "ray":
        raise BadSettings("--ray-address goes with --engine ray")
    if redetection.smooth:
        if options.engine == "pool":
            return smoothing_engine(
                redetection, lambda work: in_processes(work, model_name, options.processes)
            )
        return smoothing_engine(redetection, InProcess)
    if options.engine == "serial":
        return InProcess(redetection)
    if options.engine == "pool":
        return in_processes(redetection, model_name, options.processes)
    from stream_icd.history.replay.ray_engine import RayActors

    return RayActors(redetection, options.processes, options.ray_address, stop)


def check_smooth(options: ReplayOptions, redetection: Redetection) -> None:
    """Check that smoothing is possible."""
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
    def replayed(communities: Communities) -> bool:
        revision = plan.newest.get((communities.graph, communities.snapshot_id))
        return communities.model == plan.redetection.version and communities.revision == revision

    def older(communities: Communities) -> bool:
        return before.name != results.name or not replayed(communities)

    old, new = before.read(plan.newest), results.read(plan.newest)
    comparison = compare(filter(older, old), filter(replayed, new))
    wide_console().print(qualities_table(comparison), agreements_table(comparison))
    if not comparison.agreements:
        say(f"{before.name} holds no other results of these snapshots to compare with", err=True)


def _plan_lines(plan: ReplayPlan, where: str, tempo: Tempo) -> Iterator[str]:
    """What will be detected, with what, where it goes, and how long it takes at the least."""
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


def qualities_table(comparison: ReplayComparison) -> Table:
    """A line a version."""
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


def agreements_table(comparison: ReplayComparison) -> Table:
    """A line a pair of versions."""
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
