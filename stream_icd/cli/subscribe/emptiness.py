"""Why a subscription has nothing to show: said instead of silence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from stream_icd.errors import BadSettings
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import EVENTS
from stream_icd.printable import did_you_mean, listed, printable, say

Item = TypeVar("Item")


class Emptiness:
    """Counts what a subscription shows, and says why that is nothing.

    Args:
        graph: what was asked for; None for all.
    """

    def __init__(self, settings: KafkaSettings, topic: str, graph: str | None) -> None:
        self._settings = settings
        self._topic = topic
        self._graph = graph
        self._count = 0

    def counted(self, found: Iterable[Item]) -> Iterator[Item]:
        """The same items, counted."""
        for one in found:
            self._count += 1
            yield one

    def warn(self) -> None:
        """Say on standard error when there are no events yet: perhaps no tracker runs."""
        with open_reader(self._settings, self._topic, until="end", limit=1) as records:
            if next(iter(records), None) is None:
                say(f"{self._no_tracker()}; waiting for one", err=True)

    def refuse(self) -> None:
        """Check that something was shown, or could have been.

        Raises:
            BadSettings: no tracker has published events, or the topic holds other graphs only.
        """
        if self._count or (self._graph is None and self._topic != EVENTS):
            return
        graphs = self._graphs()
        if not graphs and self._topic == EVENTS:
            raise BadSettings(self._no_tracker())
        if self._graph is not None and self._graph not in graphs:
            raise BadSettings(
                printable(
                    f"{self._topic} holds nothing of graph {self._graph}; it holds "
                    f"{listed(graphs) or 'none'}"
                    f"{did_you_mean(self._graph, graphs)}"
                )
            )

    def _no_tracker(self) -> str:
        return (
            f"{self._topic} is empty: no tracker has published events. "
            f"Run one: stream-icd consume track"
        )

    def _graphs(self) -> list[str]:
        with open_reader(self._settings, self._topic, until="end") as records:
            return sorted({(record.key or b"").decode(errors="replace") for record in records})
