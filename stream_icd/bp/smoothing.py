"""Communities of one window from the windows before and after it.

The filter (`posterior`) knows the past of a window. Here the beliefs of the next window, which know
the future, join the prior of each node, and belief propagation on the evidence of this window
follows: the forward–backward algorithm of hidden Markov models, one chain per node (docs/method.md,
(11)). Beliefs are sparse, (n, N_KEPT) per window; what is missing to a sum of 1 is spread over all
communities by their size n_c.

Whole communities also begin and end between windows, although their nodes stay together. So a later
community that this window does not have counts as the node's community of this window.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from stream_icd.arrays import Floats, Ids, Labels, n_distinct
from stream_icd.bp.belief_propagation import Model, believe, trusted
from stream_icd.bp.level_graph import finest_level
from stream_icd.bp.likelihood import bounded_mixing
from stream_icd.bp.parameters import BpParameters
from stream_icd.bp.posterior import NOBODY, Posterior, Shares, exact_labels, majority, tidy
from stream_icd.bp.sweep import N_KEPT, Prior
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
    beliefs = Prior(here, own.shares), Prior(future, after.shares)
    message = backward_message(sizes, *beliefs, trusted(after.stay))
    prior = two_sided_prior(sizes, Prior(past, before.shares), trusted(before.stay), message)
    likeliest = prior.communities[:, 0]
    start = np.where(prior.shares[:, 0] > 0, likeliest, labels).astype(np.int32)
    mixing = bounded_mixing(mixing)
    model = Model(mixing, parameters.size_spread, n_communities or n_distinct(start))
    marginals = believe(
        graph, start, len(ids), model, parameters.sweeps, prior, 1.0, learn_stay=False
    )
    communities, shares = marginals.communities, marginals.shares
    if n_communities is not None:
        known = Posterior(communities, shares, mixing, marginals.stay, True, parameters.resolution)
        every = np.arange(len(labels))
        communities[:, 0] = exact_labels(graph, known, every, n_communities, seed)
    n_new = max(int(communities.max()) + 1 - len(ids), 0)
    names = np.concatenate([ids, next_id + np.arange(n_new), [NOBODY]])  # the last for -1
    return names[communities], shares


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


class Message(NamedTuple):
    """β of the named communities, and of all others.

    communities: (n, N_KEPT), unused places last and -1; factors: (n, N_KEPT); others: (n, 1).
    """

    communities: Labels
    factors: Floats
    others: Floats


def backward_message(sizes: Floats, now: Prior, then: Prior, stay: float) -> Message:
    """Return β_t.

    sizes: n_c, (K,), add up to 1.
    now:   filtered beliefs of this window; then: smoothed beliefs of the next.
    stay:  η between the two, below 1.
    """
    moved = _moved(now, stay)
    communities, shares = tidy(then.communities, then.shares)
    known = communities >= 0
    believed = np.zeros(communities.shape)
    for place in range(N_KEPT):
        same = communities == now.communities[:, place : place + 1]
        believed += np.where(same & known, now.shares[:, place : place + 1], 0.0)
    by_chance = moved * sizes[communities]
    ratio = np.where(known, shares / (by_chance + stay * believed), 0.0)
    unnamed = (1 - shares.sum(axis=1, keepdims=True, dtype=np.float64)).clip(0)
    others = unnamed + (1 - stay) * (ratio * sizes[communities]).sum(axis=1, keepdims=True)
    return Message(communities, others + stay * ratio, others)


def two_sided_prior(sizes: Floats, past: Prior, stay: float, message: Message) -> Prior:
    """Return the prior p_t β_t, as shares beyond what the size n_c alone would give each community.

    past: filtered beliefs of the window before; stay: η between it and this one, below 1.
    """
    moved = _moved(past, stay)
    named = np.concatenate([past.communities, message.communities], axis=1)  # (n, 2 N_KEPT)
    expected = moved * sizes[named]
    expected[:, :N_KEPT] += stay * past.shares
    factors = np.repeat(message.others, 2 * N_KEPT, axis=1)
    factors[:, N_KEPT:] = message.factors
    counted = named >= 0
    for place in range(N_KEPT):
        same = (message.communities == named[:, place : place + 1]) & counted[:, N_KEPT:]
        expected[:, N_KEPT:][same] = np.broadcast_to(expected[:, place : place + 1], same.shape)[
            same
        ]
        counted[:, place] &= ~same.any(axis=1)
    chance = moved * message.others
    beyond = np.where(counted, expected * factors - chance * sizes[named], 0.0).clip(0)
    shares = (beyond / (chance + beyond.sum(axis=1, keepdims=True))).astype(np.float32)
    order = np.argsort(-shares, axis=1, kind="stable")[:, :N_KEPT]
    kept = np.take_along_axis(shares, order, 1)
    communities = np.take_along_axis(named, order, 1)
    return Prior(*tidy(np.where(kept > 0, communities, NOBODY).astype(np.int32), kept))


def _moved(beliefs: Prior, stay: float) -> Floats:
    """Return the probability that a node's next community is independent of this one, (n, 1)."""
    moved: Floats = 1 - stay * beliefs.shares.sum(axis=1, keepdims=True, dtype=np.float64)
    return moved
