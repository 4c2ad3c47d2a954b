"""Communities of one window from the windows before and after it.

The filter (`remember`) knows the past of a window. Here the beliefs of the next window, which know
the future, join the prior of each node (`past_and_future`); belief propagation on the edges of this
window follows.

Whole communities also begin and end between windows, although their nodes stay together. So a later
community that the edges of this window do not show counts as the node's community of this window.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream_icd.bp.belief_propagation import Model, Recollection, believe, trusted
from stream_icd.bp.believed_exactly import believed_exactly
from stream_icd.bp.births import born_communities
from stream_icd.bp.level_graph import Labels, finest_level
from stream_icd.bp.mixing import MIXING_RANGE
from stream_icd.bp.naming import NOBODY, successors
from stream_icd.bp.parameters import BpParameters
from stream_icd.bp.past_and_future import message_from_the_future, prior_of_both
from stream_icd.bp.recalled import NO_ID, Ids, Recalled, Shares
from stream_icd.graphs.weights import comparable


class WindowBeliefs(NamedTuple):
    """The beliefs of another window about the nodes of this one.

    ids, shares: both (n, N_KEPT), as in `Recalled`; a share of 0 is no belief.
    stay: η between the two windows, in 0..1.
    """

    ids: Ids
    shares: Shares
    stay: float


def smoothed_beliefs(
    adjacency: csr_array,
    parameters: BpParameters,
    own: Recalled,
    before: WindowBeliefs,
    after: WindowBeliefs,
    n_communities: int | None = None,
    seed: int = 0,
) -> Recalled:
    """Return the beliefs about the nodes of a window, from its edges, its past and its future.

    own:    filtered beliefs of this window, decided by belief propagation.
    before: filtered beliefs of the window before; after: smoothed beliefs of the window after it.

    No id is new, unless exactly K communities need one: those are `own.next_id` and the following.
    For nodes without edges, the windows before and after decide.
    """
    graph = finest_level(comparable(adjacency, parameters.weight_exponent))
    ids = np.unique(np.concatenate([np.ravel(own.ids), np.ravel(before.ids), np.ravel(after.ids)]))
    ids = ids[ids != NO_ID]
    here, past, future = (_numbered(one.ids, ids) for one in (own, before, after))
    labels = here[:, 0].copy()
    mixing = float(np.clip(own.mixing, *MIXING_RANGE))
    born = born_communities(
        graph, *_not_here(future[:, 0].copy(), labels, len(ids)), labels, mixing
    )
    future = _as_of_now(future, labels, born, len(ids))
    sizes = np.bincount(labels, minlength=len(ids)).clip(1) / len(labels)
    message = message_from_the_future(
        sizes,
        Recollection(here, own.shares),
        Recollection(future, after.shares),
        trusted(after.stay),
    )
    prior = prior_of_both(sizes, Recollection(past, before.shares), trusted(before.stay), message)
    likeliest = prior.communities[:, 0]
    start = np.where(prior.shares[:, 0] > 0, likeliest, labels).astype(np.int32)
    model = Model(mixing, parameters.size_spread, n_communities or len(np.unique(start)))
    found = believe(
        graph, start, len(ids), model, parameters.sweeps, prior, stay=1.0, learn_stay=False
    )
    if n_communities is not None:
        rng = np.random.default_rng(seed)
        found = believed_exactly(graph, found, n_communities, parameters.resolution, True, rng)
    n_new = max(int(found.communities.max()) + 1 - len(ids), 0)
    names = np.concatenate([ids, own.next_id + np.arange(n_new), [NO_ID]])  # the last for -1
    return replace(
        own,
        ids=names[found.communities],
        shares=found.shares,
        mixing=found.mixing,
        next_id=own.next_id + n_new,
    )


def _numbered(table: Ids, ids: Ids) -> Labels:
    """Return positions in `ids`, -1 for `NO_ID`."""
    return np.where(table >= 0, np.searchsorted(ids, table), NOBODY).astype(np.int32)


def _not_here(future: Labels, labels: Labels, n_labels: int) -> tuple[Labels, int]:
    """Return the later community of each node if this window has no such community, else -1."""
    return np.where(_known(n_labels, labels)[future], NOBODY, future).astype(np.int32), n_labels


def _known(n_labels: int, *of_nodes: Labels) -> NDArray[np.bool_]:
    """Return which labels occur, (n_labels + 1,); the last is for -1, which always does."""
    known = np.zeros(n_labels + 1, np.bool_)
    known[-1] = True
    for labels in of_nodes:
        known[labels] = True
    return known


def _as_of_now(future: Labels, labels: Labels, born: Labels, n_labels: int) -> Labels:
    """Return later communities in terms of those of this window.

    The later community that most nodes of a community went into counts as that community, for its
    own nodes. Another one that has not begun yet is replaced by the community that most of its
    nodes come from, or is unknown.
    """
    likeliest = future[:, 0].copy()
    seen = likeliest >= 0
    into = successors(likeliest[seen], labels[seen], n_labels)
    origin = successors(labels, likeliest, n_labels)
    mine = labels[:, None]
    became = (future == into[mine]) & (future >= 0)
    has_begun = _known(n_labels, labels, born)
    origins = np.append(origin, NOBODY)[future]
    return np.where(became, mine, np.where(has_begun[future], future, origins)).astype(np.int32)
