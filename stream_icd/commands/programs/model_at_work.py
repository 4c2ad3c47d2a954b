"""The model of a running detector: fixed, or the champion of a registry, whichever that is."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from functools import partial

import structlog

from stream_icd.commands.programs.worker import WorkerRun
from stream_icd.core.errors import BrokerError
from stream_icd.core.store.store import Store
from stream_icd.kafka.reader import Following
from stream_icd.kafka.topics import MODELS
from stream_icd.kafka.waiting import in_background
from stream_icd.registry.aliases import CHAMPION, Aliases
from stream_icd.registry.announce import announce, refusal
from stream_icd.registry.find import find_model
from stream_icd.registry.model import VersionedModel, read_model
from stream_icd.registry.settings import RegistrySettings, registry_at, required
from stream_icd.streaming.detection.record import RecordDetection
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.execution.processes import Processes
from stream_icd.streaming.workers.model_swap import (
    ChampionFollower,
    ModelSwap,
    Pool,
)

_JOIN_S = 5.0
"""How long a background thread may take to end before it dies with the process."""


def place_of(name: str, registry_uri: str | None) -> Store:
    """Return the folder of a model, see `find_model`; of `champion`, the registry of champions."""
    registry = registry_at(registry_uri)
    return required(registry) if name == CHAMPION else find_model(name, registry)


@contextmanager
def model_at_work(
    run: WorkerRun, name: str, place: Store, settings: DetectSettings, processes: int
) -> Iterator[ModelSwap]:
    """Open the model at its `place_of` in worker processes that detect; close them at the end.

    They may still be warming up: see `ModelSwap.wait_until_warm`. The model `champion` is followed:
    promotions and rollbacks in the registry take effect between two batches.

    Raises `ModelError` if neither the model nor, of the champion, a former champion can be used;
    `BadSettings`, `StoreUnreachable`, `WorkersLost`.
    """
    log, metrics = structlog.get_logger(), run.metrics
    version = settings.version_of

    def swapped(old: VersionedModel, new: VersionedModel) -> None:
        metrics.model(version(new), settings.group)
        metrics.swaps.inc()
        log.info("the model changed", before=version(old), model=version(new))

    def refused(aliases: Aliases, error: Exception) -> None:
        kind = type(error).__name__
        metrics.refused_models.labels(kind).inc()
        log.error(
            "champion refused; the one before it is used",
            model=aliases.champion,
            reason=f"{kind}: {error}",
        )
        now, by = datetime.now(UTC), "consume detect"
        try:
            announce(run.settings, refusal(place, aliases, error, by, now))
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
            swap.start_with_champion(place, run.stop, refused)
            follower = ChampionFollower(place, swap, run.stop, refused)
            metrics.follows_champion(lambda: follower.in_use)
            following = _following(run, follower)
        else:
            swap.begin(read_model(place), place.uri)
        metrics.model(version(swap.model()), settings.group)
        with following:
            yield swap
    finally:
        swap.close()


@contextmanager
def _following(run: WorkerRun, follower: ChampionFollower) -> Iterator[None]:
    nudged, every_s = threading.Event(), RegistrySettings().registry_check_s
    follow = partial(follower.run, nudged, every_s)
    # If the topic cannot be read, changes are noticed at the next regular look.
    news = Following(run.settings, MODELS, lambda _: nudged.set(), run.stop, "latest")
    with (
        in_background(follow, "champion", run.stop, _JOIN_S),
        in_background(news.run, "models-topic", run.stop, _JOIN_S),
    ):
        try:
            yield
        finally:
            run.stop.set()
            nudged.set()
