"""What both replay commands do: say what will happen, do it with a progress bar, compare."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import chain

import structlog
import typer

from stream_icd.cli.replay.command import ReplayOptions
from stream_icd.cli.replay.tables import agreements_table, plan_lines, qualities_table
from stream_icd.cli.wide_console import wide_console
from stream_icd.communities import Communities
from stream_icd.detection.settings import DetectSettings, has_memory
from stream_icd.errors import BadInput, BadSettings, ModelNotFound, StreamIcdError
from stream_icd.execution.engines import Engine, InProcess, ProcessPool
from stream_icd.execution.relay import First
from stream_icd.execution.relay import nothing as nothing_before
from stream_icd.history.archive import Selection, windows
from stream_icd.history.parquet import ArchivedWindow
from stream_icd.kafka.clock import Stop
from stream_icd.kafka.record import Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.log import configure_logging
from stream_icd.messages.claims import MessageReader
from stream_icd.messages.records import Refused
from stream_icd.messages.topic_range import TopicRange, read_range
from stream_icd.printable import say
from stream_icd.programs.options import chosen_horizon, threads_for
from stream_icd.programs.process import stop_on_signals
from stream_icd.programs.producer import INTERRUPTED, progress_bar
from stream_icd.registry.aliases import CHAMPION, PREVIOUS
from stream_icd.registry.find import find_model
from stream_icd.registry.settings import registry_at
from stream_icd.registry.shipped import VersionedModel, open_model
from stream_icd.registry.versions import versions
from stream_icd.replay.archived_memory import archived_memory
from stream_icd.replay.compare import compare
from stream_icd.replay.pacing import Tempo
from stream_icd.replay.redetect import Job, Outcome, Redetection, archived_job, record_job
from stream_icd.replay.replay import Plan, make_plan, replay
from stream_icd.replay.results import Results
from stream_icd.replay.smooth import Graph, SmoothedGraphs, Smoothing
from stream_icd.store.store import Store
from stream_icd.wire.limits import Limits

Jobs = Callable[[Stop | None], AbstractContextManager[Iterable[Job]]]
"""Gives the jobs anew each time: once to say what there is, once to do it, until the stop."""


Past = Callable[[Redetection], tuple[Jobs, First]]
"""Gives the jobs of a redetection, and the memory of each graph before its first job."""


def detect_settings(options: ReplayOptions) -> DetectSettings:
    """Settings of the detection."""
    return DetectSettings(
        memory=options.memory,
        horizon=chosen_horizon(options.horizon, options.memory),
        n_communities=options.k,
        method=options.method,
        seed=options.seed,
        threads=threads_for(options.threads, n_workers(options)),
    )


def n_workers(options: ReplayOptions) -> int:
    """How many processes or actors detect."""
    return 1 if options.engine == "serial" else options.workers or os.cpu_count() or 1


def past_of_topic(settings: KafkaSettings, part: TopicRange, graph: str | None) -> Past:
    """The snapshots in a part of a topic; with memory, after those before it."""

    def past(redetection: Redetection) -> tuple[Jobs, First]:
        remember = has_memory(redetection.model, redetection.settings)
        return topic_jobs(settings, part, graph, remember=remember), nothing_before

    return past


def past_of_archive(store: Store, selection: Selection) -> Past:
    """The snapshots of an archive; with memory, after what it holds of the time before."""

    def past(redetection: Redetection) -> tuple[Jobs, First]:
        if not has_memory(redetection.model, redetection.settings):
            return archived_jobs(store, selection), nothing_before
        memory = archived_memory(store, selection, redetection.version)
        return archived_jobs(store, selection, memory.earlier, memory.era), memory

    return past


def topic_jobs(
    settings: KafkaSettings, part: TopicRange, graph: str | None, *, remember: bool = False
) -> Jobs:
    """The snapshots in a part of a topic; what is no snapshot is logged and passed over.

    Args:
        remember: also the snapshots before the part, which are detected for their memory.
    """
    reader = MessageReader()

    @contextmanager
    def jobs(stop: Stop | None) -> Iterator[Iterable[Job]]:
        with read_range(settings, part, stop, from_beginning=remember) as records:
            yield (
                job
                for record in records
                if graph is None or record.key == graph.encode()
                for job in good(record)
            )

    def good(record: Record) -> Iterator[Job]:
        try:
            yield record_job(record, reader, for_memory=not part.holds(record))
        except BadInput as error:
            structlog.get_logger().warning("no snapshot", place=record.place, reason=str(error))

    return jobs


def no_snapshots(part: TopicRange, graph: str | None) -> BadSettings:
    """The error for a part of a topic in which there is nothing to replay."""
    of = "no snapshot" if graph is None else f"no snapshot of graph {graph}"
    start, end = part.start or "the beginning", part.end or "the end"
    return BadSettings(f"{part.topic} holds {of} from {start} to {end}")


def archived_jobs(
    store: Store,
    selection: Selection,
    earlier: Iterable[ArchivedWindow] = (),
    era: Callable[[ArchivedWindow], int] = lambda _: 0,
) -> Jobs:
    """The snapshots of an archive, after the earlier ones that are detected for their memory.

    Args:
        era: returns how often the graph of a snapshot had started anew before it.
    """

    @contextmanager
    def jobs(_: Stop | None) -> Iterator[Iterable[Job]]:
        job = partial(archived_job, store.uri, limits=Limits())
        yield chain(
            (job(one, for_memory=True, era=era(one)) for one in earlier),
            (job(one, era=era(one)) for one in windows(store, selection)),
        )

    return jobs


def run_replay(
    options: ReplayOptions,
    past: Past,
    results: Results,
    before: Results | None,
    *,
    nothing: Callable[[], StreamIcdError],
    smooth: bool = False,
) -> None:
    """Replay, and show it.

    Args:
        past: what to replay.
        before: what to compare with, if that is wanted.
        nothing: the error to raise if there is nothing to replay.
        smooth: use the windows after each one, too.

    Raises:
        SourceNotFound, BadSettings: there is nothing to replay.
        typer.Exit: 1 where snapshots could not be detected; 130 where it was stopped.
        ModelError, BrokerError, StoreError, HistoryDamaged: as their texts say.
    """
    configure_logging()
    name, model = open_version(options.model, registry_at(options.registry))
    redetection = Redetection(model, detect_settings(options), smooth)
    if smooth:
        check_smooth(options, redetection)
    jobs, first = past(redetection)
    with jobs(None) as all_jobs:  # a signal ends the program here
        plan = make_plan(all_jobs, results, redetection)
    if not plan.newest:
        raise nothing()
    say(*plan_lines(plan, redetection.version, results.name, options.tempo()), err=True)
    if options.dry_run:
        return
    _detect(options, jobs, plan, engine_of(options, name, redetection), results, first)
    if before is not None:
        _compare(plan, redetection.version, before, results)


def engine_of(
    options: ReplayOptions, model_name: str, redetection: Redetection
) -> Engine[Job, Outcome]:
    """The engine that is asked for.

    Raises:
        BadSettings: an address of a cluster, and another engine.
    """
    workers = n_workers(options)
    if options.ray_address is not None and options.engine != "ray":
        raise BadSettings("--ray-address goes with --engine ray")
    if redetection.smooth:
        smoothing = Smoothing(redetection.model, redetection.settings)
        of_graphs: Engine[Graph, tuple[Outcome, ...] | Refused] = InProcess(smoothing)
        if options.engine == "pool":
            of_graphs = ProcessPool(smoothing, model_name, workers)
        return SmoothedGraphs(of_graphs)
    if options.engine == "serial":
        return InProcess(redetection)
    if options.engine == "pool":
        return ProcessPool(redetection, model_name, workers)
    from stream_icd.replay.ray_engine import RayActors

    return RayActors(redetection, workers, options.ray_address)


def check_smooth(options: ReplayOptions, redetection: Redetection) -> None:
    """Check that smoothing is possible.

    Raises:
        BadSettings: it needs memory, one of the engines pool and serial, and no tempo.
    """
    remembers = has_memory(redetection.model, redetection.settings)
    if options.method != "bp" or not remembers:
        raise BadSettings(
            "--smooth needs memory: --memory auto, --method bp, and a model whose stay is above 0"
        )
    if options.engine == "ray":
        raise BadSettings("--smooth works with --engine pool or serial, not ray")
    if options.tempo() != Tempo():
        raise BadSettings("--smooth excludes --speed and --rate: it needs all windows at once")


def open_version(text: str, registry: Store | None = None) -> tuple[str, VersionedModel]:
    """The model of that name, folder or version, and what `open_model` finds it by.

    Args:
        registry: where `champion`, `previous` and versions are looked for first.

    Raises:
        ModelNotFound: there is none, or it has another version now.
        ModelError: its files cannot be used.
        BadSettings: `champion` or `previous` without a registry.
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


def _detect(
    options: ReplayOptions,
    jobs: Jobs,
    plan: Plan,
    engine: Engine[Job, Outcome],
    results: Results,
    first: First,
) -> None:
    stop = stop_on_signals()
    with progress_bar() as progress, jobs(stop) as all_jobs:
        task = progress.add_task("detected", total=plan.total)
        done = replay(
            all_jobs,
            plan,
            engine,
            results,
            options.tempo(),
            time.monotonic,
            stop,
            on_outcome=lambda _: progress.advance(task),
            first=first,
        )
    structlog.get_logger().info(
        "stopped" if stop.is_set() else "finished",
        snapshots=done.snapshots,
        already=plan.already,
        refused=done.refused,
        results=results.name,
    )
    if stop.is_set():
        raise typer.Exit(INTERRUPTED)
    if done.refused:
        raise typer.Exit(1)


def _compare(plan: Plan, version: str, before: Results, results: Results) -> None:
    def replayed(one: Communities) -> bool:
        revision = plan.newest.get((one.graph, one.snapshot_id))
        return one.model == version and one.revision == revision

    def older(one: Communities) -> bool:
        return before.name != results.name or not replayed(one)

    found = compare(filter(older, before.read()), filter(replayed, results.read()))
    wide_console().print(qualities_table(found), agreements_table(found))
