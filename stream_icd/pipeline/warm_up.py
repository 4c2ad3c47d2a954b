"""What a process detects at its start, so that the first snapshot does not wait for a compiler."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import combinations

from stream_icd.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.wire.message import Message
from stream_icd.wire.snapshots import encode_snapshot

_DAY = Window(datetime(2000, 1, 1, tzinfo=UTC), datetime(2000, 1, 2, tzinfo=UTC))


def _two_cliques(*, weighted: bool, k: int | None) -> Snapshot:
    inside = [
        (first + side, second + side)
        for side in (0, 10)
        for first, second in combinations(range(10), 2)
    ]
    src, dst = zip(*inside, (0, 10), strict=True)
    weights = [1.0] * len(src) if weighted else None
    return snapshot_from_pairs(
        src, dst, graph="warm-up", id="warm-up", window=_DAY, weights=weights, n_communities=k
    )


def first_messages() -> list[Message]:
    """Small snapshots of each kind: with and without weights, with K given and to be found out."""
    kinds = ((weighted, k) for weighted in (False, True) for k in (None, 2))
    return [encode_snapshot(_two_cliques(weighted=weighted, k=k)) for weighted, k in kinds]
