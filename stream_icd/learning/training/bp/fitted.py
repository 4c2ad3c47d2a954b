"""What all ways of learning bp's parameters share: candidates, who is best, progress, threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from stream_icd.core.arrays import Floats
from stream_icd.methods.bp.parameters import BpParameters

SIZE_SPREADS = (None, 0.0, 0.5, 1.0)
"""Candidates: modularity alone (None), then belief propagation with equal to unequal sizes."""


def candidate(resolution: float, size_spread: float | None, mixing: float) -> BpParameters:
    """The parameters of a choice; `size_spread` is one of `SIZE_SPREADS`."""
    if size_spread is None:
        return BpParameters(resolution, iterations=3)
    return BpParameters(resolution, mixing, size_spread, iterations=1)


def as_good(scores: Floats, best: int) -> NDArray[np.bool_]:
    """Which choices are as good as the best: within one standard error of the mean difference.

    scores: (choices, graphs), or windows. Rounded, so that rounding in a sum decides nothing: with
    two graphs, of which one has equal scores, the difference is exactly its standard error.
    """
    losses = scores[best] - scores
    n_graphs = losses.shape[1]
    errors = losses.std(axis=1, ddof=1) / np.sqrt(n_graphs) if n_graphs > 1 else 0.0
    within: NDArray[np.bool_] = np.round(losses.mean(axis=1) - errors, 9) <= 0
    return within


@dataclass(frozen=True, slots=True)
class Tried:
    """One choice of the parameters, and its mean scores: AMI with the labels, or bits per edge."""

    parameters: BpParameters
    ami: float | None = None
    hidden_edges: float | None = None
    description_length: float | None = None
    next_window: float | None = None


@dataclass(frozen=True, slots=True)
class Fit:
    """The learned parameters, and what they were learned from.

    "the next window" are consecutive windows without labels, "hidden edges" other graphs without
    labels. "each graph": each one searches. "default": nothing learned is better than that model.
    """

    parameters: BpParameters
    learned_from: Literal["labels", "the next window", "hidden edges", "each graph", "default"]
    n_graphs: int
    curve: tuple[Tried, ...]  # choices that differ from the selected one only in resolution
    n_windows: int = 0  # consecutive ones, that the stay probability was learned from
    compared: tuple[tuple[str, float], ...] = ()  # at last, with mean scores; one was taken
    compared_by: Literal["AMI", "bits"] = "AMI"

    @property
    def criterion(self) -> Literal["labels", "the next window", "hidden edges"]:
        """What the choices of the curve were tried by."""
        if self.curve[0].ami is not None:
            return "labels"
        return "hidden edges" if self.curve[0].next_window is None else "the next window"


OnStep = Callable[[str, int, int], None]
"""Called with a task, its completed steps, and its total, which never changes."""

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class FitOptions:
    """How a search works: with which seed, in how many threads, and whom it tells of its steps."""

    seed: int = 0
    threads: int = 2
    on_step: OnStep = lambda *_: None

    def steps(self, task: str, total: int) -> Callable[..., None]:
        """Return what adds completed steps of a task, and tells them; its total never changes."""
        completed = 0

        def done(n_steps: int = 1) -> None:
            nonlocal completed
            completed += n_steps
            self.on_step(task, completed, total)

        return done

    def each(
        self,
        find: Callable[[_Item], _Result],
        items: Sequence[_Item],
        on_done: Callable[[_Item], None] = lambda _: None,
    ) -> list[_Result]:
        """The results of `find` for all items, in their order, for any number of threads.

        The kernels release the global interpreter lock. After an exception, including Ctrl-C, it
        ends as soon as the current items are done. `on_done` is called in the caller's thread.
        """
        pool = ThreadPoolExecutor(self.threads)
        try:
            results = []
            for item, future in [(item, pool.submit(find, item)) for item in items]:
                results.append(future.result())
                on_done(item)
            return results
        finally:
            # Also after Ctrl-C: or all that has not begun would be done first.
            pool.shutdown(cancel_futures=True)
