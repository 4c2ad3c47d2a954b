"""What holds a community together: who is in it, where they were and went, which edges say so."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa

from stream_icd.core.arrays import Floats, Ids
from stream_icd.core.errors import BadSettings
from stream_icd.core.events import CommunityEvents
from stream_icd.core.node_ids import places
from stream_icd.core.printable import printable, shortened
from stream_icd.core.snapshot import Snapshot
from stream_icd.methods.quality.partition import Described
from stream_icd.methods.tracking.explain import (
    MOST_CHOICES,
    MOST_COMPANIONS,
    MOST_EDGES,
    RememberedEdges,
)
from stream_icd.methods.tracking.sentences import called_by, how_far_back, told

_NAMED = 5
"""So many members are named in words."""


@dataclass(frozen=True, slots=True)
class _Whereabouts:
    """Where members were in the window before, or are in the one after."""

    community: int | None  # stable id; None: in no community, since they are not in that window
    members: int


@dataclass(frozen=True, slots=True)
class _Member:
    """A member, and its edges; those of the newest window have weight 1, older ones less."""

    node: str
    inside: float  # weight of its edges to other members
    across: float  # weight of its edges to the nearest community


@dataclass(frozen=True, slots=True)
class _Link:
    """An edge that speaks for the community, inside it, or against it, to the nearest one."""

    one: str
    other: str
    weight: float
    bits: float  # by how many bits it speaks for two communities rather than one


@dataclass(frozen=True, slots=True)
class _Apart:
    """How well the edges tell the community from the nearest one: that of the least `bits`.

    `bits` is how many bits more the edges need if the two are one community: the strength of a
    merger undone. Below 0: they need fewer. What is missing to it from `inside`, `inside_nearest`
    and `across` is what it costs to say which nodes are in which community.
    """

    nearest: int  # stable id
    bits: float
    inside: float  # the part of the edges inside the community
    inside_nearest: float  # of those inside the nearest one
    across: float  # of those between the two
    edges_inside: float  # weight of the edges
    edges_across: float


@dataclass(frozen=True, slots=True)
class CommunityExplanation:
    """What holds a community of a window together.

    Attributes:
        at: start of the window.
        size: number of members; 0 if the community is not in the window.
        members: those with the most edges to other members.
        since: start of the first known window that it is in; None if there is none.
        size_then, still: its members then, and how many of them are members now.
        last_seen: end of the last window that it was in before this one; None if there is none.
        before, after: where its members were in the window before, and are in the one after, most
            first; None if that window is not known. Without members: those of `last_seen`.
        apart: None if it has no edge to another community, or none at all.
        links: the edges that say most, of `apart.inside` and of `apart.across`, most bits first.
        reach, horizon, horizon_for: as in `Explanation`.
    """

    community: int
    at: datetime
    size: int
    members: tuple[_Member, ...]
    since: datetime | None
    size_then: int
    still: int
    last_seen: datetime | None
    before: tuple[_Whereabouts, ...] | None
    after: tuple[_Whereabouts, ...] | None
    apart: _Apart | None
    links: tuple[_Link, ...]
    reach: datetime
    horizon: float
    horizon_for: int | None

    def sentences(self, names: Mapping[int, str] | None = None) -> Iterator[str]:
        """Yield what happened, in words; `names`: of communities, by id."""
        called = called_by(names)
        me = called(self.community).replace("community", "Community", 1)
        at = f"{told(self.at)} UTC"
        if not self.size:
            yield f"{me} is not in the window of {at}."
            if self.last_seen is not None and self.before is not None:
                yield f"It was last seen until {told(self.last_seen)}."
                yield f"Of its members then, {self._where(self.before, called, 'are')}."
            return
        yield f"{me} has {_members(self.size)} in the window of {at}."
        if self.since is not None and self.since < self.at:
            yield (
                f"It was there in the window of {told(self.since)} already, with "
                f"{_members(self.size_then)}; {self.still:,} of them are in it now."
            )
        else:
            yield "No earlier window that is known has it."
        if self.before is not None:
            yield f"In the window before, {self._where(self.before, called, 'were')}."
        if self.after is not None:
            yield f"In the window after, {self._where(self.after, called, 'are')}."
        if self.apart is None:
            yield "No edge joins it to another community: nothing speaks against it."
            return
        yield from self._about(self.apart, called(self.apart.nearest))
        yield how_far_back(self.reach, self.horizon, self.horizon_for)

    def _where(
        self, whereabouts: Sequence[_Whereabouts], called: Callable[[int], str], verb: str
    ) -> str:
        total = sum(place.members for place in whereabouts)
        parts: list[str] = []
        for place in whereabouts[:MOST_CHOICES]:
            where = "not there" if place.community is None else f"in {called(place.community)}"
            if place.community == self.community:
                where = "in it"
            count = "all of them" if place.members == total else f"{place.members:,}"
            parts.append(f"{count} {where}" if parts else f"{count} {verb} {where}")
        if rest := total - sum(place.members for place in whereabouts[:MOST_CHOICES]):
            parts.append(f"{rest:,} elsewhere")
        return ", ".join(parts)

    def _about(self, apart: _Apart, nearest: str) -> Iterator[str]:
        inside = apart.inside + apart.inside_nearest
        yield f"Nearest to it is {nearest}."
        yield (
            f"Edges inside either speak for two communities ({inside:,.1f} bits), edges between "
            f"them for one ({-apart.across:,.1f} bits); to say which nodes are in which takes "
            f"{inside + apart.across - apart.bits:,.1f} bits."
        )
        if apart.bits >= 0:
            yield f"So the edges need {apart.bits:,.1f} bits fewer with two communities."
        else:
            yield (
                f"So the edges need {-apart.bits:,.1f} bits more with two communities: they alone "
                "do not hold them apart, but earlier windows may."
            )
        if self.members:
            some = [printable(shortened(member.node, 30)) for member in self.members[:_NAMED]]
            yield f"Most edges inside have: {', '.join(some)}."


def explain_community(
    community: int,
    windows: Sequence[CommunityEvents],
    snapshots: Sequence[Snapshot],
    horizon: float = 1.0,
    horizon_for: int | None = None,
    after: CommunityEvents | None = None,
) -> CommunityExplanation:
    """Explain a community in the newest of some windows.

    Its edges are described by the planted partition model, as for a node (`explain`): an edge
    inside a community of volume vol_c says log2(1 + (1 − μ)/μ · 2E / vol_c) bits. If two
    communities were one, its volume would be the sum, and the edges between them would be inside.

    Args:
        community: stable id.
        windows, snapshots, horizon, horizon_for: as for `explain`.
        after: the window after the last one.

    Raises:
        BadSettings: no window has the community; or as `explain`.
    """
    edges_of = RememberedEdges.of(windows, snapshots, horizon)
    newest = edges_of.newest
    with_it = [window for window in windows if (window.communities == community).any()]
    if not with_it:
        raise BadSettings(f"no window up to {newest.window.start} has community {community}")
    earlier = [window for window in with_it if window is not newest]
    members, then = newest.members_of(community), with_it[0].members_of(community)
    apart: _Apart | None = None
    links: tuple[_Link, ...] = ()
    most: tuple[_Member, ...] = ()
    if len(members):
        apart, links, most = _held(community, edges_of)
        before = _whereabouts(members, windows[-2]) if len(windows) > 1 else None
    else:
        before, after = _whereabouts(with_it[-1].members_of(community), newest), None
    return CommunityExplanation(
        community=community,
        at=newest.window.start,
        size=len(members),
        members=most,
        since=with_it[0].window.start,
        size_then=len(then),
        still=int((places(then, members) >= 0).sum()),
        last_seen=earlier[-1].window.end if earlier else None,
        before=before,
        after=None if after is None else _whereabouts(members, after),
        apart=apart,
        links=links,
        reach=edges_of.reach,
        horizon=horizon,
        horizon_for=horizon_for,
    )


def _whereabouts(members: pa.Array, window: CommunityEvents) -> tuple[_Whereabouts, ...]:
    at = places(members, window.nodes)
    ids, counts = np.unique(window.communities[at[at >= 0]], return_counts=True)
    whereabouts = [
        _Whereabouts(community, count)
        for community, count in zip(ids.tolist(), counts.tolist(), strict=True)
    ]
    if absent := int((at < 0).sum()):
        whereabouts.append(_Whereabouts(None, absent))
    return tuple(sorted(whereabouts, key=lambda place: -place.members))


def _held(
    community: int, edges_of: RememberedEdges
) -> tuple[_Apart | None, tuple[_Link, ...], tuple[_Member, ...]]:
    newest = edges_of.newest
    ids, labels = np.unique(newest.communities, return_inverse=True)
    me = int(np.searchsorted(ids, community))
    k, n = len(ids), len(labels)
    volume, within = np.zeros(k), np.zeros(k)
    of_mine: list[Ids] = []  # edges of members, which are the first of the two ends
    of_windows: list[Floats] = []
    for weight, edges in edges_of.aligned():
        ours = labels[edges]
        volume += weight * np.bincount(ours.ravel(), minlength=k)
        within += weight * np.bincount(ours[0][ours[0] == ours[1]], minlength=k)
        of_mine.append(np.where(ours[1] == me, edges[::-1], edges)[:, (ours == me).any(axis=0)])
        of_windows.append(np.full(of_mine[-1].shape[1], weight))
    ends, weights = np.concatenate(of_mine, axis=1), np.concatenate(of_windows)
    to = labels[ends[1]]
    links = _sums(to, weights, k)
    # Its own edges are not edges to the nearest community.
    links[me] = 0.0
    inside = to == me
    core = _sums(ends[:, inside].ravel(), np.tile(weights[inside], 2), n)
    if not links.any():
        return None, (), _members_by(core, np.zeros(n), newest)

    near, n_edges = np.flatnonzero(links), volume.sum() / 2
    described = Described(np.stack([np.bincount(labels), volume, 2 * within]), n_edges)
    lost = described.lost_in_union(np.full(len(near), me), near, links[near])
    nearest = near[np.argmin(lost)]
    joint = np.append(volume, volume[me] + volume[nearest])
    *rates, united = edges_of.rates(joint, n_edges, within.sum()).tolist()
    apart = _Apart(
        nearest=int(ids[nearest]),
        bits=float(lost.min()),
        inside=float(within[me] * (rates[me] - united)),
        inside_nearest=float(within[nearest] * (rates[nearest] - united)),
        across=float(-links[nearest] * united),
        edges_inside=float(within[me]),
        edges_across=float(links[nearest]),
    )
    across = to == nearest
    out = _sums(ends[0, across], weights[across], n)
    gains = np.where(inside, rates[me] - united, np.where(across, -united, 0.0)) * weights
    says = gains != 0
    strongest = _links(ends[:, says], weights[says], gains[says], core + out, newest)
    return apart, strongest, _members_by(core, out, newest)


def _sums(of: Ids, weights: Floats, n: int) -> Floats:
    """Return the sum of the weights of each of `n` groups; `of`: the group of each weight."""
    sums: Floats = np.bincount(of, weights, n).astype(np.float64)
    return sums


def _links(
    ends: Ids, weights: Floats, gains: Floats, degrees: Floats, newest: CommunityEvents
) -> tuple[_Link, ...]:
    """Return the edges that say most, for or against, with those of several windows as one.

    Of those that say as much, edges of members with many edges come first.
    """
    low, high = np.sort(ends, axis=0)
    key, first, at = np.unique(
        low * len(newest.nodes) + high, return_index=True, return_inverse=True
    )
    weight = np.bincount(at, weights, len(key))
    bits = np.bincount(at, gains, len(key))
    larger_degree = np.maximum(degrees[low[first]], degrees[high[first]])
    chosen: list[int] = []
    for sign in (1, -1):  # as many for as against
        order = np.lexsort((-larger_degree, -sign * np.round(bits, 6)))[: MOST_EDGES // 2]
        chosen += [edge for edge in order.tolist() if sign * bits[edge] > 0]
    lower, higher = (newest.nodes.take(end[first[chosen]]).to_pylist() for end in (low, high))
    rows = zip(lower, higher, weight[chosen].tolist(), bits[chosen].tolist(), strict=True)
    return tuple(_Link(str(a), str(b), weight=w, bits=gain) for a, b, w, gain in rows)


def _members_by(inside: Floats, across: Floats, newest: CommunityEvents) -> tuple[_Member, ...]:
    most = np.argsort(-inside, kind="stable")[:MOST_COMPANIONS]
    most = most[inside[most] > 0]
    names = newest.nodes.take(most).to_pylist()
    rows = zip(names, inside[most].tolist(), across[most].tolist(), strict=True)
    return tuple(_Member(str(name), inside=w_in, across=w_out) for name, w_in, w_out in rows)


def _members(n: int) -> str:
    return "1 member" if n == 1 else f"{n:,} members"
