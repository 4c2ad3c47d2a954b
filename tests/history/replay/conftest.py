"""A small past: an archive of snapshots, and the model that they are detected with."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from stream_icd.core.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.core.store.store import Store, open_store
from stream_icd.history.archive import Archive
from stream_icd.history.replay.redetect import Redetection
from stream_icd.registry.find import open_model
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.wire.snapshots import encode_snapshot

START = datetime(2026, 1, 1, tzinfo=UTC)
N_SNAPSHOTS = 6


def make_snapshot(i: int, graph: str = "past") -> Snapshot:
    """The i-th of an hourly stream: groups with many pairs inside, and some between."""
    rng = np.random.default_rng(i)
    group = np.repeat(np.arange(5), 20)
    likely = np.where(group[:, None] == group, 0.25, 0.08)  # so weak that the seed tells
    src, dst = np.argwhere(np.triu(rng.random((100, 100)) < likely, 1)).T
    begin = START + timedelta(hours=i)
    return snapshot_from_pairs(
        src, dst, graph=graph, id=f"{graph}/{i}", window=Window(begin, begin + timedelta(hours=1))
    )


@pytest.fixture(scope="session")
def redetection(model_folder: Path) -> Redetection:
    """What each engine does."""
    return Redetection(open_model(str(model_folder)), DetectSettings(threads=1, seed=7))


@pytest.fixture
def archive(tmp_path: Path) -> Store:
    """An archive of `N_SNAPSHOTS` snapshots."""
    return filled(open_store(str(tmp_path / "history")))


def filled(store: Store) -> Store:
    for i in range(N_SNAPSHOTS):
        Archive(store).add("snapshots", encode_snapshot(make_snapshot(i)))
    return store


class StopsAfter(threading.Event):
    """An event that is set once it was looked at so many times."""

    def __init__(self, n_looks: int) -> None:
        super().__init__()
        self.left = n_looks

    def is_set(self) -> bool:
        self.left -= 1
        return self.left < 0
