"""Which series there are: found at once by name or by graph, also while a window is tracked."""

from __future__ import annotations

import threading
from collections import OrderedDict
from itertools import count, islice

from stream_icd.names.names import Naming
from stream_icd.view.data.series import End, Series, SeriesName

MOST_ENDS = 5000
"""How many series that are no longer kept are remembered, so that numbers and ids go on."""


class SeriesIndex:
    """All series that have windows. Its lock is held for moments only, unlike that of the windows.

    A series without windows is forgotten, but for where its numbers and ids ended.
    """

    def __init__(self, naming: Naming | None = None) -> None:
        self._naming = naming
        self._lock = threading.Lock()
        self._series: dict[SeriesName, Series] = {}
        self._of_graph: dict[str, dict[SeriesName, Series]] = {}
        self._ends: OrderedDict[SeriesName, End] = OrderedDict()
        self._versions = count(1)

    def __len__(self) -> int:
        return len(self._series)

    def get(self, name: SeriesName) -> Series | None:
        """Return a series; None if there is none of that name."""
        return self._series.get(name)

    def first(self, most: int) -> list[Series]:
        """Return at most so many series, in the order in which they began."""
        with self._lock:
            return list(islice(self._series.values(), most))

    def of_graph(self, graph: str) -> list[Series]:
        """Return all series of a graph, in the order in which they began."""
        with self._lock:
            return list(self._of_graph.get(graph, {}).values())

    def opened(self, name: SeriesName) -> Series:
        """Return the series of that name; a new one, which continues one that was forgotten."""
        with self._lock:
            if (found := self._series.get(name)) is not None:
                return found
            end = self._ends.pop(name, End(0, 0))
            made = Series(
                name,
                self._versions,
                numbered=end.numbered,
                next_id=end.next_id,
                naming=self._naming,
            )
            self._series[name] = made
            self._of_graph.setdefault(name.graph, {})[name] = made
            return made

    def forget(self, series: Series) -> None:
        """Forget a series; remember where it ended."""
        name = series.name
        with self._lock:
            del self._series[name]
            del self._of_graph[name.graph][name]
            if not self._of_graph[name.graph]:
                del self._of_graph[name.graph]
            self._ends[name] = series.end
            if len(self._ends) > MOST_ENDS:
                self._ends.popitem(last=False)

    def find(self, graph: str, model: str, origin: str) -> SeriesName | None:
        """Return the name of the first series that fits; None if none does.

        An empty name fits all. Without a graph, only the first series of all is looked at.
        """
        exact = SeriesName(graph, model, origin)
        if exact in self._series:
            return exact
        candidates = self.of_graph(graph) if graph else self.first(1)
        for name in (one.name for one in candidates):
            if model in ("", name.model) and origin in ("", name.origin):
                return name
        return None
