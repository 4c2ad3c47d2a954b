"""The LFR benchmark: power-law degrees, power-law community sizes, a given mixing.

Lancichinetti, Fortunato and Radicchi, "Benchmark graphs for testing community detection
algorithms" (Phys. Rev. E 78, 2008), with the settings of the ICD paper as defaults.

Edges are those of the configuration model: stubs (half edges) are paired at random, inside each
community and between communities; pairs that a simple graph cannot hold are then exchanged with
random good ones, which keeps every degree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_icd.core.arrays import Floats, Ids, Labels
from stream_icd.core.errors import BadSettings
from stream_icd.methods.synthetic.planted_graph import (
    Edges,
    PlantedGraph,
    check_size,
    shuffle_nodes,
)

Degrees = Ids

_DEGREE_EXPONENT, _COMMUNITY_EXPONENT = 2.0, 1.0
"""τ₁ and τ₂ of the power laws of degrees and of community sizes."""

_MAX_DRAWS = 100
"""Maximum draws of community sizes to find room for the largest hubs (small graphs only)."""

_MAX_ROUNDS, _OFFERS = 40, 4
"""Maximum rounds of exchanges, and offers per round, before the rest is dropped: without a limit, a
degree sequence of no simple graph (three hubs in a community of ten) would never end."""


@dataclass(frozen=True)
class LfrSettings:
    """Parameters of an LFR graph, checked on creation (`BadSettings`)."""

    n_nodes: int = 5000
    mean_degree: float = 10
    max_degree: int = 100
    min_community: int = 10
    max_community: int = 200
    mixing: float = 0.3  # μ, the share of a node's edges that leave its community

    def __post_init__(self) -> None:
        check_size(self.n_nodes)
        if not 0 <= self.mixing <= 1:
            raise BadSettings(f"mixing must be in 0..1, not {self.mixing}")
        if not 1 <= self.min_community <= self.max_community:
            raise BadSettings(
                f"community sizes must be 1 <= min <= max, not "
                f"{self.min_community}..{self.max_community}"
            )
        if self.n_nodes < 2 * self.min_community:
            raise BadSettings(
                f"{self.n_nodes} nodes cannot fill two communities of {self.min_community}: "
                "make more nodes, or smaller communities"
            )
        if not 1 <= self.max_degree < self.n_nodes:
            raise BadSettings(
                f"max_degree must be in 1..n_nodes - 1 ({self.n_nodes - 1}), not {self.max_degree}"
            )
        if (1 - self.mixing) * self.max_degree >= self.max_community:
            raise BadSettings(
                f"a node of degree {self.max_degree} at mixing {self.mixing} has more neighbours "
                f"inside than a community of {self.max_community} holds: "
                "lower max_degree or raise max_community"
            )


def generate_lfr(rng: np.random.Generator, settings: LfrSettings = LfrSettings()) -> PlantedGraph:
    """Generate a simple graph with shuffled node ids; `BadSettings` where no such graph exists.

    `mean_degree` is the exact mean of the distribution that degrees are drawn from. (The program
    of the benchmark's authors rounds the smallest degree to an integer, which makes 9.58 of 10.)
    `mixing` is reached within 0.005 at 5,000 nodes, less closely in smaller graphs; not where one
    community has most of the nodes. Time and memory grow with the edges.

    >>> generate_lfr(np.random.default_rng(7), LfrSettings(n_nodes=1000, mixing=0.5)).n_nodes
    1000
    """
    degrees = draw_degrees(rng, settings)
    split = split_degrees(rng, degrees, settings.mixing)
    communities = draw_communities(rng, split.internal, settings)
    return shuffle_nodes(rng, wire_edges(rng, split, communities), communities)


def draw_degrees(rng: np.random.Generator, settings: LfrSettings) -> Degrees:
    """Draw independent power-law degrees, (n_nodes,), each at least 1 and at most max_degree."""
    degrees = np.arange(1, settings.max_degree + 1)
    return rng.choice(degrees, settings.n_nodes, p=_degree_probabilities(settings))


def _degree_probabilities(settings: LfrSettings) -> Floats:
    """P(1), …, P(max_degree): k^-τ above a smallest degree m, and a part of m^-τ at m.

    Only this m and this part give exactly the requested mean.
    """
    degrees = np.arange(1, settings.max_degree + 1)
    weights = np.power(degrees, -_DEGREE_EXPONENT, dtype=np.float64)
    counts = np.cumsum(weights[::-1])[::-1]  # counts[i]: all weight at degrees[i] and above
    sums = np.cumsum((weights * degrees)[::-1])[::-1]
    means = sums / counts  # ascending
    target = settings.mean_degree
    if not means[0] <= target < settings.max_degree:
        raise BadSettings(
            f"mean_degree must be at least {means[0] + 0.005:.2f}, and below max_degree "
            f"({settings.max_degree}), for exponent {_DEGREE_EXPONENT:g}, not {target}"
        )
    lowest = int(np.searchsorted(means, target, side="right")) - 1
    weights[:lowest] = 0
    weights[lowest] = (sums[lowest + 1] - target * counts[lowest + 1]) / (target - degrees[lowest])
    probabilities: Floats = weights / weights.sum()
    return probabilities


def draw_communities(
    rng: np.random.Generator, internal_degrees: Degrees, settings: LfrSettings
) -> Labels:
    """Draw communities (n_nodes,), each node in one larger than its internal degree."""
    for _ in range(_MAX_DRAWS):
        sizes = _community_sizes(rng, settings)
        if _has_room(internal_degrees, sizes, sizes):
            return assign_communities(rng, internal_degrees, sizes, sizes)
    raise BadSettings(
        f"{settings.n_nodes} nodes leave no room for the internal degrees up to "
        f"{internal_degrees.max()}: make more nodes, or larger communities"
    )


def _community_sizes(rng: np.random.Generator, settings: LfrSettings) -> Ids:
    """Draw at least two power-law sizes that add up to n_nodes."""
    n_nodes, smallest = settings.n_nodes, settings.min_community
    largest = min(settings.max_community, n_nodes - smallest)
    support = np.arange(smallest, largest + 1)
    weights = support**-_COMMUNITY_EXPONENT
    drawn = rng.choice(support, n_nodes // smallest + 1, p=weights / weights.sum())
    n_communities = int(np.searchsorted(np.cumsum(drawn), n_nodes)) + 1
    n_communities = min(n_communities, n_nodes // smallest)
    if n_communities * largest < n_nodes:
        raise BadSettings(f"no communities of {smallest}..{largest} add up to {n_nodes} nodes")
    sizes = drawn[:n_communities]
    # Spread the difference over all sizes, because trimming the last would bias it.
    while surplus := int(sizes.sum()) - n_nodes:
        movable = np.flatnonzero(sizes > smallest if surplus > 0 else sizes < largest)
        changed = rng.permutation(movable)[: abs(surplus)]
        sizes[changed] -= np.sign(surplus)
    return sizes


def _has_room(internal_degrees: Degrees, sizes: Ids, places: Ids) -> bool:
    """Whether `assign_communities` can succeed: at every degree, room for all above it (Hall)."""
    wanted = np.bincount(internal_degrees, minlength=sizes.max())
    offered = np.bincount(sizes - 1, places, minlength=len(wanted))
    spare = np.cumsum(offered[::-1]) - np.cumsum(wanted[::-1])
    return bool((spare >= 0).all())


def assign_communities(
    rng: np.random.Generator,
    internal_degrees: Degrees,
    sizes: Ids,
    places: Ids,
) -> Labels:
    """Assign a community to each node, uniform over all ways with internal degree < its size.

    internal_degrees (n,); sizes (K,) of the communities; places (K,) still free in each, n in all.
    Degrees are assigned from the largest down: every place open to a degree is open to all smaller
    ones, so each step is a plain draw without replacement.
    """
    communities = np.empty(len(internal_degrees), dtype=np.int32)
    free = places.copy()
    by_degree = rng.permutation(len(internal_degrees))
    by_degree = by_degree[np.argsort(internal_degrees[by_degree], kind="stable")]
    served, counts = np.unique(internal_degrees, return_counts=True)
    lasts = np.cumsum(counts)
    for degree, count, last in zip(served[::-1], counts[::-1], lasts[::-1], strict=True):
        open_places = np.where(sizes > degree, free, 0)
        taken = rng.multivariate_hypergeometric(open_places, count)
        communities[by_degree[last - count : last]] = np.repeat(np.arange(len(sizes)), taken)
        free -= taken
    return communities


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


def _one_each(rng: np.random.Generator, communities: Labels, allowed: NDArray[np.bool_]) -> Ids:
    """Return one random allowed node of each community that has any."""
    nodes = rng.permutation(np.flatnonzero(allowed))
    _, first = np.unique(communities[nodes], return_index=True)
    return nodes[first]


def _simple_pairs(rng: np.random.Generator, degrees: Degrees, groups: Labels, apart: Labels) -> Ids:
    """Draw random pairs (u, v), each once, in one group and with apart[u] != apart[v]: (2, E).

    Each group has an even number of stubs. In one round each bad pair (u, v) is offered random
    pairs (x, y) of its group, to become (u, x), (v, y) if both are good: no round is a loss.
    """
    pairs, starts, ends = _random_pairs(rng, degrees, groups)
    keys = _keys(pairs, len(degrees))
    bad = _repeated(keys) | (apart[pairs[0]] == apart[pairs[1]])
    for _ in range(_MAX_ROUNDS):
        if not bad.any():
            break
        ours = np.repeat(np.flatnonzero(bad), _OFFERS)
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
) -> tuple[Ids, Ids, Ids]:
    """Pair all stubs at random in their group; return where each pair's group starts and ends."""
    stubs = rng.permutation(np.repeat(np.arange(len(degrees)), degrees))
    pairs = stubs[np.argsort(groups[stubs], kind="stable")].reshape(-1, 2).T.copy()
    pair_groups = groups[pairs[0]]  # ascending
    starts = np.searchsorted(pair_groups, pair_groups, side="left")
    ends = np.searchsorted(pair_groups, pair_groups, side="right")
    return pairs, starts, ends


def _keys(pairs: Ids, n_nodes: int) -> Ids:
    """Return one number per pair, independent of direction; the ends are along axis 0."""
    keys: Ids = pairs.min(axis=0) * n_nodes + pairs.max(axis=0)
    return keys


def _is_among(values: Ids, ascending: Ids) -> NDArray[np.bool_]:
    """Return which values are in the sorted array (ten times faster than np.isin, which sorts)."""
    at = np.searchsorted(ascending, values).clip(max=len(ascending) - 1)
    among: NDArray[np.bool_] = ascending[at] == values
    return among


def _repeated(values: Ids) -> NDArray[np.bool_]:
    """Return whether an equal value occurs earlier in the array."""
    repeated = np.ones(len(values), dtype=np.bool_)
    repeated[np.unique(values, return_index=True)[1]] = False
    return repeated
