"""What the archive's tests put in, and where."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
from typer.testing import CliRunner, Result

from stream_icd.commands.cli.main import app
from stream_icd.core.communities import STAGES, Communities
from stream_icd.core.errors import StreamIcdError
from stream_icd.core.events import CommunityEvents
from stream_icd.core.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.core.store.store import Store
from stream_icd.history.archive import Archive, Selection
from stream_icd.methods.tracking.track import track
from stream_icd.wire.message import Message
from stream_icd.wire.snapshots import encode_snapshot

START = datetime(2026, 1, 1, tzinfo=UTC)


def run(*arguments: str, exit_code: int = 0) -> Result:
    """Run a command in this process, and raise its errors."""
    result = CliRunner().invoke(app, list(arguments))
    if isinstance(result.exception, StreamIcdError):
        raise result.exception
    assert result.exit_code == exit_code, result.output
    return result


def add_snapshots(store: Store, snapshots: Iterable[Snapshot]) -> None:
    for snapshot in snapshots:
        Archive(store).add("snapshots", encode_snapshot(snapshot))


def archived(store: Store, selection: Selection = Selection()) -> list[Message]:
    return [Archive(store).read_message(noted) for noted in Archive(store).windows(selection)]


def make_snapshot(
    i: int, graph: str = "test", weighted: bool = False, kind: type = int, placed: bool = False
) -> Snapshot:
    """The i-th of an hourly stream, with an isolated node and another's K."""
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


def make_communities(snapshot: Snapshot, model: str = "m@1") -> Communities:
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


def make_events(snapshot: Snapshot, name: str | None = None) -> CommunityEvents:
    """What a tracker says of a first window; `name`: of its first community."""
    tracked = track((), replace(make_communities(snapshot), revision="r1"))
    first, *others = tracked.events
    return replace(tracked, events=(replace(first, name=name), *others))
