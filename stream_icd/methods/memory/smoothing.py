"""Communities of past windows from the windows before and after each: for replays.

A pure function from consecutive windows of one graph to their communities, with the ids that
detection forward in time gives them. It keeps all windows in memory. The forward–backward algorithm
of hidden Markov models, one chain per node: docs/method.md, (11). Beliefs are sparse, (n, N_KEPT)
per window; what is missing to a sum of 1 is spread over all communities by their size n_c.

Whole communities also begin and end between windows, although their nodes stay together. So a later
community that this window does not have counts as the node's community of this window.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from stream_icd.core.arrays import NOBODY, Floats, Ids, Labels, Shares, n_distinct
from stream_icd.core.compiled import uninterrupted
from stream_icd.core.errors import BadInput, BadSettings
from stream_icd.core.node_ids import common_type, places
from stream_icd.core.snapshot import Snapshot
from stream_icd.methods.bp.belief_propagation import PlantedModel as Planted
from stream_icd.methods.bp.belief_propagation import believe
from stream_icd.methods.bp.level_graph import LevelGraph, compact, level_of, rows_of
from stream_icd.methods.bp.likelihood import bounded_mixing
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.bp.partition import majority
from stream_icd.methods.bp.posterior import (
    Posterior,
    exact_labels,
    kept_a_window,
    tidy,
)
from stream_icd.methods.bp.prior import N_KEPT, Prior, trusted
from stream_icd.methods.memory.detect import Remembered, check_given, detect_remembering
from stream_icd.methods.memory.horizon import Horizon
from stream_icd.methods.memory.memory import Memory
from stream_icd.methods.memory.nodes import FORGOTTEN
from stream_icd.methods.model import Model

LEAST_BITS = 0.02
"""Bits per edge that communities save on a window after them, at least, if it has to do with them.
By chance, they save .00."""


def detect_smoothed(
    snapshots: Sequence[Snapshot],
    model: Model,
    memory: Memory | None = None,
    n_communities: Sequence[int | None] | None = None,
    *,
    horizon: Horizon = "auto",
    seed: int = 0,
    clock: Callable[[], float] = time.perf_counter,
) -> list[Remembered]:
    """Find the communities of consecutive windows, each with the windows before and after it.

    The last window has the result of `detect_remembering`, and so has a window that modularity
    decided, and one that is damaged. Each result's `memory` is the one after the window in forward
    detection; a stream can continue with it.

    Args:
        snapshots: windows of one graph, each after the one before.
        memory: the memory before the first window; None: there is none.
        horizon: see `detect_remembering`.
        n_communities: K of each window, None to determine it; or None for all.

    Raises:
        BadInput: a graph cannot be used, or a window is not after the one before, or of another
            graph.
        BadSettings: K is not from 1 to n, or not one for each window; or a snapshot, the model, the
            memory or the horizon is none.
    """
    check_given(snapshots, model, memory)
    ks = [None] * len(snapshots) if n_communities is None else list(n_communities)
    if len(ks) != len(snapshots):
        raise BadSettings(
            f"n_communities has {len(ks)} entries; {len(snapshots)} windows need one each"
        )
    if len(graphs := {snapshot.graph for snapshot in snapshots}) > 1:
        raise BadInput(f"give windows of one graph; there are {' and '.join(sorted(graphs))}")
    for before, after in pairwise(snapshots):
        if after.window.end <= before.window.end:
            raise BadInput(
                f"{after.id} ends at {after.window.end}, not after {before.id}; sort the windows "
                "by time, and keep one of each"
            )
    if not snapshots:
        return []
    forward, memories = list[Remembered](), [Memory.forgotten(0) if memory is None else memory]
    for snapshot, k in zip(snapshots, ks, strict=True):
        detected = detect_remembering(
            snapshot, model, memories[-1], k, horizon=horizon, seed=seed, clock=clock
        )
        forward.append(detected)
        memories.append(detected.memory)
    last, results = memories[-1], list(forward)
    later, next_id = _about(last, last.nodes), last.next_id
    # Backward: the beliefs about each window need those about the one after it. A damaged window
    # has no part in this, since nothing was learned from it.
    whole = [at for at, detected in enumerate(forward) if not detected.damaged]
    for at, next_at in reversed(list(pairwise(whole))):
        started, nodes = clock(), snapshots[at].nodes
        own = _about(forward[at].memory, nodes)
        is_smoothed = _is_related(forward[at], forward[next_at])
        if is_smoothed:
            own = _smoothed(
                level_of(rows_of(snapshots[at].adjacency()).comparable(model.bp.weight_exponent)),
                forward[at].memory.posterior,
                own,
                before=_about(memories[at], nodes),
                after=later,
                stay_after=forward[next_at].memory.posterior.stay,
                parameters=model.bp,
                n_communities=ks[at],
                next_id=next_id,
                seed=seed,
            )
            next_id = max(next_id, int(own.ids.max(initial=NOBODY)) + 1)
        later = _with_absent(own, later, kept_a_window(forward[at].memory.posterior.stay))
        spent = 1000 * (clock() - started)
        results[at] = _result(forward[at], own, spent, is_smoothed=is_smoothed)
    last = replace(last, next_id=next_id)
    return [*results[:-1], replace(results[-1], memory=last)]


def _is_related(window: Remembered, following: Remembered) -> bool:
    """Return whether the window that follows says something of this one."""
    now, then = window.memory.posterior, following.memory.posterior
    predicted = following.predicted_bits or 0.0
    return now.believed and then.believed and then.stay > 0 and predicted > LEAST_BITS


@dataclass(frozen=True, slots=True, eq=False)
class _About:
    """Beliefs about nodes: stable ids of communities, `(n_nodes, N_KEPT)`, and their shares.

    The most probable one is first, and `NOBODY` in unused places.
    """

    nodes: pa.Array
    ids: Ids
    shares: Shares

    def of(self, nodes: pa.Array) -> _About:
        """Return the beliefs about these nodes."""
        place = places(nodes, self.nodes)  # [-1] for unknown nodes
        ids = np.concatenate([self.ids, np.full((1, N_KEPT), NOBODY)])[place]
        shares = np.concatenate([self.shares, np.zeros((1, N_KEPT), np.float32)])[place]
        return _About(nodes, ids, shares)

    def among(self, ids: Ids) -> Prior:
        """Return the same with positions in these ids, which ascend."""
        at = np.where(self.ids >= 0, np.searchsorted(ids, self.ids), NOBODY)
        return Prior(at.astype(np.int32), self.shares)


def _about(memory: Memory, nodes: pa.Array) -> _About:
    """Return what is believed of these nodes after a window."""
    posterior = memory.posterior
    ids = np.append(memory.community_ids, NOBODY)[posterior.communities]  # [-1] for none
    return _About(memory.nodes, ids, posterior.shares).of(nodes)


def _with_absent(own: _About, later: _About, kept: float) -> _About:
    """Return the beliefs of a window, and later ones about nodes that it lacks."""
    kind = common_type(own.nodes, later.nodes)
    shares = later.shares * np.float32(kept)
    absent = (places(later.nodes, own.nodes) < 0) & (shares.sum(axis=1) >= FORGOTTEN)
    if kind is None or not absent.any():
        return own
    nodes = [own.nodes.cast(kind), later.nodes.filter(pa.array(absent)).cast(kind)]
    return _About(
        pa.concat_arrays(nodes),
        np.concatenate([own.ids, later.ids[absent]]),
        np.concatenate([own.shares, shares[absent]]),
    )


def _result(
    forward: Remembered, own: _About, milliseconds: float, *, is_smoothed: bool
) -> Remembered:
    """Return what is found in hindsight; is_smoothed: with beliefs that know the later windows."""
    labels, n_communities = compact(
        np.unique(own.ids[:, 0], return_inverse=True)[1].astype(np.int32)
    )
    ids = np.empty(n_communities, np.int64)
    ids[labels] = own.ids[:, 0]
    result = replace(
        forward,
        communities=labels,
        community_ids=ids,
        milliseconds=forward.milliseconds + milliseconds,
    )
    if not is_smoothed:
        return result
    has_second = own.ids[:, 1] != own.ids[:, 0]  # else they were made one, to have K of them
    return replace(
        result,
        probabilities=own.shares[:, 0],
        second_ids=np.where(has_second, own.ids[:, 1], NOBODY),
        second_probabilities=np.where(has_second, own.shares[:, 1], np.float32(0)),
    )


@uninterrupted()
def _smoothed(
    graph: LevelGraph,
    posterior: Posterior,
    own: _About,
    before: _About,
    after: _About,
    stay_after: float,
    parameters: BpParameters,
    n_communities: int | None,
    next_id: int,
    seed: int,
) -> _About:
    """Return the beliefs about the nodes of a window, from its edges, its past and its future.

    graph: the edges of the window; posterior: what is known after it.
    own: the beliefs about its nodes in it.
    before: filtered beliefs of the window before; after: smoothed beliefs of the window after it.
    stay_after: η between this window and the one after it.

    No id is new, unless exactly K communities need one: those are `next_id` and the following. For
    nodes without edges, the windows before and after decide.
    """
    after = after.of(own.nodes)
    ids = np.unique([own.ids, before.ids, after.ids])
    ids = ids[ids != NOBODY]
    here, past, future = (beliefs.among(ids) for beliefs in (own, before, after))
    labels = here.communities[:, 0].copy()
    future = future._replace(communities=_as_of_now(future.communities, labels, len(ids)))
    sizes = np.bincount(labels, minlength=len(ids)).clip(1) / len(labels)
    message = _backward_message(sizes, here, future, trusted(stay_after))
    prior = _two_sided_prior(sizes, past, trusted(posterior.stay), message)
    start = np.where(prior.shares[:, 0] > 0, prior.communities[:, 0], labels).astype(np.int32)
    mixing = bounded_mixing(posterior.mixing)
    model = Planted(mixing, parameters.size_spread, n_communities or n_distinct(start))
    marginals = believe(
        graph, start, len(ids), model, parameters.sweeps, prior, 1.0, learn_stay=False
    )
    communities, shares = marginals.communities, marginals.shares
    if n_communities is not None:
        resolution = parameters.resolution
        believed = Posterior(communities, shares, mixing, marginals.stay, True, resolution)
        every = np.arange(len(labels))
        communities[:, 0] = exact_labels(graph, believed, every, n_communities, seed)
    n_new = max(int(communities.max()) + 1 - len(ids), 0)
    names = np.concatenate([ids, next_id + np.arange(n_new), [NOBODY]])  # the last for -1
    return _About(own.nodes, names[communities], shares)


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
    stays = np.ones(n_remembered, np.bool_)
    stays[remembered[remembered >= 0]] = False
    stays[labels[labels < n_remembered]] = True
    own = np.arange(n_remembered, dtype=np.int32)
    return np.where(stays, own, majority(remembered, labels, n_remembered))


class _BackwardMessage(NamedTuple):
    """β of the named communities, and of all others."""

    communities: Labels  # (n, N_KEPT), unused places last and -1
    factors: Floats  # (n, N_KEPT)
    others: Floats  # (n, 1)


def _backward_message(sizes: Floats, now: Prior, then: Prior, stay: float) -> _BackwardMessage:
    """Return β_t.

    sizes: n_c, (K,), add up to 1.
    now:   filtered beliefs of this window; then: smoothed beliefs of the next.
    stay:  η between the two, below 1.
    """
    communities, shares = tidy(then.communities, then.shares)
    by_chance = _moved(now, stay) * sizes[communities]
    expected = by_chance + stay * _believed(now.communities, now.shares, communities)
    ratio = np.where(communities >= 0, shares / expected, 0.0)
    unnamed = (1 - shares.sum(axis=1, keepdims=True, dtype=np.float64)).clip(0)
    others = unnamed + (1 - stay) * (ratio * sizes[communities]).sum(axis=1, keepdims=True)
    return _BackwardMessage(communities, others + stay * ratio, others)


def _two_sided_prior(sizes: Floats, past: Prior, stay: float, message: _BackwardMessage) -> Prior:
    """Return the prior p_t β_t, as shares beyond what the size n_c alone would give each community.

    past: filtered beliefs of the window before; stay: η between it and this one, below 1.
    """
    moved = _moved(past, stay)
    named = np.concatenate([past.communities, message.communities], axis=1)  # (n, 2 N_KEPT)
    expected = moved * sizes[named] + _believed(past.communities, stay * past.shares, named)
    others = np.repeat(message.others, N_KEPT, axis=1)
    chance = moved * message.others
    beyond = expected * np.concatenate([others, message.factors], axis=1) - chance * sizes[named]
    counts = named >= 0
    twice = past.communities[:, :, None] == message.communities[:, None, :]
    counts[:, :N_KEPT] &= ~twice.any(axis=2)
    beyond = np.where(counts, beyond, 0.0).clip(0)
    shares = (beyond / (chance + beyond.sum(axis=1, keepdims=True))).astype(np.float32)
    named, shares = tidy(np.where(shares > 0, named, NOBODY).astype(np.int32), shares)
    return Prior(named[:, :N_KEPT].copy(), shares[:, :N_KEPT].copy())


def _moved(beliefs: Prior, stay: float) -> Floats:
    """Return the probability that a node's next community is independent of this one, (n, 1)."""
    moved: Floats = 1 - stay * beliefs.shares.sum(axis=1, keepdims=True, dtype=np.float64)
    return moved


def _believed(communities: Labels, shares: Shares, named: Labels) -> Floats:
    """Return the share of each of the named communities, 0 for -1, (n, m)."""
    same = (communities[:, :, None] == named[:, None, :]) & (named >= 0)[:, None, :]
    believed: Floats = np.where(same, shares[:, :, None], 0.0).sum(axis=1, dtype=np.float64)
    return believed
