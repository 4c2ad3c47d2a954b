"""Compares two versions of results: agreement, quality, and how often nodes change community."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, pairwise, product
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_icd.core.communities import Communities
from stream_icd.core.node_ids import places
from stream_icd.history.files import SnapshotName
from stream_icd.methods.quality.agreement import accuracy, nmi

_Version = tuple[str, str, str]
"""Graph, model version, and `before` or `replayed`."""


@dataclass(frozen=True, slots=True)
class _VersionQuality:
    """Means over the windows of one graph in one version; NaN where no window says the number."""

    version: _Version
    windows: int
    communities: float
    modularity: float
    ncut: float
    churn: float  # of consecutive windows; NaN if no two of them have common nodes
    horizon: float
    predicted_bits: float


@dataclass(frozen=True, slots=True)
class _Agreement:
    before: _Version
    replayed: _Version
    windows: int
    same: int  # number of windows with the same nodes, and the same labels: not by other names
    nmi: float  # mean; 0 for a window in which no node is common
    least_nmi: float
    least_at: str  # the snapshot with the lowest NMI


@dataclass(frozen=True, slots=True)
class ReplayComparison:
    qualities: tuple[_VersionQuality, ...]
    agreements: tuple[_Agreement, ...]


def compare(before: Iterable[Communities], replayed: Iterable[Communities]) -> ReplayComparison:
    """Compare results on the replayed snapshots; ignore others."""
    new = _by_version(replayed, "replayed")
    names = set(chain.from_iterable(new.values()))
    again = (result for result in before if (result.graph, result.snapshot_id) in names)
    old = _by_version(again, "before")
    qualities = (_quality(version, results) for version, results in sorted((old | new).items()))
    agreements = (
        _agreement(a, b, old[a], new[b])
        for a, b in product(sorted(old), sorted(new))
        if old[a].keys() & new[b].keys()
    )
    return ReplayComparison(tuple(qualities), tuple(agreements))


def _by_version(
    results: Iterable[Communities], when: str
) -> dict[_Version, dict[SnapshotName, Communities]]:
    versions: dict[_Version, dict[SnapshotName, Communities]] = defaultdict(dict)
    for result in results:
        versions[result.graph, result.model, when][result.graph, result.snapshot_id] = result
    return versions


def _quality(version: _Version, results: dict[SnapshotName, Communities]) -> _VersionQuality:
    in_order = sorted(results.values(), key=lambda result: result.window.end)
    return _VersionQuality(
        version=version,
        windows=len(in_order),
        communities=_mean(result.n_communities for result in in_order),
        modularity=_mean(result.modularity for result in in_order),
        ncut=_mean(result.ncut for result in in_order),
        churn=_mean(churn(earlier, later) for earlier, later in pairwise(in_order)),
        horizon=_mean(result.horizon for result in in_order),
        predicted_bits=_mean(result.predicted_bits for result in in_order),
    )


def _mean(values: Iterable[float | None]) -> float:
    numbers = [value for value in values if value is not None]
    return float(np.mean(numbers)) if numbers else float("nan")


def _agreement(
    a: _Version,
    b: _Version,
    old: dict[SnapshotName, Communities],
    new: dict[SnapshotName, Communities],
) -> _Agreement:
    common = sorted(old.keys() & new.keys())
    values = {name: _nmi(old[name], new[name]) for name in common}
    least = min(common, key=values.__getitem__)
    return _Agreement(
        before=a,
        replayed=b,
        windows=len(common),
        same=sum(
            old[name].nodes.equals(new[name].nodes)
            and np.array_equal(old[name].labels, new[name].labels)
            for name in common
        ),
        nmi=float(np.mean(list(values.values()))),
        least_nmi=values[least],
        least_at=least[1],
    )


def _nmi(old: Communities, new: Communities) -> float:
    before, after = _common(old, new)
    return nmi(before, after) if len(before) else 0.0


class LabelledNodes(NamedTuple):
    """Communities of nodes: `nodes` and `labels`, `(n_nodes,)`."""

    nodes: pa.Array
    labels: NDArray[np.int32]


_Assigned = Communities | LabelledNodes


def churn(earlier: _Assigned, later: _Assigned) -> float | None:
    """Return the share of common nodes (None: no such) that change community, optimally matched."""
    before, after = _common(earlier, later)
    return 1.0 - accuracy(before, after) if len(before) else None


def _common(a: _Assigned, b: _Assigned) -> tuple[np.ndarray, np.ndarray]:
    at = places(a.nodes, b.nodes)
    return a.labels[at >= 0], b.labels[at[at >= 0]]
