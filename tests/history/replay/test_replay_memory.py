"""A replay with memory finds what the stream found: from an archive, a topic, or a part of them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stream_icd.commands.cli.replay import PastOfArchive, PastOfTopic
from stream_icd.core.errors import OffsetGone
from stream_icd.core.snapshot import Snapshot
from stream_icd.core.store.store import Store, open_store
from stream_icd.history.archive import Archive, Selection, read_message, windows
from stream_icd.history.archiver import Archiver
from stream_icd.history.replay.redetect import Job, Outcome, Redetection
from stream_icd.history.replay.replay import HistoryResults, ReplayPlan, replay
from stream_icd.history.replay.smooth import smoothing_engine
from stream_icd.kafka.in_process.broker import memory_broker
from stream_icd.kafka.messages.pacing import Tempo
from stream_icd.kafka.messages.records import Processed
from stream_icd.kafka.messages.topic_range import TopicRange
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.record import Record
from stream_icd.kafka.topics import create_topics
from stream_icd.methods.memory import encoding
from stream_icd.methods.memory.smoothing import detect_smoothed
from stream_icd.registry.find import open_model
from stream_icd.registry.model import save_model
from stream_icd.streaming.detection.record import RecordDetection
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.execution.processes import in_processes
from stream_icd.streaming.execution.work import Engine, InProcess, Relay
from stream_icd.wire.communities import decode_communities
from stream_icd.wire.snapshots import encode_snapshot
from tests.history.replay.conftest import StopsAfter
from tests.run_here import run_here
from tests.streaming.workers.remembered import Found, records, said, uninterrupted
from tests.testbed.brokers import Broker
from tests.testbed.drifting import MINUTE, START, outgoing, remembering_model, stream
from tests.testbed.streams import publish

GRAPHS = ("a", "b", "c")
NEVER = threading.Event()
N_WINDOWS = 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that remembers, as a process of a pool opens it."""
    folder = tmp_path_factory.mktemp("models") / "test"
    save_model(remembering_model().model, folder)
    return folder


@pytest.fixture(scope="module")
def redetection(folder: Path) -> Redetection:
    return Redetection(open_model(str(folder)), DetectSettings(memory="auto", threads=1))


@pytest.fixture(scope="module")
def expected(redetection: Redetection) -> dict[str, list[Found]]:
    """What an uninterrupted run finds in each graph."""
    return {g: uninterrupted(stream(g, N_WINDOWS), redetection.model)[0] for g in GRAPHS}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An archive of three graphs, without memory."""
    store = open_store(str(tmp_path / "history"))
    for graph in GRAPHS:
        for snapshot in stream(graph, N_WINDOWS):
            Archive(store).add("snapshots", encode_snapshot(snapshot))
    return store


def archive_memory(
    store: Store,
    redetection: Redetection,
    graph: str,
    last: int,
    received_ms: int = 1000,
    **other: Any,
) -> None:
    """Archive the memory after each window up to number `last`, as a detector publishes it."""
    settings = DetectSettings(memory="auto", memory_topic="memory", group="one", threads=1)
    work = RecordDetection(redetection.model, replace(settings, **other))
    archiver = Archiver(Archive(store), "memory")
    batch = records(stream(graph, last + 1))
    for number, (_, outcome) in enumerate(InProcess(work)(batch)):
        assert isinstance(outcome, Processed)
        state = outcome.state
        assert state is not None
        archiver.process(
            Record("memory", 0, number, received_ms, state.key, state.value, state.headers)
        )


def replayed(
    past: PastOfTopic | PastOfArchive,
    redetection: Redetection,
    out: Store,
    engine: Engine[Job, Outcome] | None = None,
    stop: threading.Event = NEVER,
) -> tuple[ReplayPlan, Any]:
    jobs, first = past(redetection)
    results = HistoryResults(out)
    plan = ReplayPlan.of(jobs(None), results, redetection)
    done = replay(
        jobs(None),
        plan,
        engine or InProcess(redetection),
        results,
        Tempo(),
        lambda: 0.0,
        stop,  # type: ignore[arg-type]
        first=first,
    )
    return plan, done


def found_in(out: Store) -> dict[str, list[Found]]:
    """What the results in an archive say, by graph."""
    found: dict[str, list[Found]] = {}
    for noted in windows(out, Selection("communities")):
        message = read_message(out, noted)
        result = decode_communities(message.key, message.value, message.headers)
        found.setdefault(result.graph, []).append(said(result))
    return found


@pytest.mark.parametrize("name", ["serial", "pool"])  # that of Ray is in test_engines.py
def test_each_engine_finds_what_an_uninterrupted_run_finds(
    name: str,
    store: Store,
    tmp_path: Path,
    redetection: Redetection,
    folder: Path,
    expected: dict[str, list[Found]],
) -> None:
    engine: Engine[Job, Outcome] = InProcess(redetection)
    if name == "pool":
        engine = in_processes(redetection, str(folder), 2)
    out = open_store(str(tmp_path / "again"))
    past = PastOfArchive(store, Selection())
    _, done = replayed(past, redetection, out, engine)
    assert done == (len(GRAPHS) * N_WINDOWS, 0)
    assert found_in(out) == expected


class DeadlyOnce(Redetection):
    """One window ends its process the first time, after it has taken the memory before it."""

    def __call__(self, job: Job, relay: Relay | None = None) -> Outcome:
        sign = Path(os.environ["SIGN"])
        if job.snapshot_id == "a/2" and not sign.exists():
            sign.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(job, relay)


def test_a_worker_that_is_killed_changes_nothing(
    store: Store,
    tmp_path: Path,
    redetection: Redetection,
    folder: Path,
    expected: dict[str, list[Found]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SIGN", str(tmp_path / "sign"))
    deadly = DeadlyOnce(redetection.model, redetection.settings)
    out = open_store(str(tmp_path / "again"))
    engine: Engine[Job, Outcome] = in_processes(deadly, str(folder), 2)
    replayed(PastOfArchive(store, Selection()), deadly, out, engine)
    assert (tmp_path / "sign").exists()
    assert found_in(out) == expected
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("last", [None, 1, 2, 4])
def test_a_part_starts_with_the_archived_memory_before_it(
    store: Store,
    tmp_path: Path,
    redetection: Redetection,
    expected: dict[str, list[Found]],
    last: int | None,
) -> None:
    """The part begins at window 3: the archive holds no memory, an older one, or the one needed."""
    for graph in GRAPHS:
        if last is not None:
            archive_memory(store, redetection, graph, last)
    selection = Selection(start=START + 3 * MINUTE)
    out = open_store(str(tmp_path / "again"))
    plan, done = replayed(PastOfArchive(store, selection), redetection, out)
    assert done.snapshots == len(GRAPHS) * 3
    assert found_in(out) == {graph: found[3:] for graph, found in expected.items()}
    first = {None: 3, 1: 1, 2: 0, 4: 0}[last]  # windows that had to be detected for their memory
    assert len(plan.earlier) == len(GRAPHS) * first
    off = Redetection(redetection.model, DetectSettings(threads=1))  # needs nothing of before
    plan, _ = replayed(PastOfArchive(store, selection), off, open_store(str(tmp_path / "off")))
    assert plan.earlier == {}


def test_a_part_does_not_start_with_memory_of_another_version(
    store: Store,
    tmp_path: Path,
    redetection: Redetection,
    expected: dict[str, list[Found]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as before:
        before.setattr(encoding, "FORMAT", 0)
        archive_memory(store, redetection, "a", 4)
    out = open_store(str(tmp_path / "again"))
    selection = Selection(graph="a", start=START + 3 * MINUTE)
    plan, _ = replayed(PastOfArchive(store, selection), redetection, out)
    assert found_in(out) == {"a": expected["a"][3:]}
    assert len(plan.earlier) == 3


@pytest.mark.parametrize(
    ("smooth", "other"), [(False, {"horizon": "off"}), (True, {"n_communities": 4})]
)
def test_a_part_starts_with_the_memory_of_its_own_settings(
    store: Store, tmp_path: Path, redetection: Redetection, other: dict[str, Any], smooth: bool
) -> None:
    """A second group of detectors tries other settings, and its memory comes later."""
    selection, found = Selection(start=START + 3 * MINUTE), []
    asked = replace(redetection, smooth=smooth)
    for received_ms, settings in ((1000, {}), (2000, {"group": "two", **other})):
        for graph in GRAPHS:
            archive_memory(store, redetection, graph, 2, received_ms, **settings)
        out = open_store(str(tmp_path / f"again{len(found)}"))
        engine: Engine[Job, Outcome] = InProcess(asked)
        if smooth:
            engine = smoothing_engine(asked, InProcess)
        replayed(PastOfArchive(store, selection), asked, out, engine)
        found.append(found_in(out))
    assert found[0] == found[1]


@pytest.mark.parametrize("smooth", [False, True])
def test_a_replay_that_stopped_goes_on_with_the_same_memory(
    smooth: bool,
    store: Store,
    tmp_path: Path,
    redetection: Redetection,
    expected: dict[str, list[Found]],
) -> None:
    asked = replace(redetection, smooth=smooth)
    engine = smoothing_engine(asked, InProcess) if smooth else InProcess(asked)
    out, past = open_store(str(tmp_path / "again")), PastOfArchive(store, Selection())
    done = [replayed(past, asked, out, engine, stop)[1] for stop in (StopsAfter(7), *[NEVER] * 2)]
    assert [one.snapshots for one in done] == [7, 11, 0]
    if smooth:
        expected = {g: smoothed(stream(g, N_WINDOWS), redetection) for g in GRAPHS}
    assert found_in(out) == expected


def smoothed(windows: list[Snapshot], redetection: Redetection) -> list[Found]:
    """What `detect_smoothed` finds."""
    return [
        (
            snapshot.id,
            one.communities.tolist(),
            one.community_ids.tolist(),
            one.replaced.tolist(),
            "smoothed",
        )
        for snapshot, one in zip(
            windows, detect_smoothed(windows, redetection.model.model), strict=True
        )
    ]


@pytest.mark.parametrize("name", ["serial", "pool"])
def test_smoothed_replays_use_the_windows_after_each_one(
    name: str,
    store: Store,
    tmp_path: Path,
    redetection: Redetection,
    folder: Path,
    expected: dict[str, list[Found]],
) -> None:
    smooth = replace(redetection, smooth=True)

    def run(work: Any) -> Engine[Any, Any]:
        return InProcess(work) if name == "serial" else in_processes(work, str(folder), 2)

    out = open_store(str(tmp_path / "again"))
    past = PastOfArchive(store, Selection())
    _, done = replayed(past, smooth, out, smoothing_engine(smooth, run))
    assert done == (len(GRAPHS) * N_WINDOWS, 0)
    found = found_in(out)
    assert found == {g: smoothed(stream(g, N_WINDOWS), redetection) for g in GRAPHS}
    assert any(
        one[1] != other[1] for g in GRAPHS for one, other in zip(found[g], expected[g], strict=True)
    )
    # Forward detection has other revisions, so both are kept in one archive.
    _, again = replayed(past, redetection, out)
    assert again.snapshots == len(GRAPHS) * N_WINDOWS


def test_a_window_that_does_not_follow_is_refused_when_smoothing(
    store: Store, tmp_path: Path, redetection: Redetection
) -> None:
    twice = replace(stream("a", 3)[2], id="a/another")
    Archive(store).add("snapshots", encode_snapshot(twice))
    engine = smoothing_engine(redetection, InProcess)
    out = open_store(str(tmp_path / "again"))
    past = PastOfArchive(store, Selection(graph="a"))
    _, done = replayed(past, replace(redetection, smooth=True), out, engine)
    assert done == (N_WINDOWS, 1)


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
    folder: Path, tmp_path: Path, options: list[str], reason: str
) -> None:
    smooth = ("replay", "history", str(tmp_path), "--out", str(tmp_path / "out"), "--smooth")
    refused = run_here(*smooth, "--model", str(folder), *options)
    assert refused.returncode == 78
    assert reason in refused.stderr


@pytest.mark.parametrize(
    ("sent", "part", "counts", "found"),
    [
        ([(at, g) for at in range(N_WINDOWS) for g in GRAPHS], (9, 15), (6, 6, 9), slice(3, 5)),
        # It may repeat a window before it.
        ([(at, "a") for at in (0, 1, 2, 1)], (3, None), (1, 1, 3), slice(1, 2)),
    ],
)
def test_a_part_of_a_topic_needs_the_windows_before_it(
    sent: list[tuple[int, str]],
    part: tuple[int, int | None],
    counts: tuple[int, int, int],
    found: slice,
    memory: Broker,
    topic_name: str,
    tmp_path: Path,
    redetection: Redetection,
    expected: dict[str, list[Found]],
) -> None:
    create_topics(memory.settings(), [TopicSpec(topic_name)])
    windows = (stream(graph, N_WINDOWS)[at] for at, graph in sent)
    publish(memory, (outgoing(window, topic_name) for window in windows))
    chosen = TopicRange(topic_name, {0: part[0]}, None if part[1] is None else {0: part[1]})
    out = open_store(str(tmp_path / "again"))
    plan, done = replayed(PastOfTopic(memory.settings(), chosen, None), redetection, out)
    assert (done.snapshots, plan.total, len(plan.earlier)) == counts
    assert found_in(out) == {graph: expected[graph][found] for graph in {g for _, g in sent}}


def test_a_part_of_a_topic_begins_at_an_offset_that_the_topic_holds(
    topic_name: str, redetection: Redetection
) -> None:
    with memory_broker("retained") as broker:
        retained = Broker("memory", broker.bootstrap_servers, os.getpid())
        create_topics(retained.settings(), [TopicSpec(topic_name)])
        publish(retained, (outgoing(window, topic_name) for window in stream(GRAPHS[0], 3)))
        broker.remove_before(topic_name, 0, 2)
        jobs, _ = PastOfTopic(retained.settings(), TopicRange(topic_name, {0: 1}), None)(
            redetection
        )
        with pytest.raises(OffsetGone, match="from 2 up to, not including, 3; .* 1$"):
            list(jobs(None))
