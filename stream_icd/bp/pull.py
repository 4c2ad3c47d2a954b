"""How strongly ghosts hold communities together where modularity decides, window by window.

Ghosts keep nodes that modularity alone would move at no gain worth mentioning, and cost modularity
if they hold too strongly. So the weight of their edges follows the price: the modularity gained by
local moves without ghosts, compared with what chance makes of it. With a fraction q of the E edges
inside communities, chance alone changes q, and so the modularity, by √(q (1 − q) / E).
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from stream_icd.bp.level_graph import Labels, LevelGraph, coarsen, compact
from stream_icd.bp.multilevel import maximise_modularity

FIRST = 0.08
"""First weight of a ghost's edges, in mean edge weights, at a stay probability of one half."""

PRICE = 0.1
"""The price to pay, in standard deviations by chance; chosen on the first 25 days of AS-733."""

LEAST, MOST = 0.01, 1.5
"""Limits of the weight."""

FASTEST = 2.0
"""Largest factor from one window to the next, up or down."""


def first_pull(stay: float) -> float:
    """The weight for the second window: its odds are those of η, `stay`."""
    return min(max(FIRST * stay / (1 - stay), LEAST), MOST)


def next_pull(
    graph: LevelGraph, labels: Labels, resolution: float, pull: float, rng: np.random.Generator
) -> float:
    """The weight for the next window, after `labels` were found with weight `pull`."""
    held, _ = compact(labels.copy())
    free = maximise_modularity(graph, resolution, rng.spawn(1)[0], held)
    within, gained = _modularity(graph, free, resolution)
    gained -= _modularity(graph, held, resolution)[1]
    by_chance = sqrt(max(within * (1 - within), 1e-12) / max(graph.total / 2, 1.0))
    factor = PRICE * by_chance / max(gained, 1e-12)
    return min(max(pull * min(max(factor, 1 / FASTEST), FASTEST), LEAST), MOST)


def _modularity(graph: LevelGraph, labels: Labels, resolution: float) -> tuple[float, float]:
    """The fraction of edges inside communities, and modularity at this resolution."""
    coarse = coarsen(graph, labels, int(labels.max()) + 1)
    total = max(graph.total, 1e-300)
    within = float(1 - coarse.weights.sum() / total)
    return within, within - resolution * float(((coarse.strengths / total) ** 2).sum())
