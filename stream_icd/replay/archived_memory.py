"""What a replay of an archive needs beside the windows: memory, and windows before a part.

An operator can make a graph start anew (`topics detect-anew`). The windows before that and those
after it are two *eras* of the graph: memory is handed on within each, whatever the times of their
windows. The archive holds the memory at the beginning of each era but the first, which keeps only
the ids that are used up.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import ClassVar

from stream_icd.history.archive import (
    Selection,
    newest,
    partitions,
    read_message,
    read_partition,
    windows,
)
from stream_icd.history.parquet import ArchivedWindow
from stream_icd.memory.memory import BEFORE_ALL
from stream_icd.replay.redetect import chain_name
from stream_icd.store.store import Store
from stream_icd.workers.memory_topic import place_in


@dataclass(frozen=True, slots=True)
class Eras:
    """The eras of a graph.

    Attributes:
        beginnings: the archived memory at the beginning of each era but the first, in order.
    """

    beginnings: tuple[ArchivedWindow, ...] = ()

    def of_snapshot(self, noted: ArchivedWindow) -> int:
        """Return the number of the era in which the stream detected a snapshot; 0 is the first."""
        return self._at(noted.received[1])

    def of_memory(self, noted: ArchivedWindow) -> int:
        """Return the number of the era that an archived memory belongs to."""
        return self._at(place_in(noted.headers).offset)

    def _at(self, offset: int) -> int:
        return sum(place_in(one.headers).offset < offset for one in self.beginnings)


def eras(store: Store, graph: str | None = None) -> dict[str, Eras]:
    """Return the eras of each graph that started anew.

    Raises:
        HistoryDamaged: a file cannot be read.
    """
    found: dict[str, list[ArchivedWindow]] = defaultdict(list)
    year_one = Selection("memory", graph, end=BEFORE_ALL.end + timedelta(days=1))
    for day in partitions(store, year_one):
        found[day.graph] += newest(read_partition(store, day))
    return {
        graph: Eras(tuple(sorted(of_graph, key=lambda one: place_in(one.headers).offset)))
        for graph, of_graph in found.items()
    }


@dataclass(frozen=True, slots=True)
class Before:
    """The time before a replayed part, for one era of a graph.

    Attributes:
        memory: the archived memory that the replay starts with; None: it starts without any.
        windows: the windows after it and before the part, which must be detected first.
    """

    memory: ArchivedWindow | None
    windows: tuple[ArchivedWindow, ...] = ()


@dataclass(frozen=True, slots=True)
class ArchivedMemory:
    """Gives each era of each graph the memory that a replay starts with.

    Attributes:
        eras: those of each graph that started anew.
        before: by the name of the chain that an era's windows are.
    """

    store: Store
    eras: dict[str, Eras]
    before: dict[str, Before]
    most_bytes: ClassVar[float] = math.inf

    def __call__(self, chain: str) -> bytes | None:
        """Return the encoded memory of a chain; None if it starts without any.

        Raises:
            HistoryDamaged: the memory cannot be read.
        """
        memory = self.before[chain].memory if chain in self.before else None
        return None if memory is None else read_message(self.store, memory).value

    def era(self, noted: ArchivedWindow) -> int:
        """Return the era of an archived snapshot."""
        return self.eras.get(noted.partition.graph, Eras()).of_snapshot(noted)

    def windows(self) -> Iterator[ArchivedWindow]:
        """Yield the windows that must be detected first, in time order."""
        found = (one for before in self.before.values() for one in before.windows)
        yield from sorted(found, key=lambda one: one.order)


def archived_memory(store: Store, selection: Selection, model: str) -> ArchivedMemory:
    """Return what precedes the selection, for each era of each graph.

    Usually the archive holds the memory after the last window before the selection, and no window
    must be detected first. If it holds no memory, all windows before must be detected.

    Args:
        model: the model version of the replay: its memory is preferred to that of another model.

    Raises:
        HistoryDamaged: a file cannot be read.
    """
    of_graph = eras(store, selection.graph)
    graphs = set(of_graph)
    if selection.start is not None:
        before = replace(selection, start=None, end=selection.start)
        graphs |= {day.graph for day in partitions(store, before)}
    found = {
        chain_name(graph, era): _before(store, replace(selection, graph=graph), model, known, era)
        for graph in sorted(graphs)
        for known in [of_graph.get(graph, Eras())]
        for era in range(len(known.beginnings) + 1)
    }
    return ArchivedMemory(store, of_graph, found)


def _before(store: Store, selection: Selection, model: str, known: Eras, era: int) -> Before:
    memory = known.beginnings[era - 1] if era else None
    if selection.start is None:
        return Before(memory)
    before = replace(selection, start=None, end=selection.start)
    memory = _last_memory(store, replace(before, kind="memory"), model, known, era) or memory
    if memory is None:
        return Before(None, tuple(_of_era(windows(store, before), known, era)))
    # Windows of days before it are not after it, whatever their hour.
    since = replace(before, start=_midnight(memory.window.start))
    after = (one for one in windows(store, since) if one.window.end > memory.window.end)
    return Before(memory, tuple(_of_era(after, known, era)))


def _of_era(found: Iterable[ArchivedWindow], known: Eras, era: int) -> Iterator[ArchivedWindow]:
    return (one for one in found if known.of_snapshot(one) == era)


def _last_memory(
    store: Store, before: Selection, model: str, known: Eras, era: int
) -> ArchivedWindow | None:
    """Return the memory after the last window, from the last day of the era that has one."""
    for day in reversed(partitions(store, before)):
        found = [
            one
            for one in read_partition(store, day)
            if before.holds(one) and one.window != BEFORE_ALL and known.of_memory(one) == era
        ]
        if found:
            return max(
                newest(found),
                key=lambda one: (one.window.end, one.identity.model == model, one.received),
            )
    return None


def _midnight(time: datetime) -> datetime:
    return time.replace(hour=0, minute=0, second=0, microsecond=0)
