"""State of a step for each graph, consistent with the committed offsets."""

from __future__ import annotations

from typing import Generic, TypeVar

State = TypeVar("State")


class PerGraph(Generic[State]):
    """A state for each graph. A new state becomes permanent with `keep`.

    Call `drop` when a batch begins and `keep` when it is committed: a batch that could not be
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
        """Return a graph's state, including the current batch; None if there is none."""
        return self._batch.get(graph, self._kept.get(graph))

    def committed(self, graph: str) -> State | None:
        """Return a graph's state without the current batch; None if there is none."""
        return self._kept.get(graph)

    def put(self, graph: str, state: State) -> None:
        """Set a graph's state; it becomes permanent if the current batch is committed."""
        self._batch[graph] = state

    def learn(self, graph: str, state: State) -> None:
        """Set a state that is already committed, independent of the current batch."""
        self._kept[graph] = state

    def drop(self) -> None:
        """Discard the states set since the last `keep`."""
        self._batch = {}

    def keep(self) -> None:
        """Make the current batch's states permanent: the batch is committed."""
        self._kept.update(self._batch)
        self._batch = {}
