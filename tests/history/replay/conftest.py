"""A small past: an archive of snapshots, and the model that they are detected with."""

from __future__ import annotations

import threading
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from stream_icd.commands.cli.replay import PastOfArchive, PastOfTopic
from stream_icd.core.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.core.store.store import Store, open_store
from stream_icd.history.archive import Selection
from stream_icd.history.replay.redetect import Redetection, ReplayJob, ReplayOutcome
from stream_icd.history.replay.replay import HistoryResults, ReplayPlan, replay
from stream_icd.kafka.messages.pacing import Tempo
from stream_icd.registry.find import open_model
from stream_icd.registry.model import save_model
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.execution.work import Engine, InProcess
from stream_icd.wire.communities import decode_communities
from tests.history.conftest import add_snapshots, archived
from tests.streaming.workers.remembered import Found, said
from tests.testbed.drifting import remembering_model

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
    return Redetection(open_model(str(model_folder)), DetectSettings(threads=1, seed=7))


@pytest.fixture
def archive(tmp_path: Path) -> Store:
    return filled(open_store(str(tmp_path / "history")))


def filled(store: Store) -> Store:
    add_snapshots(store, map(make_snapshot, range(N_SNAPSHOTS)))
    return store


class StopsAfter(threading.Event):
    """An event that is set once it was looked at so many times."""

    def __init__(self, n_looks: int) -> None:
        super().__init__()
        self.left = n_looks

    def is_set(self) -> bool:
        self.left -= 1
        return self.left < 0


@pytest.fixture(scope="session")
def remembering_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that remembers, as a process of a pool opens it."""
    folder = tmp_path_factory.mktemp("models") / "test"
    save_model(remembering_model().model, folder)
    return folder


@pytest.fixture(scope="session")
def remembering(remembering_folder: Path) -> Redetection:
    settings = DetectSettings(memory="auto", threads=1)
    return Redetection(open_model(str(remembering_folder)), settings)


class Replayed(NamedTuple):
    """What a replay planned and did, and all results that are in its archive, by graph."""

    plan: ReplayPlan
    n_stored: int
    n_refused: int
    found: dict[str, list[Found]]


def replay_into(
    out: Path,
    past: PastOfTopic | PastOfArchive,
    redetection: Redetection,
    engine: Engine[ReplayJob, ReplayOutcome] | None = None,
    stop: threading.Event = threading.Event(),
) -> Replayed:
    jobs, first = past(redetection)
    store = open_store(str(out))
    results = HistoryResults(store)
    plan = ReplayPlan.of(jobs(None), results, redetection)
    work = engine or InProcess(redetection)
    done = replay(jobs(None), plan, work, results, Tempo(), lambda: 0.0, stop, first=first)
    found = defaultdict[str, list[Found]](list)
    for message in archived(store, Selection("communities")):
        result = decode_communities(message.key, message.value, message.headers)
        found[result.graph].append(said(result))
    return Replayed(plan, *done, found)
