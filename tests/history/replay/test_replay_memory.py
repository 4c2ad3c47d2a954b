"""A replay with memory finds what the stream found: from an archive, a topic, or a part of them.

Also where an operator made a graph start anew: each window is found as the stream detected it.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from stream_icd.commands.cli.replay import PastOfArchive, PastOfTopic
from stream_icd.core.errors import OffsetGone, OverBudget
from stream_icd.core.snapshot import Snapshot
from stream_icd.core.store.store import open_store
from stream_icd.history.archive import Archive, Selection
from stream_icd.history.archiver import Archiver
from stream_icd.history.compaction import compact_archive
from stream_icd.history.export import export
from stream_icd.history.files import FileKind
from stream_icd.history.replay.redetect import Redetection, ReplayJob, ReplayOutcome
from stream_icd.history.replay.smooth import smoothing_engine
from stream_icd.kafka.connect import connect
from stream_icd.kafka.in_process.broker import memory_broker
from stream_icd.kafka.messages.records import Processed, Refused
from stream_icd.kafka.messages.topic_range import TopicRange
from stream_icd.kafka.port import TopicPartition, TopicSpec
from stream_icd.kafka.record import Record
from stream_icd.kafka.topics import SNAPSHOTS, create_topics
from stream_icd.methods.memory import encoding
from stream_icd.methods.memory.smoothing import detect_smoothed
from stream_icd.streaming.detection.record import RecordDetection
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.execution.processes import in_processes
from stream_icd.streaming.execution.work import Engine, First, InProcess, Relay
from stream_icd.streaming.workers.memories import Memories
from tests.history.conftest import add_snapshots
from tests.history.replay.conftest import Replayed, StopsAfter, replay_into
from tests.run_here import run_here
from tests.streaming.workers.remembered import Found, Worker, records, said, uninterrupted
from tests.testbed.brokers import Broker
from tests.testbed.drifting import MINUTE, START, outgoing, stream
from tests.testbed.streams import held, publish

GRAPHS = ("a", "b", "c")
N_WINDOWS = 6
PART = Selection(start=START + 3 * MINUTE)
WINDOWS, OTHERS = stream("g", 8), stream("h", 8)

Expected = dict[str, list[Found]]


@pytest.fixture(scope="module")
def expected(remembering: Redetection) -> Expected:
    """What an uninterrupted run finds in each graph."""
    return {g: uninterrupted(stream(g, N_WINDOWS), remembering.model)[0] for g in GRAPHS}


def smoothed(windows: list[Snapshot], redetection: Redetection) -> list[Found]:
    found: list[Found] = []
    for window, one in zip(windows, detect_smoothed(windows, redetection.model.model), strict=True):
        ids = one.community_ids.tolist(), one.replaced.tolist()
        found.append((window.id, one.communities.tolist(), *ids, "smoothed"))
    return found


class Past:
    def __init__(self, folder: Path, redetection: Redetection, model_folder: Path) -> None:
        self.store, self._folder = open_store(str(folder / "history")), folder
        self.redetection, self._model_folder = redetection, str(model_folder)

    def archive(self, kind: FileKind, record: Record) -> None:
        assert isinstance(Archiver(Archive(self.store), kind).process(record), Processed)

    def archive_memory(
        self, last: int, *, graphs: Iterable[str] = GRAPHS, received_ms: int = 1000, **other: Any
    ) -> None:
        """Archive the memory after each window up to number `last`, as a detector publishes it."""
        settings = DetectSettings(memory="auto", memory_topic="memory", group="one", threads=1)
        work = RecordDetection(self.redetection.model, replace(settings, **other))
        for graph in graphs:
            batch = records(stream(graph, last + 1))
            for number, (_, outcome) in enumerate(InProcess(work)(batch)):
                assert isinstance(outcome, Processed)
                state = outcome.state
                of_state = state.key, state.value, state.headers
                self.archive("memory", Record("memory", 0, number, received_ms, *of_state))

    def again(
        self,
        selection: Selection = Selection(),
        redetection: Redetection | None = None,
        *,
        in_pool: bool = False,
        out: str = "again",
        **options: Any,
    ) -> Replayed:
        redetection = redetection or self.redetection

        def run(work: Any) -> Engine[Any, Any]:
            return in_processes(work, self._model_folder, 2) if in_pool else InProcess(work)

        engine = smoothing_engine(redetection, run) if redetection.smooth else run(redetection)
        past = PastOfArchive(self.store, selection)
        return replay_into(self._folder / out, past, redetection, engine, **options)


@pytest.fixture
def past(tmp_path: Path, remembering: Redetection, remembering_folder: Path) -> Past:
    """An archive of three graphs, without memory."""
    past = Past(tmp_path, remembering, remembering_folder)
    for graph in GRAPHS:
        add_snapshots(past.store, stream(graph, N_WINDOWS))
    return past


class DeadlyOnce(Redetection):
    """One window ends its process the first time, after it has taken the memory before it."""

    def __call__(self, job: ReplayJob, relay: Relay | None = None) -> ReplayOutcome:
        sign = Path(os.environ["SIGN"])
        if job.snapshot_id == "a/2" and not sign.exists():
            sign.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(job, relay)


def test_processes_find_what_an_uninterrupted_run_finds_also_if_one_is_killed(
    past: Past, expected: Expected, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIGN", str(tmp_path / "sign"))
    deadly = DeadlyOnce(past.redetection.model, past.redetection.settings)
    done = past.again(redetection=deadly, in_pool=True)
    assert (done.n_stored, done.n_refused) == (len(GRAPHS) * N_WINDOWS, 0)
    assert done.found == expected
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
    found = past.again(redetection=smooth, in_pool=True).found
    assert found == {g: smoothed(stream(g, N_WINDOWS), smooth) for g in GRAPHS}
    assert [labels for _, labels, *_ in found["a"]] != [labels for _, labels, *_ in expected["a"]]
    # Forward detection has other revisions, so both are kept in one archive.
    assert past.again().n_stored == len(GRAPHS) * N_WINDOWS


def test_a_window_that_does_not_follow_is_refused_when_smoothing_or_with_its_graph(
    past: Past,
) -> None:
    add_snapshots(past.store, [replace(stream("a", 3)[2], id="a/another")])
    done = past.again(Selection(graph="a"), replace(past.redetection, smooth=True))
    assert (done.n_stored, done.n_refused) == (N_WINDOWS, 1)
    jobs = [ReplayJob.of_archived(past.store.uri, one) for one in Archive(past.store).windows()]
    too_much = Refused("budget", OverBudget("too much"))

    def refuse(graphs: Iterable[Any], _: First) -> Iterator[tuple[Any, Refused]]:
        return ((graph, too_much) for graph in graphs)

    refused = smoothing_engine(past.redetection, lambda _: refuse)(jobs, Relay.empty)
    assert [outcome for _, outcome in refused] == [too_much] * len(jobs)


def test_what_cannot_be_smoothed_is_refused(remembering_folder: Path, tmp_path: Path) -> None:
    smooth = ("replay", "history", str(tmp_path), "--out", str(tmp_path / "out"), "--smooth")
    for options, reason in (
        (("--memory", "off"), "needs memory"),
        (("--method", "icd"), "needs memory"),
        (("--engine", "ray"), "not ray"),
        (("--rate", "1"), "excludes --speed"),
    ):
        refused = run_here(*smooth, "--model", str(remembering_folder), *options)
        assert refused.returncode == 78
        assert reason in refused.stderr


def test_a_part_of_a_topic_needs_the_windows_before_it(
    memory: Broker, topic_name: str, tmp_path: Path, remembering: Redetection, expected: Expected
) -> None:
    create_topics(memory.settings(), [TopicSpec(topic_name)])
    streams = [stream(graph, N_WINDOWS) for graph in GRAPHS]
    windows = list(chain.from_iterable(zip(*streams, strict=True)))
    windows.append(windows[3])  # it may repeat a window before it
    publish(memory, (outgoing(window, topic_name) for window in windows))
    for first, last, n_earlier, found in (
        (9, {0: 15}, 9, {graph: expected[graph][3:5] for graph in GRAPHS}),
        (18, None, 18, {"a": expected["a"][1:2]}),
    ):
        past = PastOfTopic(memory.settings(), TopicRange(topic_name, {0: first}, last), None)
        done = replay_into(tmp_path / f"{first}", past, remembering)
        assert done.n_stored == done.plan.total == sum(map(len, found.values()))
        assert len(done.plan.earlier) == n_earlier
        assert done.found == found


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


class Stream(Past):
    """A detector and an operator at work, and an archive of all that it reads."""

    def __init__(self, broker: Broker, topic: str, *place: Any) -> None:
        super().__init__(*place)
        create_topics(broker.settings(), [TopicSpec(topic, partitions=3)])
        self.broker, self.topic, self.n_sent = broker, topic, 0
        self.found: dict[str, Found] = {}

    def detect(self, *windows: Snapshot) -> None:
        """Detect windows with a detector that has just started, and archive them."""
        batch = records(list(windows), first=self.n_sent)
        results = Worker(self.broker, self.topic, group=self.topic).work(batch)
        self.n_sent += len(batch)
        self.found |= {result.snapshot_id: said(result) for result in results}
        for record in batch:
            self.archive("snapshots", record)

    def start_anew(self) -> None:
        with connect(self.broker.settings()).admin() as admin:
            admin.move_group(self.topic, {TopicPartition(SNAPSHOTS, 0): self.n_sent})
        Memories(self.broker.settings(), self.topic, self.topic).forget("g")

    def archive_states(self) -> None:
        for state in held(self.broker, self.topic):
            self.archive("memory", state)

    def found_from(self, first: int, **options: Any) -> dict[str, Found]:
        selection = Selection(start=START + first * MINUTE if first else None)
        done = self.again(selection, out=f"from {first}", **options)
        return {one[0]: one for of_graph in done.found.values() for one in of_graph}

    def check(self, *first: int) -> None:
        """A replay from each of these windows on finds what the stream found."""
        for number in first:
            later = {id: one for id, one in self.found.items() if int(id[2:]) >= number}
            assert self.found_from(number) == later


@pytest.fixture
def at_work(
    memory: Broker,
    topic_name: str,
    tmp_path: Path,
    remembering: Redetection,
    remembering_folder: Path,
) -> Stream:
    return Stream(memory, topic_name, tmp_path, remembering, remembering_folder)


@pytest.mark.parametrize("order", ["later", "earlier"])
def test_windows_before_and_after_a_start_anew_are_found_again_whatever_their_times(
    at_work: Stream, order: str
) -> None:
    halves = [(*WINDOWS[:4], *OTHERS[:4]), (*WINDOWS[4:], *OTHERS[4:])]
    if order == "earlier":
        halves = [half[:4] for half in reversed(halves)]  # windows of the other graph were late
    at_work.detect(*halves[0])
    at_work.start_anew()
    at_work.detect(*halves[1])
    at_work.archive_states()
    at_work.check(0, 3, 4, 5)


def test_windows_that_were_late_before_do_not_belong_to_the_time_after(at_work: Stream) -> None:
    """The operator acts when the source has sent some windows again from the beginning."""
    at_work.detect(*WINDOWS[4:])
    at_work.detect(*WINDOWS[:2])
    at_work.start_anew()
    at_work.detect(*WINDOWS[2:4])
    at_work.archive_states()
    uses = [at_work.found[f"g/{number}"][-1] for number in range(4)]
    assert uses == ["late", "late", "anew", "continued"]
    found = at_work.found_from(0)
    for name in ("g/2", "g/3"):
        assert found[name] == at_work.found[name]


def test_a_graph_may_start_anew_twice_and_its_archive_be_exported_and_compacted(
    at_work: Stream, tmp_path: Path
) -> None:
    at_work.detect(*WINDOWS[5:])
    at_work.start_anew()
    at_work.detect(*WINDOWS[2:5])
    at_work.start_anew()
    at_work.start_anew()
    at_work.detect(*WINDOWS[:2])
    at_work.archive_states()
    at_work.check(0, 1, 4, 6)
    for form in ("parquet", "csv", "arrow"):
        assert export(at_work.store, Selection("memory"), tmp_path / f"memory.{form}") > 0
    listed = run_here("history", "list", at_work.store.uri, "--kind", "memory").stdout
    assert "2026-01-01 00:00 2026-01-01 00:07 8 10 10 " in " ".join(listed.split())
    list(compact_archive(at_work.store, (START + timedelta(days=1)).date()))
    assert at_work.again(out="of compacted").found["g"] == at_work.again(out="from 0").found["g"]


def test_smoothing_uses_windows_after_each_one_up_to_where_the_graph_starts_anew(
    at_work: Stream,
) -> None:
    at_work.detect(*WINDOWS[:4])
    at_work.start_anew()
    at_work.detect(*WINDOWS[4:])
    at_work.archive_states()
    smooth = replace(at_work.redetection, smooth=True)
    found = at_work.found_from(0, redetection=smooth)
    expected = [
        one.communities.tolist() for one in detect_smoothed(WINDOWS[:4], smooth.model.model)
    ]
    assert [found[f"g/{number}"][1] for number in range(4)] == expected
