"""A replay with memory finds what the stream found: from an archive, a topic, or a part of them."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stream_icd.commands.cli.replay import PastOfArchive, PastOfTopic
from stream_icd.core.errors import OffsetGone
from stream_icd.core.snapshot import Snapshot
from stream_icd.core.store.store import open_store
from stream_icd.history.archive import Archive, Selection
from stream_icd.history.archiver import Archiver
from stream_icd.history.replay.redetect import Redetection, ReplayJob, ReplayOutcome
from stream_icd.history.replay.smooth import smoothing_engine
from stream_icd.kafka.in_process.broker import memory_broker
from stream_icd.kafka.messages.records import Processed
from stream_icd.kafka.messages.topic_range import TopicRange
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.record import Record
from stream_icd.kafka.topics import create_topics
from stream_icd.methods.memory import encoding
from stream_icd.methods.memory.smoothing import detect_smoothed
from stream_icd.streaming.detection.record import RecordDetection
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.execution.processes import in_processes
from stream_icd.streaming.execution.work import Engine, InProcess, Relay
from tests.history.conftest import add_snapshots
from tests.history.replay.conftest import Replayed, StopsAfter, replay_into
from tests.run_here import run_here
from tests.streaming.workers.remembered import Found, records, uninterrupted
from tests.testbed.brokers import Broker
from tests.testbed.drifting import MINUTE, START, outgoing, stream
from tests.testbed.streams import publish

GRAPHS = ("a", "b", "c")
N_WINDOWS = 6
PART = Selection(start=START + 3 * MINUTE)

Expected = dict[str, list[Found]]


@pytest.fixture(scope="module")
def expected(remembering: Redetection) -> Expected:
    """What an uninterrupted run finds in each graph."""
    return {g: uninterrupted(stream(g, N_WINDOWS), remembering.model)[0] for g in GRAPHS}


def smoothed(windows: list[Snapshot], redetection: Redetection) -> list[Found]:
    """What `detect_smoothed` finds."""
    found: list[Found] = []
    for window, one in zip(windows, detect_smoothed(windows, redetection.model.model), strict=True):
        ids = one.community_ids.tolist(), one.replaced.tolist()
        found.append((window.id, one.communities.tolist(), *ids, "smoothed"))
    return found


class Past:
    """An archive of three graphs, without memory, and replays of it."""

    def __init__(self, folder: Path, redetection: Redetection, model_folder: Path) -> None:
        self.store, self._folder = open_store(str(folder / "history")), folder
        self.redetection, self._model_folder = redetection, str(model_folder)
        for graph in GRAPHS:
            add_snapshots(self.store, stream(graph, N_WINDOWS))

    def archive_memory(
        self, last: int, *, graphs: Iterable[str] = GRAPHS, received_ms: int = 1000, **other: Any
    ) -> None:
        """Archive the memory after each window up to number `last`, as a detector publishes it."""
        settings = DetectSettings(memory="auto", memory_topic="memory", group="one", threads=1)
        work = RecordDetection(self.redetection.model, replace(settings, **other))
        archiver = Archiver(Archive(self.store), "memory")
        for graph in graphs:
            batch = records(stream(graph, last + 1))
            for number, (_, outcome) in enumerate(InProcess(work)(batch)):
                assert isinstance(outcome, Processed)
                state = outcome.state
                assert state is not None
                of_state = state.key, state.value, state.headers
                archiver.process(Record("memory", 0, number, received_ms, *of_state))

    def again(
        self,
        selection: Selection = Selection(),
        redetection: Redetection | None = None,
        *,
        in_pool: bool = False,
        out: str = "again",
        **options: Any,
    ) -> Replayed:
        """Replay the selection into an archive beside it."""
        redetection = redetection or self.redetection

        def run(work: Any) -> Engine[Any, Any]:
            return in_processes(work, self._model_folder, 2) if in_pool else InProcess(work)

        engine = smoothing_engine(redetection, run) if redetection.smooth else run(redetection)
        past = PastOfArchive(self.store, selection)
        return replay_into(self._folder / out, past, redetection, engine, **options)


@pytest.fixture
def past(tmp_path: Path, remembering: Redetection, remembering_folder: Path) -> Past:
    return Past(tmp_path, remembering, remembering_folder)


@pytest.mark.parametrize("in_pool", [False, True])  # that of Ray is in test_engines.py
def test_each_engine_finds_what_an_uninterrupted_run_finds(
    past: Past, expected: Expected, *, in_pool: bool
) -> None:
    done = past.again(in_pool=in_pool)
    assert (done.n_stored, done.n_refused) == (len(GRAPHS) * N_WINDOWS, 0)
    assert done.found == expected


class DeadlyOnce(Redetection):
    """One window ends its process the first time, after it has taken the memory before it."""

    def __call__(self, job: ReplayJob, relay: Relay | None = None) -> ReplayOutcome:
        sign = Path(os.environ["SIGN"])
        if job.snapshot_id == "a/2" and not sign.exists():
            sign.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(job, relay)


def test_a_worker_that_is_killed_changes_nothing(
    past: Past, expected: Expected, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIGN", str(tmp_path / "sign"))
    deadly = DeadlyOnce(past.redetection.model, past.redetection.settings)
    assert past.again(redetection=deadly, in_pool=True).found == expected
    assert (tmp_path / "sign").exists()
    assert not multiprocessing.active_children()


@pytest.mark.parametrize(("last", "n_earlier"), [(None, 3), (1, 1), (2, 0), (4, 0)])
def test_a_part_starts_with_the_archived_memory_before_it(
    past: Past, expected: Expected, last: int | None, n_earlier: int
) -> None:
    """The part begins at window 3: the archive holds no memory, an older one, or the one needed."""
    if last is not None:
        past.archive_memory(last)
    done = past.again(PART)
    assert done.n_stored == len(GRAPHS) * 3
    assert done.found == {graph: found[3:] for graph, found in expected.items()}
    assert len(done.plan.earlier) == len(GRAPHS) * n_earlier
    off = Redetection(past.redetection.model, DetectSettings(threads=1))  # it needs no memory
    assert past.again(PART, off, out="off").plan.earlier == {}


def test_a_part_does_not_start_with_memory_of_another_version(
    past: Past, expected: Expected, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as before:
        before.setattr(encoding, "FORMAT", 0)
        past.archive_memory(4, graphs="a")
    done = past.again(replace(PART, graph="a"))
    assert done.found == {"a": expected["a"][3:]}
    assert len(done.plan.earlier) == 3


@pytest.mark.parametrize(
    ("smooth", "other"), [(False, {"horizon": "off"}), (True, {"n_communities": 4})]
)
def test_a_part_starts_with_the_memory_of_its_own_settings(
    past: Past, other: dict[str, Any], smooth: bool
) -> None:
    """A second group of detectors tries other settings, and its memory comes later."""
    redetection = replace(past.redetection, smooth=smooth)
    past.archive_memory(2)
    found = past.again(PART, redetection, out="first").found
    past.archive_memory(2, received_ms=2000, group="two", **other)
    assert past.again(PART, redetection, out="second").found == found


@pytest.mark.parametrize("smooth", [False, True])
def test_a_replay_that_stopped_goes_on_with_the_same_memory(
    past: Past, expected: Expected, smooth: bool
) -> None:
    redetection = replace(past.redetection, smooth=smooth)
    first = past.again(redetection=redetection, stop=StopsAfter(7))
    second, third = (past.again(redetection=redetection) for _ in range(2))
    assert [first.n_stored, second.n_stored, third.n_stored] == [7, 11, 0]
    if smooth:
        expected = {g: smoothed(stream(g, N_WINDOWS), redetection) for g in GRAPHS}
    assert third.found == expected


def test_smoothed_replays_use_the_windows_after_each_one(past: Past, expected: Expected) -> None:
    smooth = replace(past.redetection, smooth=True)
    done = past.again(redetection=smooth, in_pool=True)
    assert (done.n_stored, done.n_refused) == (len(GRAPHS) * N_WINDOWS, 0)
    assert done.found == {g: smoothed(stream(g, N_WINDOWS), smooth) for g in GRAPHS}
    forward = [labels for g in GRAPHS for _, labels, *_ in expected[g]]
    assert [labels for g in GRAPHS for _, labels, *_ in done.found[g]] != forward
    # Forward detection has other revisions, so both are kept in one archive.
    assert past.again().n_stored == len(GRAPHS) * N_WINDOWS


def test_a_window_that_does_not_follow_is_refused_when_smoothing(past: Past) -> None:
    add_snapshots(past.store, [replace(stream("a", 3)[2], id="a/another")])
    done = past.again(Selection(graph="a"), replace(past.redetection, smooth=True))
    assert (done.n_stored, done.n_refused) == (N_WINDOWS, 1)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--memory", "off"], "needs memory"),
        (["--method", "icd"], "needs memory"),
        (["--engine", "ray"], "not ray"),
        (["--rate", "1"], "excludes --speed"),
    ],
)
def test_what_cannot_be_smoothed_is_refused(
    remembering_folder: Path, tmp_path: Path, options: list[str], reason: str
) -> None:
    smooth = ("replay", "history", str(tmp_path), "--out", str(tmp_path / "out"), "--smooth")
    refused = run_here(*smooth, "--model", str(remembering_folder), *options)
    assert refused.returncode == 78
    assert reason in refused.stderr


@pytest.mark.parametrize(
    ("sent", "first", "last", "n_stored", "n_earlier", "found"),
    [
        ([(at, g) for at in range(N_WINDOWS) for g in GRAPHS], 9, 15, 6, 9, slice(3, 5)),
        # It may repeat a window before it.
        ([(at, "a") for at in (0, 1, 2, 1)], 3, None, 1, 3, slice(1, 2)),
    ],
)
def test_a_part_of_a_topic_needs_the_windows_before_it(
    sent: list[tuple[int, str]],
    first: int,
    last: int | None,
    n_stored: int,
    n_earlier: int,
    found: slice,
    memory: Broker,
    topic_name: str,
    tmp_path: Path,
    remembering: Redetection,
    expected: Expected,
) -> None:
    create_topics(memory.settings(), [TopicSpec(topic_name)])
    windows = (stream(graph, N_WINDOWS)[at] for at, graph in sent)
    publish(memory, (outgoing(window, topic_name) for window in windows))
    part = TopicRange(topic_name, {0: first}, None if last is None else {0: last})
    done = replay_into(tmp_path, PastOfTopic(memory.settings(), part, None), remembering)
    assert done.n_stored == done.plan.total == n_stored
    assert len(done.plan.earlier) == n_earlier
    assert done.found == {graph: expected[graph][found] for graph in {g for _, g in sent}}


def test_a_part_of_a_topic_begins_at_an_offset_that_the_topic_holds(
    topic_name: str, remembering: Redetection
) -> None:
    with memory_broker("retained") as broker:
        retained = Broker("memory", broker.bootstrap_servers, os.getpid())
        create_topics(retained.settings(), [TopicSpec(topic_name)])
        publish(retained, (outgoing(window, topic_name) for window in stream(GRAPHS[0], 3)))
        broker.remove_before(topic_name, 0, 2)
        part = TopicRange(topic_name, {0: 1})
        jobs, _ = PastOfTopic(retained.settings(), part, None)(remembering)
        with pytest.raises(OffsetGone, match="from 2 up to, not including, 3; .* 1$"):
            list(jobs(None))
