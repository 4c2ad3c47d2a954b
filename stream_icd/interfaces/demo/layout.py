"""Lay out communities as discs that keep their places, and their members inside them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

_Points = NDArray[np.float64]

_GOLDEN_ANGLE = np.pi * (3 - np.sqrt(5))
_FIRST_STEPS, _NEXT_STEPS = 200, 40
_APART_STEPS = 1000
"""Steps after these in which discs only repel each other, at most."""
_MOST_BY_FORCE = 150
"""Discs placed by forces: the time grows with their square (200 steps of 150 take 0.4 s)."""


def radii_of(sizes: NDArray[np.int64]) -> _Points:
    """Return the radius of each disc: its area is proportional to its number of members."""
    return np.sqrt(sizes) * 1.15


def place_discs(
    ids: NDArray[np.int64],
    sizes: NDArray[np.int64],
    links: NDArray[np.float64],
    before: Mapping[int, tuple[float, float]],
    *,
    apart: bool = False,
) -> _Points:
    """Return the centre of each disc, `(K, 2)`; discs with many links are close.

    The largest `_MOST_BY_FORCE` are placed by forces: links and the centre attract, overlapping
    discs repel. The others lie in a spiral around them, in the order of their ids.

    Args:
        ids: stable id of each community, ascending.
        links: weight of the edges between the largest communities, `(m, m)`, symmetric, where m is
            the smaller of K and `_MOST_BY_FORCE`, in the order of `largest`.
        before: centres in an earlier window, by id: discs stay there as far as they can.
        apart: go on until hardly any discs overlap, which takes up to six times as long.
    """
    radii = radii_of(sizes)
    first = largest(sizes)
    centres = np.zeros((len(ids), 2))
    known = np.isin(ids[first], list(before))
    # A direction for each id, so that nothing is random.
    start = np.sqrt((radii[first] ** 2).sum()) * 1.2 * _unit(ids[first] * _GOLDEN_ANGLE)
    for at in np.flatnonzero(known):
        start[at] = before[int(ids[first[at]])]
    steps = _NEXT_STEPS if known.mean() > 0.5 else _FIRST_STEPS
    centres[first] = _settled(start, radii[first], links, steps, _APART_STEPS if apart else 0)
    rest = np.setdiff1d(np.arange(len(ids)), first)
    if len(rest):
        edge = (np.linalg.norm(centres[first], axis=1) + radii[first]).max()
        step = 2 * radii[rest].max()
        rank = np.arange(len(rest))
        # A spiral of equal areas: as much room for the last disc as for the first.
        distance = np.sqrt((edge + step) ** 2 + rank * step**2)
        centres[rest] = distance[:, None] * _unit(rank * _GOLDEN_ANGLE)
    return centres


def largest(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the places of the communities that are placed by forces, ascending."""
    order = np.argsort(-sizes, kind="stable")[:_MOST_BY_FORCE]
    return np.sort(order)


def place_members(degrees: NDArray[np.int64]) -> _Points:
    """Return places around the origin, `(n, 2)`: nodes with more links lie nearer the centre."""
    rank = np.empty(len(degrees), np.int64)
    rank[np.argsort(-degrees, kind="stable")] = np.arange(len(degrees))
    places: _Points = np.sqrt(rank + 0.5)[:, None] * _unit(rank * _GOLDEN_ANGLE)
    return places


def community_layout(edges: NDArray[np.int64], labels: NDArray[np.int32]) -> _Points:
    """Return the positions of the nodes of a graph, `(n, 2)`; edges are `(2, n_edges)`."""
    sizes, degrees = np.bincount(labels), np.bincount(edges.ravel(), minlength=len(labels))
    links = np.zeros((len(sizes), len(sizes)))
    np.add.at(links, (labels[edges[0]], labels[edges[1]]), 1.0)
    links += links.T
    np.fill_diagonal(links, 0)
    first = largest(sizes)
    positions = place_discs(
        np.arange(len(sizes)), sizes, links[np.ix_(first, first)], {}, apart=True
    )[labels]
    for community in range(len(sizes)):
        here = labels == community
        positions[here] += place_members(degrees[here])
    return positions


def _settled(
    centres: _Points, radii: _Points, links: NDArray[np.float64], steps: int, more: int
) -> _Points:
    pull = links / np.maximum(links.sum(axis=1, keepdims=True), 1e-300) * 0.5
    touch = radii[:, None] + radii[None, :]
    for step in range(steps + more):
        apart = centres[:, None, :] - centres[None, :, :]
        distance = np.linalg.norm(apart, axis=2) + 1e-9
        overlap = np.clip(touch - distance, 0, None)
        np.fill_diagonal(overlap, 0)
        if step >= steps and overlap.max() < 0.05 * radii.min():
            break
        push = (apart / distance[..., None] * overlap[..., None]).sum(axis=1) / 2
        drawn = -(pull[..., None] * apart).sum(axis=1) - 0.05 * centres
        centres = centres + 0.5 * push + 0.3 * max(0.0, 1 - step / steps) * drawn
    return centres


def _unit(angle: NDArray[np.floating] | NDArray[np.integer]) -> _Points:
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)
