"""The LFR benchmark, power-law degrees and community sizes at a given mixing, and streams of it.

Lancichinetti, Fortunato and Radicchi, "Benchmark graphs for testing community detection
algorithms" (Phys. Rev. E 78, 2008), with the settings of the ICD paper as defaults.

Edges are those of the configuration model: stubs (half edges) are paired at random, inside each
community and between communities; pairs that a simple graph cannot hold are then exchanged with
random good ones, which keeps every degree.

In a stream, nodes and degrees stay the same; a few nodes change community at each step, and
sometimes a whole community merges with another, splits, is born or dies. The edges of each snapshot
are drawn anew. The correct result of a community tracker is therefore known.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_icd.core.arrays import Ids, Labels
from stream_icd.core.errors import BadSettings
from stream_icd.methods.synthetic.planted_graph import PlantedGraph, check_n_nodes

_Degrees = Ids

_Identities = Ids
"""A community keeps its identity for life; its label in a snapshot (0..K-1) may change. `homes`,
(n_nodes,), are the identities of the nodes' communities."""

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
        check_n_nodes(self.n_nodes)
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
    degrees = _draw_degrees(rng, settings)
    split = _split_degrees(rng, degrees, settings.mixing)
    communities = _draw_communities(rng, split.internal, settings)
    return PlantedGraph.shuffled(rng, _wire_edges(rng, split, communities), communities)


@dataclass(frozen=True, eq=False)
class Drift:
    """Changes between the previous snapshot and this one; events come before moves."""

    identities: _Identities  # (K,) ascending; label c of this snapshot's communities is the c-th
    moved: Ids  # ascending; nodes that changed community one by one, not by an event
    merges: tuple[tuple[int, int], ...] = ()  # (absorbed, survivor); the survivor was the larger
    splits: tuple[tuple[int, int], ...] = ()  # (parent, child); the child took half of the nodes
    births: tuple[int, ...] = ()  # founded by nodes of many communities
    deaths: tuple[int, ...] = ()  # their nodes scattered over many communities


def generate_drifting_lfr(
    seed: int,
    n_snapshots: int,
    settings: LfrSettings = LfrSettings(),
    churn: float = 0.02,
    event_rate: float = 0.1,
) -> Iterator[tuple[PlantedGraph, Drift]]:
    """Yield snapshots with the changes before each; nothing changes before the first.

    churn:       share of the nodes offered another community at each step.
    event_rate:  probability at each step of a merge, and likewise of a split, a birth, a death.

    Sizes always stay within the bounds of `settings`; an event without room does not happen.
    A node whose community is too small for its internal degree has more external links instead.

    Raises `BadSettings`, at once, for a share or a probability outside [0, 1].

    >>> stream = generate_drifting_lfr(7, n_snapshots=3, settings=LfrSettings(n_nodes=1000))
    >>> [graph.n_nodes for graph, drift in stream]
    [1000, 1000, 1000]
    """
    for name, share in (("churn", churn), ("event_rate", event_rate)):
        if not 0 <= share <= 1:
            raise BadSettings(f"{name} must be in 0..1, not {share}")
    if n_snapshots < 0:
        raise BadSettings(f"n_snapshots cannot be negative: {n_snapshots}")
    return _drift(np.random.default_rng(seed), n_snapshots, settings, churn, event_rate)


def _draw_degrees(rng: np.random.Generator, settings: LfrSettings) -> _Degrees:
    """Independent degrees, (n_nodes,): P(k) is k^-τ above a smallest degree m, a part of m^-τ at m.

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
    return rng.choice(degrees, settings.n_nodes, p=weights / weights.sum())


def _draw_communities(
    rng: np.random.Generator, internal_degrees: _Degrees, settings: LfrSettings
) -> Labels:
    for _ in range(_MAX_DRAWS):
        sizes = _community_sizes(rng, settings)
        if _has_room(internal_degrees, sizes, sizes):
            return _assign_communities(rng, internal_degrees, sizes, sizes)
    raise BadSettings(
        f"{settings.n_nodes} nodes leave no room for the internal degrees up to "
        f"{internal_degrees.max()}: make more nodes, or larger communities"
    )


def _community_sizes(rng: np.random.Generator, settings: LfrSettings) -> Ids:
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


def _has_room(internal_degrees: _Degrees, sizes: Ids, places: Ids) -> bool:
    """Whether `_assign_communities` can succeed: at every degree, room for all above it (Hall)."""
    needed = np.bincount(internal_degrees, minlength=sizes.max())
    offered = np.bincount(sizes - 1, places, minlength=len(needed))
    spare = np.cumsum(offered[::-1]) - np.cumsum(needed[::-1])
    return bool((spare >= 0).all())


def _assign_communities(
    rng: np.random.Generator, internal_degrees: _Degrees, sizes: Ids, places: Ids
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
        counts_by_community = rng.multivariate_hypergeometric(open_places, count)
        communities[by_degree[last - count : last]] = np.repeat(
            np.arange(len(sizes)), counts_by_community
        )
        free -= counts_by_community
    return communities


class _Stubs(NamedTuple):
    internal: _Degrees  # (n,): how many of each node's edges stay in its community
    external: _Degrees  # (n,): how many leave it


def _split_degrees(rng: np.random.Generator, degrees: _Degrees, mixing: float) -> _Stubs:
    # (1 − μ)d, rounded at random so that its mean is exact
    internal = np.floor((1 - mixing) * degrees + rng.random(len(degrees))).astype(np.int64)
    return _Stubs(internal, degrees - internal)


def _wire_edges(rng: np.random.Generator, degrees: _Stubs, communities: Labels) -> Ids:
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


def _even_out(rng: np.random.Generator, degrees: _Stubs, communities: Labels) -> _Stubs:
    """The same with each community's internal stubs even, and then all the external ones."""
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
    return _Stubs(internal, external)


def _one_each(rng: np.random.Generator, communities: Labels, allowed: NDArray[np.bool_]) -> Ids:
    nodes = rng.permutation(np.flatnonzero(allowed))
    _, first = np.unique(communities[nodes], return_index=True)
    return nodes[first]


def _simple_pairs(
    rng: np.random.Generator, degrees: _Degrees, groups: Labels, apart: Labels
) -> Ids:
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
        repeats_an_offer = _repeated(offered_keys[:, fits].T.ravel()).reshape(-1, 2).any(axis=1)
        fits = fits[~(_repeated(ours[fits]) | _repeated(theirs[fits]) | repeats_an_offer)]
        for place, side in ((ours[fits], 0), (theirs[fits], 1)):
            pairs[:, place] = offered[:, side, fits]
            keys[place] = offered_keys[side, fits]
        bad[ours[fits]] = False
    return pairs[:, ~bad]


def _random_pairs(
    rng: np.random.Generator, degrees: _Degrees, groups: Labels
) -> tuple[Ids, Ids, Ids]:
    """All stubs paired at random in their group, and where each pair's group starts and ends."""
    stubs = rng.permutation(np.repeat(np.arange(len(degrees)), degrees))
    pairs = stubs[np.argsort(groups[stubs], kind="stable")].reshape(-1, 2).T.copy()
    pair_groups = groups[pairs[0]]  # ascending
    starts = np.searchsorted(pair_groups, pair_groups, side="left")
    ends = np.searchsorted(pair_groups, pair_groups, side="right")
    return pairs, starts, ends


def _keys(pairs: Ids, n_nodes: int) -> Ids:
    keys: Ids = pairs.min(axis=0) * n_nodes + pairs.max(axis=0)  # in both directions the same
    return keys


def _is_among(values: Ids, ascending: Ids) -> NDArray[np.bool_]:
    at = np.searchsorted(ascending, values).clip(max=len(ascending) - 1)
    among: NDArray[np.bool_] = ascending[at] == values  # ten times faster than np.isin, which sorts
    return among


def _repeated(values: Ids) -> NDArray[np.bool_]:
    repeated = np.ones(len(values), dtype=np.bool_)  # all but the first of equal values
    repeated[np.unique(values, return_index=True)[1]] = False
    return repeated


def _drift(
    rng: np.random.Generator,
    n_snapshots: int,
    settings: LfrSettings,
    churn: float,
    event_rate: float,
) -> Iterator[tuple[PlantedGraph, Drift]]:
    # Draws are independent for each node, so ids carry no information and need no shuffling.
    degrees = _draw_degrees(rng, settings)
    stubs = _split_degrees(rng, degrees, settings.mixing)
    homes = _draw_communities(rng, stubs.internal, settings).astype(np.int64)
    fresh = itertools.count(int(homes.max()) + 1)
    events: dict[str, Any] = {}
    moved = np.empty(0, np.int64)
    for step in range(n_snapshots):
        if step:
            # Events first: nodes that move one by one move between communities that there are now.
            events = {
                name: event(rng, homes, settings, fresh)
                for name, event in _EVENTS.items()
                if rng.random() < event_rate
            }
            # Split anew for each window: a node's edges inside must fit the community it is in now.
            stubs = _fit(_split_degrees(rng, degrees, settings.mixing), homes)
            moved = _move(rng, homes, stubs.internal, round(churn * len(homes)))
        identities, labels = np.unique(homes, return_inverse=True)
        communities = labels.astype(np.int32)
        graph = PlantedGraph.of_pairs(_wire_edges(rng, stubs, communities), communities)
        yield graph, Drift(identities, moved, **events)


def _fit(degrees: _Stubs, homes: _Identities) -> _Stubs:
    """Limit internal degrees to what each node's community allows; make the rest external."""
    _, labels, sizes = np.unique(homes, return_inverse=True, return_counts=True)
    internal = np.minimum(degrees.internal, sizes[labels] - 1)
    return _Stubs(internal, degrees.external + degrees.internal - internal)


def _move(rng: np.random.Generator, homes: _Identities, internal: _Degrees, n_movers: int) -> Ids:
    """Let random nodes swap places in `homes` where each fits; return the nodes that changed."""
    movers = np.sort(rng.choice(len(homes), n_movers, replace=False))
    identities, labels, sizes = np.unique(homes, return_inverse=True, return_counts=True)
    places = np.bincount(labels[movers], minlength=len(sizes))
    new_homes = identities[_assign_communities(rng, internal[movers], sizes, places)]
    moved: Ids = movers[new_homes != homes[movers]]
    homes[movers] = new_homes
    return moved


def _merge(
    rng: np.random.Generator, homes: _Identities, settings: LfrSettings, _: Iterator[int]
) -> tuple[tuple[int, int], ...]:
    """Merge two communities into one with the identity of the larger: (absorbed, survivor)."""
    identities, sizes = np.unique(homes, return_counts=True)
    chosen = rng.integers(len(identities))
    fits = sizes + sizes[chosen] <= settings.max_community
    fits[chosen] = False
    if len(identities) < 3 or not fits.any():
        return ()
    pair = [chosen, rng.choice(np.flatnonzero(fits))]
    absorbed, survivor = identities[sorted(pair, key=lambda community: int(sizes[community]))]
    homes[homes == absorbed] = survivor
    return ((int(absorbed), int(survivor)),)


def _split(
    rng: np.random.Generator, homes: _Identities, settings: LfrSettings, fresh: Iterator[int]
) -> tuple[tuple[int, int], ...]:
    """Split a random half, the smaller if odd, off a community: (parent, child)."""
    identities, sizes = np.unique(homes, return_counts=True)
    if not len(parents := identities[sizes >= 2 * settings.min_community]):
        return ()
    parent, child = int(rng.choice(parents)), next(fresh)
    members = rng.permutation(np.flatnonzero(homes == parent))
    homes[members[: len(members) // 2]] = child
    return ((parent, child),)


def _birth(
    rng: np.random.Generator, homes: _Identities, settings: LfrSettings, fresh: Iterator[int]
) -> tuple[int, ...]:
    """Form a community, twice the smallest size, of random nodes: (newborn,)."""
    size = min(2 * settings.min_community, settings.max_community)
    founders = _spare_nodes(rng, homes, settings.min_community)
    if len(founders) < size:
        return ()
    newborn = next(fresh)
    homes[rng.choice(founders, size, replace=False)] = newborn
    return (newborn,)


def _death(
    rng: np.random.Generator, homes: _Identities, settings: LfrSettings, _: Iterator[int]
) -> tuple[int, ...]:
    """Distribute a community's nodes over the others, by the room in each: (dead,)."""
    identities, sizes = np.unique(homes, return_counts=True)
    dead = rng.integers(len(identities))
    room = settings.max_community - sizes
    room[dead] = 0
    if len(identities) < 3 or room.sum() < sizes[dead]:
        return ()
    counts_by_community = rng.multivariate_hypergeometric(room, sizes[dead])
    members = rng.permutation(np.flatnonzero(homes == identities[dead]))
    homes[members] = np.repeat(identities, counts_by_community)
    return (int(identities[dead]),)


def _spare_nodes(rng: np.random.Generator, homes: _Identities, smallest: int) -> Ids:
    """Random nodes that can all leave without a community falling below `smallest`."""
    nodes = rng.permutation(len(homes))
    nodes = nodes[np.argsort(homes[nodes], kind="stable")]
    _, starts, sizes = np.unique(homes[nodes], return_index=True, return_counts=True)
    rank = np.arange(len(homes)) - np.repeat(starts, sizes)  # of a node in its community
    return nodes[rank < np.repeat(sizes - smallest, sizes)]


_EVENTS = {"merges": _merge, "splits": _split, "births": _birth, "deaths": _death}
"""Each changes `homes` in place; sizes stay within the bounds of the settings, and two communities
stay. Without room for the event, nothing changes and the result is empty."""
