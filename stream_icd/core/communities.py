"""The communities of a snapshot: found by a detector, or known as ground truth."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal, TypeVar, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_icd.core.arrays import NOBODY, Floats, Ids, Shares, n_distinct
from stream_icd.core.errors import BadCommunities, BadSettings
from stream_icd.core.snapshot import Window, checked_ids

STAGES = ("decode", "features", "encode", "cluster")
"""The stages that a detector times, in the order it runs them."""
ENCODER_STAGES = ("features", "encode")
"""Those of method icd only: bp has no encoder."""

MOST_IDS = 10**15 - 1
"""Stable ids are below it, and the first unused one is it at most: 15 digits, as all whole numbers
of the contract have at most (docs/wire.md)."""

_MOST_BITS = 1e100
"""Bits of nodes that moved are below: those of an event are a sum of them, which must be finite."""

EvidenceStrength = Literal["none", "weak", "strong"]
"""How strong the evidence is that a graph has communities at all (docs/evidence.md)."""

MemoryUse = Literal["first", "continued", "broken", "anew", "damaged", "late", "smoothed"]
"""What the memory of earlier windows contributed: `first`: there was none yet; `continued`:
communities continue earlier ones; `broken`: the graph has nothing in common with its past, and was
detected alone; `anew`: the graph starts anew, since an operator said so or what was remembered
cannot be used; `damaged`: the window lacks most of its nodes, and is not remembered; `late`: the
window is not after the last one, and is not remembered; `smoothed`: a replay used the windows after
it, too."""

MemoryKind = Literal["none", "memory", "smoothed"]
"""How a result uses other windows: not at all; with the memory of earlier ones; with all others."""

_K = TypeVar("_K", bound=int | None)


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """The known communities of a snapshot: ground truth, or pseudo-labels.

    Attributes:
        nodes: the source's own ids, `(n_nodes,)` (`node_ids.widened`).
        labels: community of each node, `(n_nodes,)` int32, in 0..K-1.
        source: a URI reference.
    """

    graph: str
    snapshot_id: str
    window: Window
    nodes: pa.Array
    labels: NDArray[np.int32]
    source: str = "stream_icd"

    def __post_init__(self) -> None:
        _check_assignment(self)


@dataclass(frozen=True, slots=True, eq=False)
class Communities:
    """The communities that a detector found in one snapshot.

    `(graph, snapshot_id, model, revision)` identifies a result: drop it if it is repeated. Of two
    revisions, the later one replaces the other. What a
    program did not write is empty or None.

    Attributes:
        nodes: the source's own ids, `(n_nodes,)`, ascending (`node_ids.widened`).
        labels: community of each node, `(n_nodes,)` int32, in 0..K-1.
        model: name and version of the model that found them.
        modularity: Newman's Q of the partition, from -0.5 to 1.
        ncut: the paper's NCut (eq. 1), from 0 to K/2; lower is better.
        milliseconds: time in each of `STAGES`.
        detected_at: when the result was ready, UTC.
        revision: changes with the content of the snapshot and the settings of the detector
            (`revision_of`).
        content: hash of the content of the snapshot.
        k_given: number of communities that the detector was given; None if it determined it.
        snapshot_place: `PARTITION@OFFSET` of the snapshot's message; empty if it did not come
            from a topic.
        evidence: how strong the evidence is that the snapshot has communities at all.
        bits_saved: bits per edge that these communities, or the best merger of them, save in
            describing the snapshot, 0 or more.
        community_ids: stable id of each community, `(K,)` int64, from 0, below `MOST_IDS`: the
            same in all windows of the graph, never used again for another community. None without
            memory.
        replaced: `(m, 2)` int64, ascending: ids of earlier windows that ended with this one, each
            with the id of the community that it is now part of, or -1 if there is none. None
            without `community_ids`.
        moved: `(m, 2)` int64, ascending: nodes that changed community together, by the ids before
            and now; -1 before stands for a new community. None without memory or a window before.
        moved_bits: `(m,)` float64: how many bits more the edges of the window need if these nodes
            were still where they were, or a new community one with that it is linked to most. None
            without `moved`.
        probabilities: how probable it is that each node is in its community, `(n_nodes,)` float32,
            0 to 1. None if the method says nothing of it.
        second_ids: stable id of the most probable other community of each node, `(n_nodes,)` int64,
            -1 if none is worth naming. It may have no node in this window. None without
            `probabilities` or `community_ids`.
        second_probabilities: how probable that one is, `(n_nodes,)` float32, 0 if there is none.
            None without `second_ids`.
        levels: the community on each level above that each community is part of, `(L, K)` int64,
            coarsest first: the smallest of the stable ids in it, or of the numbers without
            `community_ids`. None if the detector was not asked for levels; L is 0 if there are
            none.
        memory: what memory contributed; None without memory.
        horizon: how many windows the memory is worth, 1 or more; None without memory.
        horizon_for: for how many windows on end that way of looking back has led, 1 or more.
        predicted_bits: bits per edge that the communities known before saved on the edges of this
            window that are new; None without memory, in a first window, or without such edges.
    """

    graph: str
    snapshot_id: str
    window: Window
    nodes: pa.Array
    labels: NDArray[np.int32]
    n_edges: int
    model: str
    modularity: float
    ncut: float
    milliseconds: dict[str, float]
    detected_at: datetime
    revision: str = ""
    content: str = ""
    k_given: int | None = None
    seed: int | None = None
    snapshot_place: str = ""
    evidence: EvidenceStrength | None = None
    bits_saved: float | None = None
    community_ids: Ids | None = None
    replaced: Ids | None = None
    memory: MemoryUse | None = None
    horizon: float | None = None
    horizon_for: int | None = None
    predicted_bits: float | None = None
    moved: Ids | None = None
    moved_bits: Floats | None = None
    probabilities: Shares | None = None
    second_ids: Ids | None = None
    second_probabilities: Shares | None = None
    levels: Ids | None = None

    def __post_init__(self) -> None:
        _check_assignment(self)
        for check in _CHECKS:
            if why := check(self):
                raise _refused(self, why)

    @property
    def n_nodes(self) -> int:
        return len(self.nodes)

    @property
    def n_communities(self) -> int:
        """K: number of communities."""
        return int(self.labels.max(initial=-1)) + 1

    @property
    def k_above_nodes(self) -> int | None:
        """The given K if there are fewer nodes; else None."""
        return self.k_given if (self.k_given or 0) > self.n_nodes else None

    @property
    def sizes(self) -> Ids:
        """Number of nodes of each community, `(K,)`."""
        return np.bincount(self.labels, minlength=self.n_communities)

    @property
    def ids_of_nodes(self) -> Ids | None:
        """Stable id of each node's community, `(n_nodes,)`; None without `community_ids`."""
        return None if self.community_ids is None else self.community_ids[self.labels]

    def with_communities(
        self,
        labels: NDArray[np.int32],
        ids: Ids | None = None,
        replaced: Ids | None = None,
        nodes: pa.Array | None = None,
    ) -> Communities:
        """Return the result with other communities, and without what it says of its own."""
        return replace(
            self,
            nodes=self.nodes if nodes is None else nodes,
            labels=labels,
            community_ids=ids,
            replaced=replaced,
            moved=None,
            moved_bits=None,
            probabilities=None,
            second_ids=None,
            second_probabilities=None,
            levels=None,
        )

    def identity(self) -> tuple[str, str, str, str]:
        """The identity of a result: `(graph, snapshot_id, model, revision)`."""
        return self.graph, self.snapshot_id, self.model, self.revision


def revision_of(
    content: str,
    k_given: int | None,
    seed: int,
    memory: MemoryKind = "none",
    horizon: float | str = "auto",
    known: str = "",
    levels: bool = False,
) -> str:
    """Return the revision of a result: 12 hexadecimal digits that depend on the arguments.

    known: digest of the communities of nodes that were known; empty without any.
    levels: whether the result has levels.
    """
    text = f"content {content}\nk {k_given or 0}\nseed {seed}\n"
    if memory != "none":
        text += f"{memory}\n" if horizon == "auto" else f"{memory}\nhorizon {horizon}\n"
    if known:
        text += f"known {known}\n"
    if levels:
        text += "levels\n"
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def checked_n_communities(n_communities: _K, n_nodes: int) -> _K:
    """Return K, the number of communities that a graph of `n_nodes` is to have.

    None is returned as it is: K is determined. Raises `BadSettings` if K is not a whole number from
    1 to n.

    >>> checked_n_communities(4, n_nodes=3)
    Traceback (most recent call last):
    ...
    stream_icd.core.errors.BadSettings: 3 nodes cannot form 4 communities; give K from 1 to 3
    """
    if n_communities is None:
        return n_communities
    if isinstance(n_communities, bool) or not isinstance(n_communities, int | np.integer):
        raise BadSettings(f"K is {n_communities!r:.40}; give a whole number from 1 to {n_nodes}")
    if not 1 <= n_communities <= n_nodes:
        raise BadSettings(
            f"{n_nodes} nodes cannot form {n_communities} communities; give K from 1 to {n_nodes}"
        )
    return cast(_K, int(n_communities))


def _refused(result: Labels | Communities, why: str) -> BadCommunities:
    return BadCommunities(f"{result.snapshot_id!r}: {why}")


def _check_assignment(result: Labels | Communities) -> None:
    """Check nodes and labels; the nodes get the type of their kind."""
    nodes, labels = result.nodes, result.labels
    if not isinstance(nodes, pa.Array | pa.ChunkedArray):
        raise _refused(result, f"nodes are a {type(nodes).__name__}; give pyarrow.array(nodes)")
    if not (isinstance(labels, np.ndarray) and labels.dtype.kind in "iu"):
        raise _refused(result, "labels must be a NumPy array of integers")
    object.__setattr__(result, "nodes", checked_ids(nodes))
    n_nodes = len(nodes)
    if labels.shape != (n_nodes,):
        raise _refused(result, f"labels have shape {labels.shape}; {n_nodes} nodes need one each")
    if labels.size and not 0 <= labels.min() <= labels.max() < n_nodes:
        run = f"community labels run from {labels.min()} to {labels.max()}"
        raise _refused(result, f"{run}; they must lie in 0..{n_nodes - 1}")


def _wrong_ids(communities: Communities) -> str | None:
    ids, replaced, k = communities.community_ids, communities.replaced, communities.n_communities
    if (ids is None) != (replaced is None):
        return "give community_ids and replaced both, or neither"
    if ids is None or replaced is None:
        return None
    least, most = ids.min(initial=0), ids.max(initial=0)
    if ids.shape != (k,) or not 0 <= least <= most < MOST_IDS or n_distinct(ids) < len(ids):
        return (
            f"{k} communities need one stable id each, all different and in 0..{MOST_IDS - 1}; "
            f"there are {n_distinct(ids)} different ones in {least}..{most}, in an array of shape "
            f"{ids.shape}"
        )
    if replaced.ndim != 2 or replaced.shape[1] != 2:
        return f"replaced has shape {replaced.shape}; need (m, 2)"
    ended, now = replaced.T
    if ended.min(initial=0) < 0 or (np.diff(ended) <= 0).any() or now.min(initial=0) < -1:
        return "replaced needs ascending ids from 0, each with an id from 0, or -1"
    return None


def _wrong_moves(communities: Communities) -> str | None:
    moved, bits = communities.moved, communities.moved_bits
    if (moved is None) != (bits is None):
        return "give moved and moved_bits both, or neither"
    if moved is None or bits is None:
        return None
    if moved.ndim != 2 or moved.shape[1] != 2 or bits.shape != (len(moved),):
        return f"moved has shape {moved.shape} and moved_bits {bits.shape}; need (m, 2) and (m,)"
    before, now = moved.T
    if (
        before.min(initial=0) < -1
        or now.min(initial=0) < 0
        or not (np.abs(bits) < _MOST_BITS).all()
    ):
        return f"moved needs ids from 0, and bits between ±{_MOST_BITS}"
    return None


def _wrong_probabilities(communities: Communities) -> str | None:
    own, seconds = communities.probabilities, communities.second_ids
    of_seconds, ids = communities.second_probabilities, communities.ids_of_nodes
    if (seconds is None) != (of_seconds is None):
        return "give second_ids and second_probabilities both, or neither"
    n_nodes = communities.n_nodes
    for name, shares in (("probabilities", own), ("second_probabilities", of_seconds)):
        if shares is None:
            continue
        if shares.shape != (n_nodes,) or not ((shares >= 0) & (shares <= 1)).all():
            return f"{n_nodes} nodes need one of {name} each, from 0 to 1"
    if seconds is None or of_seconds is None:
        return None
    if own is None or ids is None:
        return "second_ids need probabilities and community_ids"
    if seconds.shape != (n_nodes,) or not NOBODY <= seconds.min() <= seconds.max() < MOST_IDS:
        return f"{n_nodes} nodes need one of second_ids each, in -1..{MOST_IDS - 1}"
    if (seconds == ids).any() or (of_seconds[seconds == NOBODY] > 0).any():
        return "a second community is another one than the node's, and has an id"
    return None


def _wrong_levels(communities: Communities) -> str | None:
    levels, ids, k = communities.levels, communities.community_ids, communities.n_communities
    if levels is None:
        return None
    if levels.ndim != 2 or levels.shape[1] != k:
        return f"levels have shape {levels.shape}; need (L, {k})"
    below = np.arange(k) if ids is None else ids
    for number, level in reversed(list(enumerate(levels))):  # finest first
        names, place = np.unique(level, return_inverse=True)
        smallest = np.full(len(names), MOST_IDS)
        np.minimum.at(smallest, place, below)
        # A community below is in one on this level, which has the smallest of their ids.
        parts = len(np.unique(np.stack([below, level]), axis=1).T)
        if (smallest != names).any() or parts != n_distinct(below):
            return (
                f"level {number} does not unite communities of the level below, each under the "
                "smallest of their ids"
            )
        below = level
    return None


# Ids first: the checks after it take them for sound.
_CHECKS = _wrong_ids, _wrong_moves, _wrong_probabilities, _wrong_levels
