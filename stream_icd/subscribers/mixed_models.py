"""Two models at work on one graph: something that somebody should know of."""

from __future__ import annotations


class MixedModels:
    """Notices when results of two models take turns in a graph: two detectors work on it.

    That is so when detectors of one group have different models, or two groups detect one graph.
    A change from one model to another is none.
    """

    def __init__(self) -> None:
        self._models: dict[str, list[str]] = {}  # in the order in which they came, the last at last
        self._reported: set[str] = set()

    def look_at(self, graph: str, model: str) -> str | None:
        """What to say after this result; None if there is nothing to say, or it was said before."""
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
