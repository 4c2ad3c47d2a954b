"""Speed of a replay: original, accelerated, at a fixed rate, or unlimited."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from stream_icd.errors import BadSettings

if TYPE_CHECKING:
    from stream_icd.snapshot import Snapshot
    from stream_icd.sources.source import Source

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Tempo:
    """The speed of a replay; without speed and rate it is unlimited.

    Attributes:
        speed: seconds of event time per second; keeps the relative spacing of windows.
        rate: windows per second.

    Raises:
        BadSettings: both are given, or one is not above 0.
    """

    speed: float | None = None
    rate: float | None = None

    def __post_init__(self) -> None:
        if self.speed is not None and self.rate is not None:
            raise BadSettings("give a speed, or a rate, not both")
        for name in ("speed", "rate"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise BadSettings(f"{name} {value}; it must be above 0")

    def due_s(self, index: int, event_seconds: float) -> float:
        """Return when an item is due, from its index (from 0) or its event time since the first."""
        if self.speed is not None:
            return event_seconds / self.speed
        return 0.0 if self.rate is None else index / self.rate


def parse_tempo(speed: str | None, rate: float | None, *, fastest: bool = False) -> Tempo:
    """Return the tempo of the options: `--speed 10x`, `--rate 50/s`, or the fastest.

    Raises:
        BadSettings: the options are none of these, or more than one.

    >>> parse_tempo("10x", None), parse_tempo(None, parse_rate("50/s"))
    (Tempo(speed=10.0, rate=None), Tempo(speed=None, rate=50.0))
    """
    if fastest and (speed or rate):
        raise BadSettings(
            "--as-fast-as-possible excludes --speed and --rate: leave it out, or leave them out"
        )
    return Tempo(None if speed is None else _number("--speed", speed, "x"), rate)


def parse_rate(text: str) -> float:
    """Parse a rate: `50`, or `50/s`.

    Raises:
        BadSettings: it is none.
    """
    return _number("--rate", text, "/s")


def paced(
    items: Iterable[Item],
    time_of: Callable[[Item], datetime],
    tempo: Tempo,
    monotonic: Callable[[], float],
    sleep: Callable[[float], object],
    at_once: Callable[[Item], bool] = lambda _: False,
) -> Iterator[Item]:
    """Yield the items, none before it is due. Late items are yielded at once.

    Args:
        at_once: returns whether an item is yielded without delay; such items do not count.
    """
    started, first, index = monotonic(), None, 0
    for item in items:
        if not at_once(item):
            first = first or time_of(item)
            due = started + tempo.due_s(index, (time_of(item) - first).total_seconds())
            if (wait := due - monotonic()) > 0:
                sleep(min(wait, threading.TIMEOUT_MAX))
            index += 1
        yield item


def _number(option: str, text: str, unit: str) -> float:
    if not re.fullmatch(rf"[0-9]+(\.[0-9]+)?({unit})?", text):
        raise BadSettings(f"{option} {text!r}: give a number such as 10{unit}")
    return float(text.removesuffix(unit))


def paced_source(
    source: Source,
    tempo: Tempo,
    monotonic: Callable[[], float],
    sleep: Callable[[float], object],
    already: Container[Snapshot] = (),
) -> Source:
    """Return the same snapshots and labels, none before its due time.

    Args:
        tempo: determines when each is due, by the end of its window.
        already: snapshots that were already sent; they are not delayed.
    """
    from stream_icd.sources.source import Source  # options of commands load this module

    return Source(
        source.total,
        paced(
            source.snapshots,
            lambda one: one[0].window.end,
            tempo,
            monotonic,
            sleep,
            at_once=lambda one: one[0] in already,
        ),
    )
