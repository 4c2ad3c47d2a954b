"""Detects two models in use on one graph, which is usually a mistake."""

from __future__ import annotations


class MixedModels:
    """Detects alternating results of two models for a graph: two detectors process it.

    This happens if detectors of one group have different models, or two groups detect one graph.
    A single change from one model to another is not reported.
    """

    def __init__(self) -> None:
        self._models: dict[str, list[str]] = {}  # in order of arrival, the latest last
        self._reported: set[str] = set()

    def look_at(self, graph: str, model: str) -> str | None:
        """Return a warning after this result; None if there is none, or it was given before."""
        models = self._models.setdefault(graph, [])
        takes_turns = model in models[:-1]
        if model in models:
            models.remove(model)
        models.append(model)
        if not takes_turns or graph in self._reported:
            return None
        self._reported.add(graph)
        return (
            f"graph {graph} has results of {len(models)} models by turns, "
            f"{', '.join(sorted(models))}: two detectors work on it"
        )
