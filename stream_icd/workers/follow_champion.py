"""Follow the champion of a registry: load it in the background, refuse one that cannot be used."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from stream_icd.errors import Action, StreamIcdError
from stream_icd.kafka.waiting import Stop
from stream_icd.registry.aliases import Aliases, champion, champions
from stream_icd.registry.versions import open_version, version_folder
from stream_icd.store.store import Store
from stream_icd.workers.model_swap import ModelSwap

TRY_AGAIN_S = 300.0
"""Interval between attempts to load a version that was refused; its files may be repaired."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A champion that a detector does not use, and why."""

    aliases: Aliases
    error: Exception

    @property
    def version(self) -> str:
        return self.aliases.champion


OnRefusal = Callable[[Refusal], None]


def start_with_champion(
    registry: Store, swap: ModelSwap, stop: Stop, on_refusal: OnRefusal
) -> None:
    """Start with the champion, or with the newest one before it that can be used.

    Raises:
        ModelNotFound: nothing was promoted yet.
        ModelError: none of them can be used; the error is that of the champion.
        WorkersLost, StoreUnreachable: see these classes; try again.
    """
    first: Exception | None = None
    for aliases in champions(registry):
        try:
            model = open_version(registry, aliases.champion)
            swap.start(model, version_folder(registry, model.version).uri, stop)
            return
        except Exception as error:
            if not is_the_models_fault(error):
                raise
            first = first or error
            on_refusal(Refusal(aliases, error))
    assert first is not None, "there is a champion"
    raise first


def is_the_models_fault(error: Exception) -> bool:
    """Return whether another model may work where this one failed."""
    if isinstance(error, StreamIcdError):
        return error.action is not Action.RETRY
    return not isinstance(error, (OSError, MemoryError))


class ChampionFollower:
    """Makes a detector use the registry's champion, some time after each promotion.

    A champion that cannot be loaded, or that worker processes cannot open, is refused: the
    detector keeps its model, and `on_refusal` is called once. If the registry does not answer, or a
    look fails otherwise, the detector keeps its model, and this is logged once.

    Args:
        stop: also ends a load that is in progress.
    """

    def __init__(
        self,
        registry: Store,
        swap: ModelSwap,
        stop: Stop,
        on_refusal: OnRefusal,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._registry = registry
        self._swap = swap
        self._stop = stop
        self._on_refusal = on_refusal
        self._monotonic = monotonic
        self._refused: tuple[str, str, float] | None = None
        self._trouble: str | None = None
        self._wanted = swap.current

    @property
    def in_use(self) -> bool:
        """Whether the detector uses the champion, as far as the last look could tell."""
        return self._swap.current == self._wanted

    def look(self) -> None:
        """Compare the champion with the model in use; load it if it is another one."""
        try:
            self._follow(champion(self._registry))
            self._say(None)
        except Exception as error:  # or the thread would end, and follow nothing any more
            self._say(error)

    def run(self, nudged: threading.Event, every_s: float) -> None:
        """Look every `every_s` seconds, and when `nudged` is set, until `stop`."""
        while not self._stop.is_set():
            nudged.wait(every_s)
            nudged.clear()
            if not self._stop.is_set():
                self.look()

    def _follow(self, aliases: Aliases) -> None:
        self._wanted = version = aliases.champion
        refused, _, at = self._refused or (None, "", 0.0)
        refused_lately = refused == aliases.id and self._monotonic() - at < TRY_AGAIN_S
        if version == self._swap.newest or refused_lately:
            return
        if version == self._swap.current:
            self._swap.keep()
            return
        try:
            model = open_version(self._registry, version)
            place = version_folder(self._registry, version).uri
            self._swap.prepare(model, place, self._stop)
            self._refused = None
        except Exception as error:  # a worker process raises whatever the model makes it raise
            if not is_the_models_fault(error):
                raise
            self._refuse(Refusal(aliases, error))

    def _refuse(self, refusal: Refusal) -> None:
        before = self._refused
        this = refusal.aliases.id, str(refusal.error)
        self._refused = (*this, self._monotonic())
        if before is None or before[:2] != this:
            self._on_refusal(refusal)

    def _say(self, error: Exception | None) -> None:
        """Log a trouble with the registry once, and its end."""
        trouble = None if error is None else f"{type(error).__name__}: {error}"
        if trouble == self._trouble:
            return
        log, self._trouble = structlog.get_logger(), trouble
        if trouble is not None:
            log.warning("cannot follow the champion; the model stays", reason=trouble)
        else:
            log.info("the champion is followed again")
