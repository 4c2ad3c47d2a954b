"""The prior of each node in a window, from the windows before and after it.

The forward–backward algorithm of hidden Markov models, one chain per node: docs/method.md, (11). A
node stays in its community with probability η, else it is anywhere. Division by the prediction from
this window removes from the smoothed beliefs of the next one what they have from this one. Beliefs
are sparse, (n, N_KEPT) per window; what is missing to a sum of 1 is spread over all communities by
their size n_c.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_icd.bp.dynamic.posterior import NOBODY, tidy
from stream_icd.bp.multilevel.level_graph import Labels
from stream_icd.bp.planted_partition.sweep import N_KEPT, Prior

Floats = NDArray[np.float64]


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
