"""Events of communities: merge, split, birth, death.

Each function changes `homes` in place: (n_nodes,) the identity of each node's community. It keeps
every community's size within the settings' bounds, and at least two communities; if there is no
room for the event, nothing changes and the result is empty. `fresh` gives unused identities.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from stream_icd.synthetic.lfr import LfrSettings

# A community keeps its identity for life, while its label in a snapshot (0..K-1) may change.
Identities = NDArray[np.int64]


def merge(
    rng: np.random.Generator, homes: Identities, settings: LfrSettings, _: Iterator[int]
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


def split(
    rng: np.random.Generator, homes: Identities, settings: LfrSettings, fresh: Iterator[int]
) -> tuple[tuple[int, int], ...]:
    """Split a random half, the smaller if odd, off a community: (parent, child)."""
    identities, sizes = np.unique(homes, return_counts=True)
    parents = identities[sizes >= 2 * settings.min_community]
    if not len(parents):
        return ()
    parent, child = int(rng.choice(parents)), next(fresh)
    members = rng.permutation(np.flatnonzero(homes == parent))
    homes[members[: len(members) // 2]] = child
    return ((parent, child),)


def birth(
    rng: np.random.Generator, homes: Identities, settings: LfrSettings, fresh: Iterator[int]
) -> tuple[int, ...]:
    """Form a community, twice the smallest size, of random nodes: (newborn,)."""
    size = min(2 * settings.min_community, settings.max_community)
    founders = _spare_nodes(rng, homes, settings.min_community)
    if len(founders) < size:
        return ()
    newborn = next(fresh)
    homes[rng.choice(founders, size, replace=False)] = newborn
    return (newborn,)


def death(
    rng: np.random.Generator, homes: Identities, settings: LfrSettings, _: Iterator[int]
) -> tuple[int, ...]:
    """Distribute a community's nodes over the others, by the room in each: (dead,)."""
    identities, sizes = np.unique(homes, return_counts=True)
    dead = rng.integers(len(identities))
    room = settings.max_community - sizes
    room[dead] = 0
    if len(identities) < 3 or room.sum() < sizes[dead]:
        return ()
    taken = rng.multivariate_hypergeometric(room, sizes[dead])
    members = rng.permutation(np.flatnonzero(homes == identities[dead]))
    homes[members] = np.repeat(identities, taken)
    return (int(identities[dead]),)


def _spare_nodes(rng: np.random.Generator, homes: Identities, smallest: int) -> NDArray[np.int64]:
    """Return random nodes that can all leave without a community falling below `smallest`."""
    nodes = rng.permutation(len(homes))
    nodes = nodes[np.argsort(homes[nodes], kind="stable")]
    _, starts, sizes = np.unique(homes[nodes], return_index=True, return_counts=True)
    rank = np.arange(len(homes)) - np.repeat(starts, sizes)  # of a node in its community
    return nodes[rank < np.repeat(sizes - smallest, sizes)]
