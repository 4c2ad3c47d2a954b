"""Communities of one window from the windows before and after it.

The filter (`posterior`) knows the past of a window. Here the beliefs of the next window, which know
the future, join the prior of each node (`forward_backward`); belief propagation on the evidence of
this window follows.

Whole communities also begin and end between windows, although their nodes stay together. So a later
community that this window does not have counts as the node's community of this window.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from stream_icd.arrays import n_distinct
from stream_icd.bp.dynamic.forward_backward import backward_message, two_sided_prior
from stream_icd.bp.dynamic.posterior import (
    NOBODY,
    Ids,
    Posterior,
    Shares,
    exact_labels,
    majority,
)
from stream_icd.bp.multilevel.level_graph import Labels, finest_level
from stream_icd.bp.parameters import BpParameters
from stream_icd.bp.planted_partition.belief_propagation import Model, believe, trusted
from stream_icd.bp.planted_partition.likelihood import bounded_mixing
from stream_icd.bp.planted_partition.sweep import Prior
from stream_icd.graphs.weights import comparable


class WindowBeliefs(NamedTuple):
    """The beliefs of a window about the nodes of this one.

    ids, shares: both (n, N_KEPT): stable ids, most probable first, `NOBODY` in unused places, and
        their probabilities.
    stay: η between the two windows, in 0..1.
    """

    ids: Ids
    shares: Shares
    stay: float


def smoothed_beliefs(
    adjacency: csr_array,
    parameters: BpParameters,
    own: WindowBeliefs,
    mixing: float,
    before: WindowBeliefs,
    after: WindowBeliefs,
    n_communities: int | None,
    next_id: int,
    seed: int = 0,
) -> tuple[Ids, Shares]:
    """Return the beliefs about the nodes of a window, from its edges, its past and its future.

    own:    filtered beliefs of this window, decided by belief propagation; mixing: its μ.
    before: filtered beliefs of the window before; after: smoothed beliefs of the window after it.

    No id is new, unless exactly K communities need one: those are `next_id` and the following. For
    nodes without edges, the windows before and after decide.
    """
    graph = finest_level(comparable(adjacency, parameters.weight_exponent))
    ids = np.unique(np.concatenate([np.ravel(own.ids), np.ravel(before.ids), np.ravel(after.ids)]))
    ids = ids[ids != NOBODY]
    here, past, future = (_numbered(one.ids, ids) for one in (own, before, after))
    labels = here[:, 0].copy()
    future = _as_of_now(future, labels, len(ids))
    sizes = np.bincount(labels, minlength=len(ids)).clip(1) / len(labels)
    message = backward_message(
        sizes,
        Prior(here, own.shares),
        Prior(future, after.shares),
        trusted(after.stay),
    )
    prior = two_sided_prior(sizes, Prior(past, before.shares), trusted(before.stay), message)
    likeliest = prior.communities[:, 0]
    start = np.where(prior.shares[:, 0] > 0, likeliest, labels).astype(np.int32)
    mixing = bounded_mixing(mixing)
    model = Model(mixing, parameters.size_spread, n_communities or n_distinct(start))
    found = believe(
        graph, start, len(ids), model, parameters.sweeps, prior, stay=1.0, learn_stay=False
    )
    communities = found.communities.copy()
    if n_communities is not None:
        known = Posterior(
            communities, found.shares, mixing, found.stay, True, parameters.resolution
        )
        every = np.arange(len(labels))
        communities[:, 0] = exact_labels(graph, known, every, n_communities, seed)
    n_new = max(int(communities.max()) + 1 - len(ids), 0)
    names = np.concatenate([ids, next_id + np.arange(n_new), [NOBODY]])  # the last for -1
    return names[communities], found.shares


def _numbered(table: Ids, ids: Ids) -> Labels:
    """Return positions in `ids`, -1 for `NOBODY`."""
    return np.where(table >= 0, np.searchsorted(ids, table), NOBODY).astype(np.int32)


def _as_of_now(future: Labels, labels: Labels, n_labels: int) -> Labels:
    """Return later communities in terms of those of this window.

    The later community that most nodes of a community went into counts as that community, for its
    own nodes. Another one that has not begun yet is replaced by the community that most of its
    nodes come from, or is unknown.
    """
    likeliest = future[:, 0].copy()
    seen = likeliest >= 0
    into = _successors(likeliest[seen], labels[seen], n_labels)
    origin = _successors(labels, likeliest, n_labels)
    mine = labels[:, None]
    became = (future == into[mine]) & (future >= 0)
    has_begun = np.zeros(n_labels + 1, np.bool_)
    has_begun[-1] = True  # for -1
    has_begun[labels] = True
    origins = np.append(origin, NOBODY)[future]
    return np.where(became, mine, np.where(has_begun[future], future, origins)).astype(np.int32)


def _successors(labels: Labels, remembered: Labels, n_remembered: int) -> Labels:
    """The current label of each remembered community, (n_remembered,), or `NOBODY`.

    Its own label if it still has nodes, or if none of its nodes is present; else the community
    that has more than half of its nodes.
    """
    found = np.ones(n_remembered, np.bool_)
    found[remembered[remembered >= 0]] = False
    found[labels[labels < n_remembered]] = True
    own = np.arange(n_remembered, dtype=np.int32)
    return np.where(found, own, majority(remembered, labels, n_remembered))
