"""What the archive's tests put in, and where."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from stream_icd.core.communities import STAGES, Communities
from stream_icd.core.events import CommunityEvents
from stream_icd.core.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.methods.tracking.track import track

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def snapshot() -> Callable[..., Snapshot]:
    """`snapshot(i)`: the i-th of an hourly stream, with an isolated node and another's K."""

    def make(
        i: int,
        graph: str = "test",
        weighted: bool = False,
        kind: type = int,
        placed: bool = False,
    ) -> Snapshot:
        rng = np.random.default_rng(i)
        src, dst = rng.integers(0, 30, (2, 80)).astype(kind)
        begin = START + timedelta(hours=i)
        return snapshot_from_pairs(
            [*src, kind(99)],
            [*dst, None],
            graph=graph,
            id=f"{graph}/{i}",
            window=Window(begin, begin + timedelta(hours=1)),
            weights=rng.random(81) + 0.1 if weighted else None,
            n_communities=3,
            source="https://example.org/é",
            x=[*[np.nan] * 80, 1.5] if placed else None,
            y=[*[np.nan] * 80, -2.5] if placed else None,
        )

    return make


@pytest.fixture
def communities() -> Callable[..., Communities]:
    """`communities(snapshot, "m@1")`: some result for a snapshot."""

    def make(snapshot: Snapshot, model: str = "m@1") -> Communities:
        return Communities(
            graph=snapshot.graph,
            snapshot_id=snapshot.id,
            window=snapshot.window,
            nodes=snapshot.nodes,
            labels=(np.arange(snapshot.n_nodes) % 3).astype(np.int32),
            n_edges=snapshot.n_edges,
            model=model,
            modularity=0.25,
            ncut=1.5,
            milliseconds=dict.fromkeys(STAGES, 1.0),
            detected_at=START,
        )

    return make


@pytest.fixture
def events(communities: Callable[..., Communities]) -> Callable[..., CommunityEvents]:
    """`events(snapshot, name="mostly US")`: what a tracker says of a first window."""

    def make(snapshot: Snapshot, name: str | None = None) -> CommunityEvents:
        tracked = track((), replace(communities(snapshot), revision="r1"))
        first, *others = tracked.events
        return replace(tracked, events=(replace(first, name=name), *others))

    return make
