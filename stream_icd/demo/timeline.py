"""Track the communities that a demonstration found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

import numpy as np
import pyarrow as pa

from stream_icd.communities import Communities
from stream_icd.demo.run import Arrival
from stream_icd.events import CommunityEvents
from stream_icd.snapshot import Window
from stream_icd.tracking.track import remember, track


def tracked(results: Iterable[Communities]) -> list[CommunityEvents]:
    """Return the communities of each result, with stable ids across windows."""
    recent: Sequence[CommunityEvents] = ()
    found: list[CommunityEvents] = []
    for result in results:
        one = track(recent, result)
        recent = remember(recent, one)
        found += [] if one.late else [one]
    return found


def communities_of(arrival: Arrival) -> Communities:
    """Return the result that the subscriber printed."""
    result = arrival.result
    start, end = (datetime.fromisoformat(result[f"window_{side}"]) for side in ("start", "end"))
    ids, replaced, moved = (result[name] for name in ("community_ids", "replaced", "moved"))
    return Communities(
        graph=result["graph"],
        snapshot_id=result["snapshot_id"],
        window=Window(start, end),
        nodes=pa.array(result["nodes"]),
        labels=np.asarray(result["communities"], np.int32),
        n_edges=result["n_edges"],
        model=result["model"],
        modularity=result["modularity"],
        ncut=result["ncut"],
        milliseconds=result["milliseconds"],
        detected_at=datetime.fromisoformat(result["detected_at"]),
        community_ids=None if ids is None else np.asarray(ids, np.int64),
        replaced=None if ids is None else np.asarray(replaced, np.int64).reshape(-1, 2),
        moved=None if moved is None else np.asarray(moved, np.int64).reshape(-1, 2),
        moved_bits=None if moved is None else np.asarray(result["moved_bits"], np.float64),
    )
