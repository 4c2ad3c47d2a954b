"""How programs wait while the broker is away: with growing pauses, and a line once a minute."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from stream_icd.core.errors import BrokerUnavailable, DeliveryFailed, NameTaken
from stream_icd.kafka.connect import recognise
from stream_icd.kafka.settings import KafkaSettings, check_that_somebody_listens
from stream_icd.kafka.waiting import Clock

_log = logging.getLogger(__name__)
_Result = TypeVar("_Result")

_SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 15.0
_SAY_EVERY_S = 60.0


@dataclass(slots=True)
class Outage:
    """The time for which something does not answer. It logs once a minute, and when it is over.

    Attributes:
        give_up_after_s: after this long, `failed` raises its error; None: never.
        of: what does not answer, for the log.
    """

    give_up_after_s: float | None = None
    clock: Clock = field(default_factory=Clock)
    of: str = "the broker"
    _since: float | None = None
    _say_at: float = 0.0

    @property
    def seconds(self) -> float | None:
        """How long it has lasted; None: all is well."""
        return None if self._since is None else self.clock.now() - self._since

    def failed(self, error: Exception) -> float:
        """Note that there was no answer. Return how long to pause, in seconds: half of what the
        outage has lasted, within limits."""
        now = self.clock.now()
        if self._since is None:
            self._since = self._say_at = now
        lasted_s = now - self._since
        if self.give_up_after_s is not None and lasted_s >= self.give_up_after_s:
            raise error
        if now >= self._say_at:
            self._say_at = now + _SAY_EVERY_S
            so_far = f" (for {lasted_s:.0f} s now)" if lasted_s >= 1 else ""
            _log.warning("waiting for %s%s: %s", self.of, so_far, error)
        return min(max(_SHORTEST_PAUSE_S, lasted_s / 2), LONGEST_PAUSE_S)

    def answered(self, silence_s: float = 0.0) -> None:
        """Note an answer that came so many seconds ago; it ends an outage that began earlier."""
        if self._since is not None and self.clock.now() - silence_s >= self._since:
            _log.info("%s answers again, after %.0f s", self.of, self.seconds)
            self._since = None


_AWAY = (BrokerUnavailable, DeliveryFailed)
"""What is raised while the broker is away."""


def insist(
    work: Callable[[], _Result],
    outage: Outage,
    stop: threading.Event,
    away: tuple[type[Exception], ...] = _AWAY,
) -> _Result:
    """Return the result of `work`; repeat it while it raises that something is `away`.

    Raises the error of `work` once `stop` is set or the outage has lasted too long, and at once if
    waiting does not help.
    """
    while True:
        try:
            result = work()
        except NameTaken:
            raise
        except away as error:
            if stop.is_set():
                raise
            stop.wait(outage.failed(error))
        else:
            outage.answered()
            return result


def wait_for_broker(settings: KafkaSettings, outage: Outage, stop: threading.Event) -> None:
    """Return when a broker answers; raises as `insist`, and `BadSettings` if it refuses us."""
    insist(partial(_ask, settings), outage, stop)


def _ask(settings: KafkaSettings) -> None:
    check_that_somebody_listens(settings)
    recognise(settings)
