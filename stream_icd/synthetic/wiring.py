"""Edges for given degrees and communities: the configuration model of the LFR benchmark.

Stubs (half edges) are paired at random, inside each community and between communities; pairs that
a simple graph cannot hold are then exchanged with random good ones, which keeps every degree.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_icd.arrays import Labels
from stream_icd.synthetic.planted_graph import Edges

Degrees = NDArray[np.int64]

MAX_ROUNDS, OFFERS = 40, 4
"""Maximum rounds of exchanges, and offers per round, before the rest is dropped: without a limit, a
degree sequence of no simple graph (three hubs in a community of ten) would never end."""


class SplitDegrees(NamedTuple):
    """How many of each node's edges stay in its community, and how many leave it."""

    internal: Degrees  # (n,)
    external: Degrees  # (n,)


def split_degrees(rng: np.random.Generator, degrees: Degrees, mixing: float) -> SplitDegrees:
    """Return the internal degree (1 − μ)d, rounded at random so that its mean is exact."""
    internal = np.floor((1 - mixing) * degrees + rng.random(len(degrees))).astype(np.int64)
    return SplitDegrees(internal, degrees - internal)


def wire_edges(rng: np.random.Generator, degrees: SplitDegrees, communities: Labels) -> Edges:
    """Draw random simple edges, (2, E) unordered, with these internal and external degrees.

    No edge appears twice, joins a node to itself, or (as an external one) stays in its community.
    A community with an odd number of internal stubs makes one stub external or one internal, and
    the few stubs that no exchange can place are dropped, so a degree can be below its target.
    """
    internal, external = _even_out(rng, degrees, communities)
    each_node = np.arange(len(communities), dtype=np.int32)
    everywhere = np.zeros_like(communities)
    inside = _simple_pairs(rng, internal, groups=communities, apart=each_node)
    outside = _simple_pairs(rng, external, groups=everywhere, apart=communities)
    return np.concatenate([inside, outside], axis=1)


def _even_out(rng: np.random.Generator, degrees: SplitDegrees, communities: Labels) -> SplitDegrees:
    """Make each community's internal stubs even, and then all the external ones together."""
    internal, external = degrees.internal.copy(), degrees.external.copy()
    odd = np.bincount(communities, internal).astype(np.int64) % 2 == 1
    can_gain = (external > 0) & (internal + 1 < np.bincount(communities)[communities])
    # A coin decides whether an odd community gains or loses a stub, which keeps the mixing right.
    gains = odd & (rng.random(len(odd)) < 0.5) & (np.bincount(communities, can_gain) > 0)
    loses = odd & ~gains
    gainers = _one_each(rng, communities, can_gain & gains[communities])
    losers = _one_each(rng, communities, (internal > 0) & loses[communities])
    internal[gainers] += 1
    internal[losers] -= 1
    if external.any():  # separate communities stay separate
        external[gainers] -= 1
        external[losers] += 1
    if external.sum() % 2:
        external[rng.choice(np.flatnonzero(external))] -= 1
    return SplitDegrees(internal, external)


def _one_each(
    rng: np.random.Generator, communities: Labels, allowed: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Return one random allowed node of each community that has any."""
    nodes = rng.permutation(np.flatnonzero(allowed))
    _, first = np.unique(communities[nodes], return_index=True)
    return nodes[first]


def _simple_pairs(
    rng: np.random.Generator, degrees: Degrees, groups: Labels, apart: Labels
) -> NDArray[np.int64]:
    """Draw random pairs (u, v), each once, in one group and with apart[u] != apart[v]: (2, E).

    Each group has an even number of stubs. In one round each bad pair (u, v) is offered random
    pairs (x, y) of its group, to become (u, x), (v, y) if both are good: no round is a loss.
    """
    pairs, starts, ends = _random_pairs(rng, degrees, groups)
    keys = _keys(pairs, len(degrees))
    bad = _repeated(keys) | (apart[pairs[0]] == apart[pairs[1]])
    for _ in range(MAX_ROUNDS):
        if not bad.any():
            break
        ours = np.repeat(np.flatnonzero(bad), OFFERS)
        theirs = rng.integers(starts[ours], ends[ours])
        # (u, v), (x, y) become (u, x), (v, y) or, at random, (u, y), (v, x).
        straight, turned = pairs[:, theirs], pairs[::-1, theirs]
        joined = np.where(rng.random(len(ours)) < 0.5, straight, turned)
        offered = np.stack([pairs[:, ours], joined])  # (2 ends, 2 pairs, n_offers)
        offered_keys = _keys(offered, len(degrees))  # (2 pairs, n_offers)
        good = (apart[offered[0]] != apart[offered[1]]) & ~_is_among(offered_keys, np.sort(keys))
        fits = np.flatnonzero(good.all(axis=0) & ~bad[theirs])
        # Those can be applied at once of which none shares a pair with an earlier one.
        made = _repeated(offered_keys[:, fits].T.ravel()).reshape(-1, 2).any(axis=1)
        fits = fits[~(_repeated(ours[fits]) | _repeated(theirs[fits]) | made)]
        for place, side in ((ours[fits], 0), (theirs[fits], 1)):
            pairs[:, place] = offered[:, side, fits]
            keys[place] = offered_keys[side, fits]
        bad[ours[fits]] = False
    return pairs[:, ~bad]


def _random_pairs(
    rng: np.random.Generator, degrees: Degrees, groups: Labels
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Pair all stubs at random in their group; return where each pair's group starts and ends."""
    stubs = rng.permutation(np.repeat(np.arange(len(degrees)), degrees))
    pairs = stubs[np.argsort(groups[stubs], kind="stable")].reshape(-1, 2).T.copy()
    pair_groups = groups[pairs[0]]  # ascending
    starts = np.searchsorted(pair_groups, pair_groups, side="left")
    ends = np.searchsorted(pair_groups, pair_groups, side="right")
    return pairs, starts, ends


def _keys(pairs: NDArray[np.int64], n_nodes: int) -> NDArray[np.int64]:
    """Return one number per pair, independent of direction; the ends are along axis 0."""
    keys: NDArray[np.int64] = pairs.min(axis=0) * n_nodes + pairs.max(axis=0)
    return keys


def _is_among(values: NDArray[np.int64], ascending: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which values are in the sorted array (ten times faster than np.isin, which sorts)."""
    at = np.searchsorted(ascending, values).clip(max=len(ascending) - 1)
    among: NDArray[np.bool_] = ascending[at] == values
    return among


def _repeated(values: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether an equal value occurs earlier in the array."""
    repeated = np.ones(len(values), dtype=np.bool_)
    repeated[np.unique(values, return_index=True)[1]] = False
    return repeated
