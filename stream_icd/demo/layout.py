"""Lay out the nodes of a graph so that its communities are visible."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

GOLDEN_ANGLE = np.pi * (3 - np.sqrt(5))
STEPS = 1200
COOLED = 400
"""Steps after which discs only repel each other, until hardly any overlap."""


def community_layout(edges: NDArray[np.int64], labels: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return positions `(n, 2)`: each community is a disc; discs with many links are close.

    The area of a disc is proportional to its number of nodes, so the density of dots is the same
    everywhere; inside, nodes with more links lie nearer the centre.

    Args:
        edges: `(2, n_edges)` positions of the ends.
        labels: community of each node, `(n,)`.
    """
    n, k = len(labels), int(labels.max()) + 1
    sizes = np.bincount(labels, minlength=k)
    radii = np.sqrt(sizes) * 1.3 + 1.0
    centres = _place_discs(_links(edges, labels, k), radii, np.random.default_rng(0))
    degree = np.bincount(edges.ravel(), minlength=n)
    rank = _rank_within(labels, -degree)
    # Sunflower layout: the i-th node at radius √i, one golden angle further.
    spiral = np.sqrt(rank + 0.5)[:, None] * _unit(rank * GOLDEN_ANGLE)
    positions: NDArray[np.float64] = centres[labels] + spiral
    return positions


def _links(edges: NDArray[np.int64], labels: NDArray[np.int32], k: int) -> NDArray[np.float64]:
    between = np.zeros((k, k))
    np.add.at(between, (labels[edges[0]], labels[edges[1]]), 1.0)
    between += between.T
    np.fill_diagonal(between, 0)
    return between


def _place_discs(
    links: NDArray[np.float64], radii: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.float64]:
    """Place discs by forces: links and the centre attract, overlapping discs repel."""
    k = len(radii)
    centres: NDArray[np.float64] = rng.normal(size=(k, 2)) * radii.sum() / 4
    pull = links / np.maximum(links.sum(axis=1, keepdims=True), 1) * 0.5
    touch = radii[:, None] + radii[None, :]
    for step in range(STEPS):
        apart = centres[:, None, :] - centres[None, :, :]
        distance = np.linalg.norm(apart, axis=2) + 1e-9
        overlap = np.clip(touch - distance, 0, None)
        np.fill_diagonal(overlap, 0)
        if step > COOLED and overlap.max() < 0.05 * radii.min():
            break
        push = (apart / distance[..., None] * overlap[..., None]).sum(axis=1) / 2
        drawn = -(pull[..., None] * apart).sum(axis=1) - 0.05 * centres
        cooling = max(0.0, 1 - step / COOLED)
        centres = centres + 0.5 * push + 0.3 * cooling * drawn
    return centres


def _rank_within(labels: NDArray[np.int32], key: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return ranks 0, 1, 2… within each community, smallest key first."""
    order = np.lexsort((key, labels))
    first = np.searchsorted(labels[order], labels[order])
    rank = np.empty(len(labels), np.int64)
    rank[order] = np.arange(len(labels)) - first
    return rank


def _unit(angle: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)
