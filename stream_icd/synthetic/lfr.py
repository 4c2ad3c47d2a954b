"""The LFR benchmark: power-law degrees, power-law community sizes, a given mixing.

Lancichinetti, Fortunato and Radicchi, "Benchmark graphs for testing community detection
algorithms" (Phys. Rev. E 78, 2008), with the settings of the ICD paper as defaults.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_icd.arrays import Labels
from stream_icd.errors import BadSettings
from stream_icd.synthetic.planted_graph import PlantedGraph, shuffle_nodes
from stream_icd.synthetic.wiring import Degrees, split_degrees, wire_edges

DEGREE_EXPONENT, COMMUNITY_EXPONENT = 2.0, 1.0
"""τ₁ and τ₂ of the power laws of degrees and of community sizes."""

MAX_DRAWS = 100
"""Maximum draws of community sizes to find room for the largest hubs (small graphs only)."""


@dataclass(frozen=True)
class LfrSettings:
    """Parameters of an LFR graph, checked on creation (`BadSettings`).

    mixing is μ, the share of a node's edges that leave its community.
    """

    n_nodes: int = 5000
    mean_degree: float = 10
    max_degree: int = 100
    min_community: int = 10
    max_community: int = 200
    mixing: float = 0.3

    def __post_init__(self) -> None:
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
                "raise n_nodes or lower min_community"
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
    """Generate a graph of the LFR benchmark: simple, with shuffled node ids.

    `mean_degree` is the exact mean of the distribution that degrees are drawn from. (The program
    of the benchmark's authors rounds the smallest degree to an integer, which makes 9.58 of 10.)
    `mixing` is reached within 0.005. Time and memory grow with the edges.

    Raises `BadSettings` where no such graph exists.

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


def _degree_probabilities(settings: LfrSettings) -> NDArray[np.float64]:
    """P(1), …, P(max_degree): k^-τ above a smallest degree m, and a part of m^-τ at m.

    Only this m and this part give exactly the requested mean.
    """
    degrees = np.arange(1, settings.max_degree + 1)
    weights = np.power(degrees, -DEGREE_EXPONENT, dtype=np.float64)
    counts = np.cumsum(weights[::-1])[::-1]  # counts[i]: all weight at degrees[i] and above
    sums = np.cumsum((weights * degrees)[::-1])[::-1]
    means = sums / counts  # ascending
    target = settings.mean_degree
    if not means[0] <= target < settings.max_degree:
        raise BadSettings(
            f"mean_degree must be in {means[0]:.2f}..{settings.max_degree} for exponent "
            f"{DEGREE_EXPONENT:g} and max_degree {settings.max_degree}, not {target}"
        )
    lowest = int(np.searchsorted(means, target, side="right")) - 1
    weights[:lowest] = 0
    weights[lowest] = (sums[lowest + 1] - target * counts[lowest + 1]) / (target - degrees[lowest])
    probabilities: NDArray[np.float64] = weights / weights.sum()
    return probabilities


def draw_communities(
    rng: np.random.Generator, internal_degrees: Degrees, settings: LfrSettings
) -> Labels:
    """Draw communities (n_nodes,), each node in one larger than its internal degree."""
    for _ in range(MAX_DRAWS):
        sizes = _community_sizes(rng, settings)
        if has_room(internal_degrees, sizes, sizes):
            return assign_communities(rng, internal_degrees, sizes, sizes)
    raise BadSettings(
        f"{settings.n_nodes} nodes leave no room for the internal degrees up to "
        f"{internal_degrees.max()}: lower max_degree or raise n_nodes"
    )


def _community_sizes(rng: np.random.Generator, settings: LfrSettings) -> NDArray[np.int64]:
    """Draw at least two power-law sizes that add up to n_nodes."""
    n_nodes, smallest = settings.n_nodes, settings.min_community
    largest = min(settings.max_community, n_nodes - smallest)
    support = np.arange(smallest, largest + 1)
    weights = support**-COMMUNITY_EXPONENT
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


def has_room(
    internal_degrees: Degrees, sizes: NDArray[np.int64], places: NDArray[np.int64]
) -> bool:
    """Whether `assign_communities` can succeed: at every degree, room for all above it (Hall)."""
    wanted = np.bincount(internal_degrees, minlength=sizes.max())
    offered = np.bincount(sizes - 1, places, minlength=len(wanted))
    spare = np.cumsum(offered[::-1]) - np.cumsum(wanted[::-1])
    return bool((spare >= 0).all())


def assign_communities(
    rng: np.random.Generator,
    internal_degrees: Degrees,
    sizes: NDArray[np.int64],
    places: NDArray[np.int64],
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
