"""How fast windows follow each other: as they did, accelerated, at a fixed rate, or at once."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from stream_icd.core.errors import BadSettings

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class Tempo:
    """By `speed`, by `rate`, or unlimited; else raises `BadSettings`."""

    speed: float | None = None  # seconds of event time per second; keeps the spacing of windows
    rate: float | None = None  # windows, or other items, per second

    def __post_init__(self) -> None:
        if self.speed is not None and self.rate is not None:
            raise BadSettings("give a speed, or a rate, not both")
        for name in ("speed", "rate"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise BadSettings(f"{name} {value}; it must be above 0")

    @classmethod
    def of_options(cls, speed: str | None, rate: float | None, *, fastest: bool = False) -> Tempo:
        """Return the tempo of the options: `--speed 10x`, `--rate 50/s`, or the fastest.

        >>> Tempo.of_options("10x", None), Tempo.of_options(None, parse_rate("50/s"))
        (Tempo(speed=10.0, rate=None), Tempo(speed=None, rate=50.0))
        """
        if fastest and (speed or rate):
            raise BadSettings(
                "--as-fast-as-possible excludes --speed and --rate: leave it out, or leave them out"
            )
        return cls(None if speed is None else _number("--speed", speed, "x"), rate)

    def due_s(self, index: int, event_seconds: float) -> float:
        """Return when an item is due, from its index (from 0) or its event time since the first."""
        if self.speed is not None:
            return event_seconds / self.speed
        return 0.0 if self.rate is None else index / self.rate


def parse_rate(text: str) -> float:
    """Parse a rate: `50`, or `50/s`; raise `BadSettings` if it is none."""
    return _number("--rate", text, "/s")


def paced(
    items: Iterable[_Item],
    time_of: Callable[[_Item], datetime | None],
    tempo: Tempo,
    monotonic: Callable[[], float],
    sleep: Callable[[float], object],
) -> Iterator[_Item]:
    """Yield the items, none before it is due by its time; at once those without one."""
    started, first, index = monotonic(), None, 0
    for item in items:
        if (time := time_of(item)) is not None:
            first = first or time
            due = started + tempo.due_s(index, (time - first).total_seconds())
            if (wait := due - monotonic()) > 0:
                sleep(min(wait, threading.TIMEOUT_MAX))
            index += 1
        yield item


def _number(option: str, text: str, unit: str) -> float:
    if not re.fullmatch(rf"[0-9]+(\.[0-9]+)?({unit})?", text):
        raise BadSettings(f"{option} {text!r}: give a number such as 10{unit}")
    return float(text.removesuffix(unit))
