"""Snapshots that a process detects at its start, so that all code is compiled beforehand."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import combinations

from stream_icd.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.wire.message import Message
from stream_icd.wire.snapshots import encode_snapshot

_DAY = Window(datetime(2000, 1, 1, tzinfo=UTC), datetime(2000, 1, 2, tzinfo=UTC))


N_CLIQUES, SIZE = 20, 10


def first_messages() -> list[Message]:
    """Return small snapshots of each kind: weighted or not, with K estimated or given.

    A K below or above the number of cliques makes detection merge or split communities. The ring
    is so small that its communities are compared with those of random graphs (`bp.evidence`).
    """
    few, many = N_CLIQUES // 2, 2 * N_CLIQUES
    kinds = ((weighted, k) for weighted in (False, True) for k in (None, few, many))
    cliques = [_ring_of_cliques(weighted=weighted, k=k) for weighted, k in kinds]
    return [encode_snapshot(one) for one in (*cliques, _ring())]


def _ring_of_cliques(*, weighted: bool, k: int | None) -> Snapshot:
    """Return a graph with communities on more than one scale, so that each loop runs."""
    starts = range(0, N_CLIQUES * SIZE, SIZE)
    inside = [(start + a, start + b) for start in starts for a, b in combinations(range(SIZE), 2)]
    between = [(start, (start + SIZE + 1) % (N_CLIQUES * SIZE)) for start in starts]
    src, dst = zip(*inside, *between, strict=True)
    weights = [1.0] * len(src) if weighted else None
    return snapshot_from_pairs(
        src, dst, graph="warm-up", id="warm-up", window=_DAY, weights=weights, n_communities=k
    )


def _ring() -> Snapshot:
    src = range(N_CLIQUES)
    dst = [*src[1:], 0]
    return snapshot_from_pairs(src, dst, graph="warm-up", id="warm-up", window=_DAY)
