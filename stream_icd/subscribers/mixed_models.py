"""Detects two models in use on one graph, which is usually a mistake."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

MOST_CHANGES, WITHIN = 2, 100
"""A promotion and its rollback are two changes; a third within this many results is reported."""


@dataclass(slots=True)
class _Graph:
    """The models of a graph's results, and how many results ago each change was."""

    latest: str
    models: set[str]
    changes: deque[int] = field(default_factory=lambda: deque(maxlen=MOST_CHANGES + 1))
    n_results: int = 0
    reported: bool = False


class MixedModels:
    """Detects alternating results of two models for a graph: two detectors process it.

    This happens if detectors of one group have different models, or two groups detect one graph.
    A change from one model to another is not reported, nor is the change back.
    """

    def __init__(self) -> None:
        self._graphs: dict[str, _Graph] = {}

    def look_at(self, graph: str, model: str) -> str | None:
        """Return a warning after this result; None if there is none, or it was given before."""
        known = self._graphs.setdefault(graph, _Graph(model, {model}))
        known.n_results += 1
        if model != known.latest:
            known.latest = model
            known.models.add(model)
            known.changes.append(known.n_results)
        if known.reported or len(known.changes) <= MOST_CHANGES:
            return None
        if known.n_results - known.changes[0] >= WITHIN:
            return None
        known.reported = True
        return (
            f"graph {graph} has results of {len(known.models)} models by turns, "
            f"{', '.join(sorted(known.models))}: two detectors work on it"
        )
