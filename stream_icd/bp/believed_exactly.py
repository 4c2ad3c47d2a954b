"""Exactly K communities from beliefs, with the labels of the communities that were found."""

from __future__ import annotations

import numpy as np

from stream_icd.bp.belief_propagation import Believed
from stream_icd.bp.exact_k import exactly
from stream_icd.bp.found import Found
from stream_icd.bp.level_graph import LevelGraph, compact
from stream_icd.bp.naming import NOBODY, names_by_most
from stream_icd.bp.recalled import tidy


def believed_exactly(
    graph: LevelGraph,
    found: Believed,
    n_communities: int,
    resolution: float,
    believed: bool,
    rng: np.random.Generator,
) -> Believed:
    """Exactly K communities, with the labels of those found; extra ones get new labels.

    resolution, believed: how the communities were found; see `Found`.
    """
    likeliest, n_labels = found.communities[:, 0].copy(), int(found.communities.max()) + 1
    one = Found(likeliest, resolution, believed)
    exact, n_exact = compact(exactly(graph, one, n_communities, rng).labels)
    names = names_by_most(exact, likeliest, n_exact, n_labels)
    nameless = names == NOBODY
    names[nameless] = n_labels + np.arange(nameless.sum())
    communities = found.communities.copy()
    communities[:, 0] = names[exact]
    communities, shares = tidy(communities, found.shares)
    return found._replace(communities=communities, shares=shares)
