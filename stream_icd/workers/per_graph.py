"""What a step remembers of each graph, true to what was committed."""

from __future__ import annotations

from typing import Generic, TypeVar

State = TypeVar("State")


class PerGraph(Generic[State]):
    """A state for each graph. A state that is put counts for good only after `keep`.

    Call `drop` when a batch begins and `keep` when it is done: a batch that could not be
    committed then leaves no trace.

    >>> seen = PerGraph[int]()
    >>> seen.put("as733", 1)
    >>> seen.keep()
    >>> seen.put("as733", 2)
    >>> seen.get("as733")
    2
    >>> seen.drop()
    >>> seen.get("as733")
    1
    """

    def __init__(self) -> None:
        self._kept: dict[str, State] = {}
        self._batch: dict[str, State] = {}

    def get(self, graph: str) -> State | None:
        """The state of a graph, as the batch in hand left it; None if there is none."""
        return self._batch.get(graph, self._kept.get(graph))

    def committed(self, graph: str) -> State | None:
        """The state of a graph without the batch in hand; None if there is none."""
        return self._kept.get(graph)

    def put(self, graph: str, state: State) -> None:
        """Note a graph's state; it counts if the batch in hand is committed."""
        self._batch[graph] = state

    def learn(self, graph: str, state: State) -> None:
        """Note a state that is committed already, whatever becomes of the batch in hand."""
        self._kept[graph] = state

    def drop(self) -> None:
        """Forget what was put since the last `keep`."""
        self._batch = {}

    def keep(self) -> None:
        """What was put is committed."""
        self._kept.update(self._batch)
        self._batch = {}
