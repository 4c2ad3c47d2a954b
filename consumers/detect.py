"""`stream-icd consume detect`: find the communities of each snapshot that arrives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from stream_icd import programs
from stream_icd.commands.programs.declared import command, option
from stream_icd.commands.programs.options import DeliveryOption, DetectionOptions, WorkerOptions
from stream_icd.core.errors import BadSettings

if TYPE_CHECKING:
    from threading import Event

    from stream_icd.core.store.store import Store
    from stream_icd.methods.bp.known import Known
    from stream_icd.registry.aliases import Aliases
    from stream_icd.registry.model import VersionedModel
    from stream_icd.streaming.detection.settings import DetectSettings
    from stream_icd.streaming.workers.model_swap import ModelSwap, Pool

app = typer.Typer()

_TOPIC = Path("topic")
"""`--known topic`; a file of this name is given with its folder, as `/data/topic`."""

_JOIN_S = 5.0
"""How long a background thread may take to end before it dies with the process."""


@command(app, "detect")
class Detect(DetectionOptions, WorkerOptions):
    """Detect communities: read icd.snapshots.v1, write icd.communities.v1.

    What the windows before showed improves the communities of the next one, and communities have
    ids that last. The memory of each graph is published to icd.memory.v1 with
    each result, and read again after a restart. Windows of a graph are detected one after the
    other, so --processes works on several graphs at a time.

    A snapshot that breaks the contract, or exceeds its budget of time or memory, goes to
    icd.snapshots.v1.dlq with the reason, and the detector continues. You can start several: they
    share the topic's partitions.

      stream-icd consume detect --model lfr
      stream-icd consume detect --processes 4
      stream-icd consume detect --model champion --registry s3://bucket/models
    """

    model: str = option(
        "default",
        "Name of a shipped model, the folder of one (a path, or a URI such as s3://bucket/mine), "
        "or with a registry: a version, or champion. With champion, the detector starts with the "
        "newest champion and changes to each later one between two batches, without a restart.",
    )
    delivery: DeliveryOption = "auto"
    batch: int | None = option(
        None,
        "Maximum number of snapshots published together. Default: 16 per process; with memory and "
        "several processes, 32 per process, so that several graphs are among them; else fewer, at "
        "least one per process, if these take longer than 2 seconds.",
        min=1,
    )
    processes: int = option(
        1,
        "Number of worker processes; each works on one snapshot at a time. Use one per core. "
        "Results keep their order. With memory, they work on different graphs.",
        min=1,
    )

    known: Path | None = option(
        None,
        "Table of nodes whose communities are known (CSV, JSON lines or Parquet): columns graph, "
        "node and community. Nodes of one label are in one community, and it keeps its id. The "
        "number of communities is determined. A table is read once, at the start. topic: read "
        "icd.known.v1, where known nodes may change (docs/known.md).",
        metavar="FILE|topic",
    )
    known_fixed: bool = option(
        False, "Known nodes are certainly in their communities, whatever their edges say."
    )

    levels: bool = option(
        False,
        "Also publish which communities are one on further levels, if any save bits "
        "(docs/levels.md).",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.known_fixed and self.known is None:
            raise BadSettings(
                "--known-fixed needs nodes that are known: give --known FILE, or --known topic"
            )
        if self.known is not None and self.k is not None:
            raise BadSettings("--k and --known exclude each other: leave one of them out")

    def run(self) -> None:
        from stream_icd.streaming.execution.worker_process import start_fork_server

        start_fork_server()  # first, since it takes as long as what follows
        from structlog import get_logger

        from stream_icd.kafka.topics import SNAPSHOTS
        from stream_icd.streaming.workers.detect import Detector
        from stream_icd.streaming.workers.memories import Memories

        remembers = self.memory == "auto"
        most, at_once = batch_limits(self.processes, remembers)
        settings = self.settings(self.processes, self.group_of("detect"))
        if self.levels:
            settings = replace(settings, levels=True)
        follows = self.known == _TOPIC
        if follows:
            settings = replace(settings, follows_known=True)
        elif self.known is not None:
            from stream_icd.methods.bp.known import Known
            from stream_icd.sources.node_tables import read_known

            known = {
                graph: Known.from_labels(labels, fixed=self.known_fixed)
                for graph, labels in read_known(self.known, self.graph).items()
            }
            settings = replace(settings, known=known)
        place = place_of(self.model, self.registry)

        def detector(run: programs.WorkerRun) -> dict[str, Detector]:
            memories = None
            known_now: Callable[[], Mapping[str, Known]] = dict
            if follows:
                from stream_icd.streaming.subscribers.known_topic import following_known

                following = following_known(run.settings, self.graph, fixed=self.known_fixed)
                known_now = run.until_the_end.enter_context(following).now
            for graph, known in settings.known.items():
                get_logger().info("communities are known", graph=graph, nodes=len(known.nodes))
            if remembers:
                memories = Memories.open(run.settings, settings.group)
                run.metrics.memory(lambda: memories.n_bytes, lambda: memories.n_restored)
            working = model_at_work(run, self.model, place, settings, self.processes)
            swap = run.until_the_end.enter_context(working)
            room = partial(run.room, settings.memory_topic)
            warm = partial(swap.wait_until_warm, run.stop)
            detector = Detector(
                swap.model, settings, swap, memories, room, warm, at_once, known_now
            )
            return {SNAPSHOTS: detector}

        programs.run_worker(
            detector, self, "detect", delivery=self.delivery, batch=self.batch or most
        )


def batch_limits(processes: int, remembers: bool) -> tuple[int, int | None]:
    """The most snapshots of a batch, and how many are worked on at once, if that limits batches.

    With memory, several processes need several graphs in a batch. The client gives the snapshots of
    one partition first, so few snapshots would be of one graph.
    """
    from stream_icd.streaming.execution.work import IN_HAND, IN_HAND_OF_CHAINS

    if remembers and processes > 1:
        return processes * IN_HAND_OF_CHAINS, None
    return processes * IN_HAND, processes


def place_of(name: str, registry_uri: str | None) -> Store:
    """Return the folder of a model, see `find_model`; of `champion`, the registry of champions."""
    from stream_icd.registry.aliases import CHAMPION
    from stream_icd.registry.find import find_model
    from stream_icd.registry.settings import registry_at, required

    registry = registry_at(registry_uri)
    return required(registry) if name == CHAMPION else find_model(name, registry)


@contextmanager
def model_at_work(
    run: programs.WorkerRun, name: str, place: Store, settings: DetectSettings, processes: int
) -> Iterator[ModelSwap]:
    """Open the model at its `place_of` in worker processes that detect; close them at the end.

    They may still be warming up: see `ModelSwap.wait_until_warm`. The model `champion` is followed:
    promotions and rollbacks in the registry take effect between two batches.

    Raises `ModelError` if neither the model nor, of the champion, a former champion can be used;
    `BadSettings`, `StoreUnreachable`, `WorkersLost`.
    """
    from datetime import UTC, datetime

    from structlog import get_logger

    from stream_icd.core.errors import BrokerError
    from stream_icd.registry.aliases import CHAMPION
    from stream_icd.registry.announce import announce, change
    from stream_icd.registry.model import read_model
    from stream_icd.streaming.detection.record import RecordDetection
    from stream_icd.streaming.execution.processes import Processes
    from stream_icd.streaming.workers.model_swap import ModelSwap

    log, metrics = get_logger(), run.metrics
    version = settings.version_of

    def swapped(old: VersionedModel, new: VersionedModel) -> None:
        metrics.model(version(new), settings.group)
        metrics.swaps.inc()
        log.info("the model changed", before=version(old), model=version(new))

    def refused(aliases: Aliases, error: Exception) -> None:
        kind = type(error).__name__
        reason, champion = f"{kind}: {error}", change(place, aliases)
        metrics.refused_models.labels(kind).inc()
        log.error(
            "champion refused; the one before it is used", model=aliases.champion, reason=reason
        )
        now, by = datetime.now(UTC), "consume detect"
        try:
            announce(run.settings, replace(champion, kind="refused", reason=reason, by=by, at=now))
        except BrokerError as failed:
            log.info("the refusal is not announced", reason=f"{type(failed).__name__}: {failed}")

    def opening(model: VersionedModel, uri: str) -> AbstractContextManager[Pool]:
        log.info("warming up", model=version(model))
        detection = RecordDetection(model, settings)
        return Processes(detection, uri, processes, again=False)

    swap = ModelSwap(opening, swapped)
    metrics.processes(lambda: swap.alive, lambda: swap.resident_bytes)
    metrics.in_hand(lambda: swap.in_hand)
    following: AbstractContextManager[None] = nullcontext()
    try:
        if name == CHAMPION:
            follower = swap.start_with_champion(place, run.stop, refused)
            metrics.follows_champion(lambda: follower.in_use)
            following = _following(run, follower.run)
        else:
            swap.begin(read_model(place), place.uri)
        metrics.model(version(swap.model()), settings.group)
        with following:
            yield swap
    finally:
        swap.close()


@contextmanager
def _following(run: programs.WorkerRun, follow: Callable[[Event, float], object]) -> Iterator[None]:
    import threading

    from stream_icd.kafka.reader import Following
    from stream_icd.kafka.topics import MODELS
    from stream_icd.kafka.waiting import in_background
    from stream_icd.registry.settings import RegistrySettings

    nudged, every_s = threading.Event(), RegistrySettings().registry_check_s
    # If the topic cannot be read, changes are noticed at the next regular look.
    news = Following(run.settings, MODELS, lambda _: nudged.set(), run.stop, "latest")
    with (
        in_background(partial(follow, nudged, every_s), "champion", run.stop, _JOIN_S),
        in_background(news.run, "models-topic", run.stop, _JOIN_S),
    ):
        try:
            yield
        finally:
            run.stop.set()
            nudged.set()
