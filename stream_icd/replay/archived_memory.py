"""What a replay of a part of an archive needs of the time before: memory, and windows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from stream_icd.history.archive import (
    Selection,
    newest,
    partitions,
    read_message,
    read_partition,
    windows,
)
from stream_icd.history.parquet import ArchivedWindow
from stream_icd.store.store import Store


@dataclass(frozen=True, slots=True)
class Before:
    """The time before a replayed part, for one graph.

    Attributes:
        memory: the archived memory that the replay starts with; None: it starts without any.
        windows: the windows after it and before the part, which must be detected first.
    """

    memory: ArchivedWindow | None
    windows: tuple[ArchivedWindow, ...]


def what_precedes(store: Store, selection: Selection, model: str) -> dict[str, Before]:
    """Return what precedes the selection, for each graph.

    Usually the archive holds the memory after the last window before the selection, and no window
    must be detected first. If it holds no memory, all windows before must be detected.

    Args:
        model: the model version of the replay: its memory is preferred to that of another model.

    Raises:
        HistoryDamaged: a file cannot be read.
    """
    if selection.start is None:
        return {}
    before = replace(selection, start=None, end=selection.start)
    graphs = {day.graph for day in partitions(store, before)}
    return {graph: _before(store, replace(before, graph=graph), model) for graph in sorted(graphs)}


def _before(store: Store, before: Selection, model: str) -> Before:
    memory = _last_memory(store, replace(before, kind="memory"), model)
    if memory is None:
        return Before(None, tuple(windows(store, before)))
    # Windows of days before it are not after it, whatever their hour.
    since = replace(before, start=_midnight(memory.window.start))
    after = (one for one in windows(store, since) if one.window.end > memory.window.end)
    return Before(memory, tuple(after))


def _last_memory(store: Store, before: Selection, model: str) -> ArchivedWindow | None:
    """Return the memory after the last window, from the last day that has one."""
    for day in reversed(partitions(store, before)):
        found = [one for one in read_partition(store, day) if before.holds(one)]
        if found:
            return max(
                newest(found),
                key=lambda one: (one.window.end, one.identity.model == model, one.received),
            )
    return None


def _midnight(time: datetime) -> datetime:
    return time.replace(hour=0, minute=0, second=0, microsecond=0)


@dataclass(frozen=True, slots=True)
class ArchivedMemory:
    """Gives each graph the memory that a replay starts with."""

    store: Store
    before: dict[str, Before]

    def __call__(self, graph: str) -> bytes | None:
        """Return the encoded memory of a graph; None if it starts without any.

        Raises:
            HistoryDamaged: the memory cannot be read.
        """
        memory = self.before[graph].memory if graph in self.before else None
        return None if memory is None else read_message(self.store, memory).value

    def windows(self) -> Iterator[ArchivedWindow]:
        """Yield the windows that must be detected first, in time order."""
        found = (one for before in self.before.values() for one in before.windows)
        yield from sorted(found, key=lambda one: one.order)
